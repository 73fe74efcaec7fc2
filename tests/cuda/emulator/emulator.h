/* emulator.h: as much of CUDA's C++ as src/cuda/kernels uses, on a processor. A block's threads are
 * coroutines that take turns at __syncthreads(); blocks run one after the other. */
#ifndef LS_TEST_EMULATOR_H
#define LS_TEST_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define __global__ __attribute__((unused))
#define __device__ __attribute__((unused))
#define __shared__ static /* one block runs at a time */

struct emulated_place {
    unsigned x;
};
extern emulated_place threadIdx, blockIdx, blockDim, gridDim;

void emulate_syncthreads(void);
#define __syncthreads emulate_syncthreads

static inline unsigned long long atomicAdd(unsigned long long *sum, unsigned long long value)
{
    const unsigned long long before = *sum;
    *sum += value;
    return before;
}

/* Runs body(arg) as every thread of every block; gives the launch's status. */
int emulate_launch(unsigned n_blocks, unsigned n_threads, void (*body)(void *arg), void *arg);

template <typename F>
static inline int emulate_kernel(unsigned n_blocks, unsigned n_threads, F body)
{
    return emulate_launch(
        n_blocks, n_threads, [](void *arg) { (*(F *)arg)(); }, &body);
}

#define LS__LAUNCH(kernel, n_blocks, n_threads, stream, ...)                                       \
    ((void)(stream), emulate_kernel((n_blocks), (n_threads), [=] { kernel(__VA_ARGS__); }))

#endif
