/* portable.h: what the kernels are written in: CUDA's C++, of which the emulator of tests/cuda
 * understands as much as is used here, so that the same sources run on a GPU and in tests on a
 * processor. A block's threads must reach __syncthreads() all or none. */
#ifndef LS_CUDA_PORTABLE_H
#define LS_CUDA_PORTABLE_H

#ifdef LS__CUDA_EMULATED
#include "emulator.h"
#define LS__UNROLL
#define LS__ROLLED
#else
#include <cuda_runtime.h>
#define LS__UNROLL _Pragma("unroll")
#define LS__ROLLED _Pragma("unroll 1") /* else the number of rounds is computed, by a division */
/* Starts a kernel and gives the status of starting it. */
#define LS__LAUNCH(kernel, n_blocks, n_threads, stream, ...)                                       \
    (kernel<<<(n_blocks), (n_threads), 0, (cudaStream_t)(stream)>>>(__VA_ARGS__),                  \
     (int)cudaGetLastError())
#endif

#include "cuda/kernels/kernels.h"

enum { LS__BLOCK = 256 /* threads of a block, where nothing else is said */ };

/* Element-wise kernels: a thread goes from its first element by the number of all threads. */
#define LS__FOR_EACH(i, count) LS__FOR_EACH_OF(int64_t, i, count)
#define LS__FOR_EACH_OF(type, i, count)                                                            \
    LS__ROLLED                                                                                     \
    for (type i = (type)blockIdx.x * (type)blockDim.x + (type)threadIdx.x; i < (count);            \
         i += (type)gridDim.x * (type)blockDim.x)

/* Up to so many things are numbered in 32 bits: then the number after the last one, which is at
 * most 2^24 more, fits too. On the emulated device few, so that its tests run both kinds. */
#ifdef LS__CUDA_EMULATED
enum { LS__MOST_SMALL = 1 << 14 };
#else
enum { LS__MOST_SMALL = 1 << 30 };
#endif

/* Blocks for so many elements; by their number alone. */
static inline unsigned ls__blocks_for(int64_t count)
{
    const int64_t most = 1 << 16, blocks = (count + LS__BLOCK - 1) / LS__BLOCK;
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* Adds up a value of each of a block's threads, or takes their maximum, in a fixed tree; the result
 * is every thread's. `shared` has room for LS__BLOCK values; blockDim.x is a power of two. */
template <typename T> static __device__ T ls__block_sum(T value, T *shared)
{
    const unsigned t = threadIdx.x;
    __syncthreads();
    shared[t] = value;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) shared[t] += shared[t + half];
    }
    __syncthreads();
    return shared[0];
}

static __device__ inline float ls__block_max(float value, float *shared)
{
    const unsigned t = threadIdx.x;
    __syncthreads();
    shared[t] = value;
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half && shared[t + half] > shared[t]) shared[t] = shared[t + half];
    }
    __syncthreads();
    return shared[0];
}

#endif
