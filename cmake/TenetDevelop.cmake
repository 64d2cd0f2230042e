# What only the tests, examples and benchmarks of this repository are compiled with; nothing of it reaches a user.
option(TENET_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)
option(TENET_NATIVE "Compile for the processor of this machine" OFF)

add_library(tenet_develop INTERFACE)
target_link_libraries(tenet_develop INTERFACE tenet::tenet)
target_compile_options(tenet_develop INTERFACE -Wall -Wextra -Wpedantic -Wshadow
  $<$<BOOL:${TENET_WARNINGS_AS_ERRORS}>:-Werror> $<$<BOOL:${TENET_NATIVE}>:-march=native>)
if(TARGET tenet::data)
  target_link_libraries(tenet_develop INTERFACE tenet::data)
endif()
