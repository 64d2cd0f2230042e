# What only the tests, examples and benchmarks of this repository are compiled with; nothing of it reaches a user.
option(TENET_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
option(TENET_NATIVE "Compile for the processor of this machine" OFF)

add_library(tenet_develop INTERFACE)
target_link_libraries(tenet_develop INTERFACE tenet::tenet)
set(warnings $<$<BOOL:${TENET_WARNINGS_AS_ERRORS}>:-Werror>)
set(processor $<$<BOOL:${TENET_NATIVE}>:-march=native>)
target_compile_options(tenet_develop INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;${warnings};${processor}>"
  # The code that nvcc makes for the host is no concern of -Wpedantic.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra$<$<BOOL:${TENET_NATIVE}>:,-march=native>>"
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TENET_WARNINGS_AS_ERRORS}>>:-Werror=all-warnings>)

# What of this repository is compiled as CUDA C++, by the toolkit that the component has found.
if(TARGET tenet::cuda)
  find_program(TENET_NVCC NAMES nvcc HINTS ${CUDAToolkit_BIN_DIR} /usr/local/cuda/bin)
  set(CMAKE_CUDA_COMPILER ${TENET_NVCC} CACHE FILEPATH "")
  set(CMAKE_CUDA_ARCHITECTURES 80 90 CACHE STRING "Generations of GPUs that tests and examples are compiled for")
  enable_language(CUDA)
endif()
if(TARGET tenet::data)
  target_link_libraries(tenet_develop INTERFACE tenet::data)
endif()
