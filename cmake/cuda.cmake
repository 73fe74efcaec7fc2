# The CUDA backend: its sources, and whether the toolkit and cuDNN are here to build its module.
set(LOCKSTEP_CUDA_ARCHITECTURES 80-real 86-real 89-real 90-real 100-real 120 CACHE STRING
  "What the module has code for; the last one as PTX too, for what comes later")

# In the order of their layers: each file calls files before it only.
set(LOCKSTEP_CUDA_SOURCES device/environment.c device/device.c nccl/library.c nccl/ranks.c device/streams.c device/memory.c device/capture.c
  our_kernels.c providers.c backend.c)
set(LOCKSTEP_CUDA_KERNELS kernels/elementwise.cu kernels/memory.cu kernels/norm.cu kernels/rows.cu kernels/pool.cu
  kernels/loss.cu
  kernels/optimizer.cu kernels/direct.cu kernels/depthwise.cu kernels/column_sums.cu)
# Files of the core that need nothing else of it, built once more into the module.
set(LOCKSTEP_CUDA_CORE src/backend/module_host.c src/base/text.c src/base/utf8.c src/base/hash.c src/base/random.c src/base/shape.c src/backend/ops.c)

# What the module and its emulated twins have in common.
function(lockstep_cuda_core target)
  list(TRANSFORM LOCKSTEP_CUDA_CORE PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE core)
  target_sources(${target} PRIVATE ${core})
endfunction()
function(lockstep_cuda_options target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${LOCKSTEP_XXHASH_INCLUDE})
  target_compile_definitions(${target} PRIVATE LS_STATIC _GNU_SOURCE)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C>:$<TARGET_PROPERTY:lockstep_flags,INTERFACE_COMPILE_OPTIONS>>)
endfunction()

include(cmake/cudnn.cmake)
if(NOT DEFINED LOCKSTEP_CUDA OR LOCKSTEP_CUDA)
  find_package(CUDAToolkit 12.0 QUIET)
else()
  set(LOCKSTEP_CUDNN OFF)
endif()
lockstep_optional(CUDA "the CUDA module, which uses the CUDA toolkit and cuDNN"
  "the CUDA toolkit or cuDNN is missing; CUDAToolkit_ROOT may name its folder"
  LOCKSTEP_CUDNN CUDAToolkit_FOUND CUDAToolkit_NVCC_EXECUTABLE)
if(LOCKSTEP_HAS_CUDA)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "CUDA compiler")
  enable_language(CXX)
  enable_language(CUDA)
endif()
