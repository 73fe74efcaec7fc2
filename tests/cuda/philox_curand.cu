/* philox_curand.cu: our Philox beside cuRAND's curand_Philox4x32_10, word for word. cuRAND's header
 * compiles for the processor too, so that is compared everywhere; on a GPU both run in a kernel.
 *
 *   philox_curand             on the processor
 *   philox_curand --device    and on the GPU, which must be there */
#include "base/philox.h"
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>
#define QUALIFIERS static inline __host__ __device__
#include <curand_philox4x32_x.h>

enum { N_DRAWS = 1 << 20, BLOCK = 256 };

/* Draws that reach every bit of a counter and of a key; the first have zeros and ones alone. */
static __host__ __device__ ls_draw draw_of(uint64_t i)
{
    const uint64_t a = ls__mix64(i), b = ls__mix64(~i);
    ls_draw draw = {};
    if (i == 0) return draw;
    draw.stream = (ls_random_stream)(i == 1 ? 255 : a & 255);
    draw.layer = i == 1 ? 0xffff : (uint32_t)(a >> 8 & 0xffff);
    draw.epoch = i == 1 ? (1 << 20) - 1 : (uint32_t)(a >> 24 & ((1 << 20) - 1));
    draw.step = i == 1 ? (UINT64_C(1) << 36) - 1 : b & ((UINT64_C(1) << 36) - 1);
    draw.sample = i == 1 ? (UINT64_C(1) << 40) - 1 : ls__mix64(b) & ((UINT64_C(1) << 40) - 1);
    draw.block = (uint32_t)(b >> 56);
    return draw;
}

/* How many of a draw's four words differ. */
static __host__ __device__ int n_different(uint64_t i)
{
    const ls_draw draw = draw_of(i);
    const ls__philox_input input = ls__random_input(i == 1 ? ~UINT64_C(0) : i, &draw);
    uint32_t ours[4];
    ls__philox_sample(&input, 0, ours);
    const uint4 counter = { (uint32_t)input.low, (uint32_t)(input.low >> 32), (uint32_t)input.high,
                            (uint32_t)(input.high >> 32) };
    const uint2 key = { input.key[0], input.key[1] };
    const uint4 theirs = curand_Philox4x32_10(counter, key);
    return (ours[0] != theirs.x) + (ours[1] != theirs.y) + (ours[2] != theirs.z) +
           (ours[3] != theirs.w);
}

static __global__ void compare_kernel(unsigned long long *different)
{
    const uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const int n = i < N_DRAWS ? n_different(i) : 0;
    if (n > 0) atomicAdd(different, (unsigned long long)n);
}

/* Negative when the GPU can't be used. */
static long long compare_on_device(void)
{
    unsigned long long *sum = NULL, different = 0;
    cudaError_t status = cudaMalloc((void **)&sum, sizeof(*sum));
    if (status == cudaSuccess) status = cudaMemset(sum, 0, sizeof(*sum));
    if (status == cudaSuccess) {
        compare_kernel<<<N_DRAWS / BLOCK, BLOCK>>>(sum);
        status = cudaGetLastError();
    }
    if (status == cudaSuccess)
        status = cudaMemcpy(&different, sum, sizeof(different), cudaMemcpyDeviceToHost);
    if (status != cudaSuccess) fprintf(stderr, "philox_curand: %s\n", cudaGetErrorString(status));
    (void)cudaFree(sum);
    return status == cudaSuccess ? (long long)different : -1;
}

int main(int argc, char **argv)
{
    const bool device = argc > 1 && strcmp(argv[1], "--device") == 0;
    long long different = 0;
    for (uint64_t i = 0; i < N_DRAWS; i++) different += n_different(i);
    printf("processor: %lld of %lld words differ\n", different, 4LL * N_DRAWS);
    if (device) {
        const long long on_device = compare_on_device();
        printf("GPU: %lld of %lld words differ\n", on_device, 4LL * N_DRAWS);
        different += on_device < 0 ? 1 : on_device;
    }
    return different == 0 ? 0 : 1;
}
