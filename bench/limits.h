/* limits.h: what the machine could do at best, measured: the lines that a kernel's speed is held
 * against. */
#ifndef BENCH_LIMITS_H
#define BENCH_LIMITS_H

#include <lockstep/lockstep.h>

typedef struct bench_limits {
    double flops_per_second; /* f32, fused multiply-adds that wait for nothing; two each */
    double bytes_per_second; /* of a copy between buffers beyond all caches, read and written */
} bench_limits;

/* Of so many threads at once, each the best of several tries; takes about 0.4 s. The vectors are as
 * wide as those of our own kernels. */
ls_status bench_measure_limits(ls_context *ctx, int threads, bench_limits *out);

/* What share of the limit was reached by what took so long, the limit being the slower one of
 * products and memory (the roofline of Williams, Waterman & Patterson, CACM 52(4), 2009): "52%".
 * "cache" where that is memory and bytes came faster than memory gives them: of such no limit is
 * known. */
void bench_limit_text(const bench_limits *limits, double flops, double bytes, double seconds,
                      char *text, size_t size);

#endif
