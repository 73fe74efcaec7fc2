/* portable.h: the features of CUDA's C++ that the kernels use. The emulator of tests/cuda
 * implements them, so the same sources run on a GPU and, in tests, on a CPU. Either all threads of
 * a block reach a __syncthreads() or none does. */
#ifndef LS_CUDA_PORTABLE_H
#define LS_CUDA_PORTABLE_H

#ifdef LS__CUDA_EMULATED
#include "emulator.h"
#define LS__UNROLL
#define LS__ROLLED
#define LS__GRID_CONSTANT
#else
#include <cuda_runtime.h>
#define LS__UNROLL        _Pragma("unroll")
#define LS__ROLLED        _Pragma("unroll 1") /* unrolling computes the trip count by a division */
/* A parameter that is indexed in constant memory, instead of in a copy in local memory. */
#define LS__GRID_CONSTANT __grid_constant__
/* Launches a kernel. The value is the status of the launch. */
#define LS__LAUNCH(kernel, n_blocks, n_threads, stream, ...)                                       \
    (kernel<<<(n_blocks), (n_threads), 0, (cudaStream_t)(stream)>>>(__VA_ARGS__),                  \
     (int)cudaGetLastError())
#endif

#include "cuda/kernels/kernels.h"

enum { LS__BLOCK = 256 /* threads of a block, unless stated otherwise */ };

/* A grid-stride loop, for element-wise kernels. */
#define LS__FOR_EACH(i, count) LS__FOR_EACH_OF(int64_t, i, count)
#define LS__FOR_EACH_OF(type, i, count)                                                            \
    LS__ROLLED                                                                                     \
    for (type i = (type)blockIdx.x * (type)blockDim.x + (type)threadIdx.x; i < (count);            \
         i += (type)gridDim.x * (type)blockDim.x)

/* Up to this count, indices are 32-bit. The index after the last one is at most 2^24 larger, so it
 * fits too. The limit is low on the emulated device, so that its tests run 32-bit and 64-bit
 * kernels. */
#ifdef LS__CUDA_EMULATED
enum { LS__MAX_INT32_COUNT = 1 << 14 };
#else
enum { LS__MAX_INT32_COUNT = 1 << 30 };
#endif

/* Blocks for a number of elements. It depends on nothing else. */
static inline unsigned ls__blocks_for(int64_t count)
{
    const int64_t max_blocks = 1 << 16, blocks = (count + LS__BLOCK - 1) / LS__BLOCK;
    return (unsigned)(blocks < 1 ? 1 : blocks < max_blocks ? blocks : max_blocks);
}

/* Combines one value per thread of a block in a fixed tree. Every thread gets the result. `shared`
 * holds a value per thread; blockDim.x is a power of two. */
template <typename T, typename F>
static __device__ inline T ls__block_reduce(T value, T *shared, F combine)
{
    const unsigned t = threadIdx.x;
    __syncthreads();
    shared[t] = value;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) shared[t] = combine(shared[t], shared[t + half]);
    }
    __syncthreads();
    return shared[0];
}

template <typename T> static __device__ inline T ls__block_sum(T value, T *shared)
{
    return ls__block_reduce(value, shared, [](T a, T b) { return a + b; });
}

/* The sum of n values, added by a block of n_threads threads. */
template <typename T>
static __device__ inline double ls__block_total(const T *values, int64_t n, int n_threads,
                                                double *shared)
{
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += n_threads) sum += (double)values[i];
    return ls__block_sum(sum, shared);
}

#endif
