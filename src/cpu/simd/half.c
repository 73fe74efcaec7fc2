/* half.c: rows of bf16, for AVX2. */
#include "arith/half.h"
#include "cpu/simd/half.h"

void ls__bf16_read(const uint16_t *from, int64_t n, float *to)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, ls__load_8_bf16(from + i));
    for (; i < n; i++) to[i] = ls__bf16_to_f32(from[i]);
}

void ls__bf16_write(const float *from, int64_t n, uint16_t *to)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) ls__store_8_bf16(to + i, _mm256_loadu_ps(from + i));
    for (; i < n; i++) to[i] = ls__f32_to_bf16(from[i]);
}
