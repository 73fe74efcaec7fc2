/* limits.h: what the machine could do at best, measured: the lines that a kernel's speed is held
 * against. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <lockstep/lockstep.h>

typedef struct bench_limits {
    double flops_per_second; /* f32, fused multiply-adds that wait for nothing; two each */
    double bytes_per_second; /* of a copy between buffers beyond all caches, read and written */
} bench_limits;

/* Of so many threads at once, each the best of several tries; takes about 0.2 s. The vectors are as
 * wide as those of our own kernels. */
ls_status bench_measure_limits(ls_context *ctx, int threads, bench_limits *out);

/* The least seconds in which so much can be done: either limit alone (the roofline of Williams,
 * Waterman & Patterson, CACM 52(4), 2009). */
double bench_least_seconds(const bench_limits *limits, double flops, double bytes);

#endif
