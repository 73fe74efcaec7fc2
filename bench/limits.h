/* limits.h: what the machine could do at best, measured: the lines that a kernel's speed is held
 * against. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <lockstep/lockstep.h>

typedef struct bench_limits {
    double flops_per_second; /* f32, fused multiply-adds that wait for nothing; two each */
    double bytes_per_second; /* of a copy between buffers beyond all caches, read and written */
} bench_limits;

/* Measures the limits of this number of threads, each the best of several tries; takes about 0.4 s.
 * The vectors are as wide as those of our own kernels. */
ls_status bench_measure_limits(ls_context *ctx, int threads, bench_limits *out);

/* Writes the share of the limit that work of this duration reached; the limit is the slower one of
 * products and memory (the roofline of Williams, Waterman & Patterson, CACM 52(4), 2009): "52%".
 * Writes "cache" where memory is the slower one and bytes came faster than from memory, because
 * that limit is unknown. */
void bench_limit_text(const bench_limits *limits, double flops, double bytes, double seconds,
                      char *text, size_t size);

#endif
