/* tree.h: the order in which partial sums are added: sum i + step is added to sum i, for steps of
 * 1, 2, 4 and so on. It depends on the number of sums alone, and that on the shape. */
#ifndef LS_CPU_TREE_H
#define LS_CPU_TREE_H

#include "base/strict_math.h"
#include <stdint.h>

/* Adds n_rows rows of n floats into the first. The others begin at `second`, `stride` floats from
 * each other. */
static inline void ls__tree_sum(float *first, float *second, int64_t stride, int64_t n_rows,
                                int64_t n)
{
    for (int64_t step = 1; step < n_rows; step *= 2)
        for (int64_t row = 0; row + step < n_rows; row += 2 * step) {
            float *restrict to = row == 0 ? first : second + (row - 1) * stride;
            const float *restrict from = second + (row + step - 1) * stride;
            for (int64_t i = 0; i < n; i++) to[i] += from[i];
        }
}

/* The sum of n doubles, which it overwrites; 1 <= n. */
static inline double ls__tree_total(double *values, int64_t n)
{
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t i = 0; i + step < n; i += 2 * step) values[i] += values[i + step];
    return values[0];
}

/* The sum of interleaved partial sums: the second half is added to the first, and so on. */
enum { LS__CHAINS = 16 };

static inline double ls__fold(const double chains[LS__CHAINS])
{
    double sum[LS__CHAINS];
    for (int i = 0; i < LS__CHAINS; i++) sum[i] = chains[i];
    for (int step = LS__CHAINS / 2; step > 0; step /= 2)
        for (int i = 0; i < step; i++) sum[i] += sum[i + step];
    return sum[0];
}

#endif
