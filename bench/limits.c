/* limits.c: see limits.h. */
#include "limits.h"
#include "base/threads.h"
#include "cpu/cpu.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    TRIES = 8,
    ROUNDS = 200000,       /* some 20 ms */
    COPY_BYTES = 64 << 20, /* of a thread's two buffers together */
    CHAINS = 10,           /* two units of four or five cycles' latency */
};

/* ---- Multiply-adds: each returns the flops of ROUNDS rounds ---- */

static volatile float sink;

static double multiply_plain(void)
{
    float sums[8 * CHAINS] = { 0 };
    for (int i = 0; i < ROUNDS / 16; i++)
        for (int j = 0; j < 8 * CHAINS; j++) sums[j] = __builtin_fmaf(sums[j], 0.5f, 1);
    for (int j = 0; j < 8 * CHAINS; j++) sink = sums[j];
    return 2.0 * 8 * CHAINS * (ROUNDS / 16);
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static double multiply_avx2(void)
{
    __m256 sums[CHAINS];
    const __m256 half = _mm256_set1_ps(0.5f), one = _mm256_set1_ps(1);
    for (int j = 0; j < CHAINS; j++) sums[j] = one;
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 10
        for (int j = 0; j < CHAINS; j++) sums[j] = _mm256_fmadd_ps(sums[j], half, one);
    for (int j = 0; j < CHAINS; j++) sink = _mm256_cvtss_f32(sums[j]);
    return 2.0 * 8 * CHAINS * ROUNDS;
}

__attribute__((target("avx512f"))) static double multiply_avx512(void)
{
    __m512 sums[CHAINS];
    const __m512 half = _mm512_set1_ps(0.5f), one = _mm512_set1_ps(1);
    for (int j = 0; j < CHAINS; j++) sums[j] = one;
    for (int i = 0; i < ROUNDS; i++)
#pragma GCC unroll 10
        for (int j = 0; j < CHAINS; j++) sums[j] = _mm512_fmadd_ps(sums[j], half, one);
    for (int j = 0; j < CHAINS; j++) sink = _mm512_cvtss_f32(sums[j]);
    return 2.0 * 16 * CHAINS * ROUNDS;
}
#endif

typedef double (*multiply_fn)(void);
static const multiply_fn multiplies[] = {
    [LS__ISA_BASE] = multiply_plain,
#if defined(__x86_64__)
    [LS__ISA_AVX2] = multiply_avx2,
    [LS__ISA_AVX512] = multiply_avx512,
#endif
};

/* ---- Measuring ---- */

typedef struct work {
    multiply_fn multiply;
    double *flops;
    char **buffers;
} work;

static void multiply_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const work *w = arg;
    w->flops[task] = w->multiply();
}

static void copy_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    char *buffer = ((const work *)arg)->buffers[task];
    memcpy(buffer, buffer + COPY_BYTES / 2, COPY_BYTES / 2);
}

static void measure(ls__threads *pool, int threads, work *w, bench_limits *out)
{
    for (int i = 0; i < TRIES; i++) {
        double start = bench_now(), flops = 0;
        ls__threads_run(pool, threads, multiply_task, w);
        double seconds = bench_now() - start;
        for (int t = 0; t < threads; t++) flops += w->flops[t];
        if (flops > seconds * out->flops_per_second) out->flops_per_second = flops / seconds;
        start = bench_now();
        ls__threads_run(pool, threads, copy_task, w);
        seconds = bench_now() - start;
        const double bytes = (double)COPY_BYTES * threads;
        if (bytes > seconds * out->bytes_per_second) out->bytes_per_second = bytes / seconds;
    }
}

ls_status bench_measure_limits(ls_context *ctx, int threads, bench_limits *out)
{
    *out = (bench_limits){ 0 };
    ls__threads *pool = NULL;
    LS_TRY(ls__threads_open(ctx, threads, NULL, &pool));
    work w = { multiplies[ls__isa_detect()], calloc((size_t)threads, sizeof(double)),
               calloc((size_t)threads, sizeof(char *)) };
    bool made = w.flops && w.buffers;
    for (int t = 0; made && t < threads; t++) {
        made = (w.buffers[t] = malloc(COPY_BYTES)) != NULL;
        if (made) memset(w.buffers[t], 1, COPY_BYTES);
    }
    if (made) measure(pool, threads, &w, out);
    for (int t = 0; w.buffers && t < threads; t++) free(w.buffers[t]);
    free(w.buffers);
    free(w.flops);
    ls__threads_close(&pool);
    return made ? LS_OK : LS_ERR_MEMORY;
}

void bench_limit_text(const bench_limits *limits, double flops, double bytes, double seconds,
                      char *text, size_t size)
{
    const double products = flops / limits->flops_per_second / seconds;
    const double memory = bytes / limits->bytes_per_second / seconds;
    if (memory > 1 && memory > products)
        snprintf(text, size, "cache");
    else
        snprintf(text, size, "%.0f%%", 100 * (memory > products ? memory : products));
}
