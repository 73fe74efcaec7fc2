/* emulator.h: as much of CUDA's C++ as src/cuda/kernels uses, on a processor. A block's threads are
 * coroutines that take turns at __syncthreads(); blocks run one after the other. */
#ifndef LS_TEST_EMULATOR_H
#define LS_TEST_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define __grid_constant__
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

/* Queues body(arg), with a copy of arg, as every thread of every block; gives the launch's status.
 */
int emulate_launch(void *stream, unsigned n_blocks, unsigned n_threads, void (*body)(void *arg),
                   const void *arg, size_t arg_bytes);

template <typename F>
static inline int emulate_body(void *stream, unsigned n_blocks, unsigned n_threads, F body)
{
    static_assert(__is_trivially_copyable(F), "kernels take plain values");
    return emulate_launch(
        stream, n_blocks, n_threads, [](void *arg) { (*(F *)arg)(); }, &body, sizeof(body));
}

/* The kernel's arguments are what they are now. */
template <typename K, typename... A>
static inline int emulate_kernel(void *stream, unsigned n_blocks, unsigned n_threads, K kernel,
                                 A... args)
{
    return emulate_body(stream, n_blocks, n_threads, [=] { kernel(args...); });
}

#define LS__LAUNCH(kernel, n_blocks, n_threads, stream, ...)                                       \
    emulate_kernel((stream), (n_blocks), (n_threads), [](auto... args) { kernel(args...); },       \
                   __VA_ARGS__)

#endif
