# tenet::cuda_libraries: what Tenet's CUDA device is linked with, and the options that it wants of nvcc. For projects
# that enable the language CUDA, and for those that only link what others have compiled.
find_package(CUDAToolkit 12.0 QUIET)
find_path(TENET_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
find_library(TENET_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib64)
# Several GPUs want NCCL; one does without.
find_path(TENET_NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
find_library(TENET_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib64)
mark_as_advanced(TENET_CUDNN_INCLUDE_DIR TENET_CUDNN_LIBRARY TENET_NCCL_INCLUDE_DIR TENET_NCCL_LIBRARY)

set(TenetCudaLibraries_FOUND FALSE)
if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cublasLt)
  set(TenetCudaLibraries_NOT_FOUND_MESSAGE "the CUDA toolkit is missing")
elseif(NOT TENET_CUDNN_INCLUDE_DIR OR NOT TENET_CUDNN_LIBRARY)
  set(TenetCudaLibraries_NOT_FOUND_MESSAGE "cuDNN is missing")
else()
  set(TenetCudaLibraries_FOUND TRUE)
endif()

if(TenetCudaLibraries_FOUND AND NOT TARGET tenet::cuda_libraries)
  add_library(tenet::cuda_libraries INTERFACE IMPORTED)
  target_link_libraries(tenet::cuda_libraries INTERFACE CUDA::cudart CUDA::cublasLt ${TENET_CUDNN_LIBRARY})
  target_include_directories(tenet::cuda_libraries SYSTEM INTERFACE ${TENET_CUDNN_INCLUDE_DIR})
  if(TENET_NCCL_INCLUDE_DIR AND TENET_NCCL_LIBRARY)
    target_link_libraries(tenet::cuda_libraries INTERFACE ${TENET_NCCL_LIBRARY})
    target_include_directories(tenet::cuda_libraries SYSTEM INTERFACE ${TENET_NCCL_INCLUDE_DIR})
  endif()
  # Thrust's headers, which nvcc finds by itself, for a compiler of the host (tenet/device/cuda_on_host.hpp).
  find_path(TENET_THRUST_INCLUDE_DIR thrust/version.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl)
  mark_as_advanced(TENET_THRUST_INCLUDE_DIR)
  target_include_directories(tenet::cuda_libraries SYSTEM INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:${TENET_THRUST_INCLUDE_DIR}>)
  # CMake 3.25 does not know that nvcc has C++20. Element functions are constexpr: the other option makes them functions
  # of kernels, too.
  target_compile_options(tenet::cuda_libraries INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
endif()
