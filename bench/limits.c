/* limits.c: see limits.h. */
#include "limits.h"
#include "base/threads.h"
#include "cpu/cpu.h"
#include "cpu/simd/compiler.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    TRIES = 8,
    ROUNDS = 12000000,     /* some 20 ms of a core with AVX2 */
    COPY_BYTES = 64 << 20, /* of a thread's two buffers together */
    CHAINS = 10,           /* two units of four or five cycles' latency */
};

/* ---- Multiply-adds: each returns the flops of its rounds ---- */

static volatile float sink; /* so that compilers can't leave the sums out */

static double multiply_plain(void)
{
    enum { PLAIN_ROUNDS = ROUNDS / 1000 }; /* fmaf may be a function in software */
    float sums[8 * CHAINS] = { 0 };
    for (int i = 0; i < PLAIN_ROUNDS; i++)
        for (int j = 0; j < 8 * CHAINS; j++) sums[j] = __builtin_fmaf(sums[j], 0.5f, 1);
    for (int j = 0; j < 8 * CHAINS; j++) sink = sums[j];
    return 2.0 * 8 * CHAINS * PLAIN_ROUNDS;
}

#if defined(__x86_64__)
#define MULTIPLY(name, isa, vector, lanes, prefix, first)                                          \
    __attribute__((target(isa))) static double name(void)                                          \
    {                                                                                              \
        vector sums[CHAINS];                                                                       \
        const vector half = prefix##_set1_ps(0.5f), one = prefix##_set1_ps(1);                     \
        for (int j = 0; j < CHAINS; j++) sums[j] = one;                                            \
        for (int i = 0; i < ROUNDS; i++) LS__UNROLL                                                \
        for (int j = 0; j < CHAINS; j++) sums[j] = prefix##_fmadd_ps(sums[j], half, one);          \
        for (int j = 0; j < CHAINS; j++) sink = first(sums[j]);                                    \
        return 2.0 * (lanes)*CHAINS * ROUNDS;                                                      \
    }
MULTIPLY(multiply_avx2, "avx2,fma", __m256, 8, _mm256, _mm256_cvtss_f32)
MULTIPLY(multiply_avx512, "avx512f", __m512, 16, _mm512, _mm512_cvtss_f32)
#endif

typedef double (*multiply_fn)(void);
static const multiply_fn multiplies[] = {
    [LS__ISA_PLAIN] = multiply_plain,
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
