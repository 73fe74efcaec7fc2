/* norm_sums.h: the sums of a batch norm over all shards of a batch, for CPU and GPU kernels. Each
 * shard has a row [4,C] of two sums per channel: the first sum as two floats, the nearest one and
 * the rest, then the second sum. So a row has 48 bits of each sum, and the variance of values whose
 * mean is r times their std is accurate to about r^2 2^-48. */
#ifndef LS_ARITH_NORM_SUMS_H
#define LS_ARITH_NORM_SUMS_H

#include "base/shared.h"

enum {
    LS__NORM_SUMS = 4,        /* floats per channel in a row */
    LS__NORM_SUMS_NODES = 17, /* partial sums of 2^16 rows */
};

LS__SHARED void ls__norm_sums_put(float *row, int64_t channels, int64_t c, double first,
                                  double second)
{
    const double sums[2] = { first, second };
    for (int which = 0; which < 2; which++) {
        float *at = row + 2 * which * channels + c;
        at[0] = (float)sums[which];
        at[channels] = (float)(sums[which] - (double)at[0]);
    }
}

/* The total of a sum (0 or 1) over the rows, in the tree of nn/plan/shard.h. */
LS__SHARED double ls__norm_sums_total(const float *rows, int64_t n_rows, int64_t channels,
                                      int which, int64_t c)
{
    double nodes[LS__NORM_SUMS_NODES] = { 0 }, total = 0; /* nodes[k]: the last one of 2^k rows */
    for (int64_t row = 0; row < n_rows; row++) {
        const float *at = rows + (LS__NORM_SUMS * row + 2 * which) * channels + c;
        double sum = (double)at[0] + (double)at[channels];
        bool is_merged = true;
        /* unrolled, so that a GPU has the nodes in registers */
        LS__UNROLL_ON_GPU
        for (int k = 0; k < LS__NORM_SUMS_NODES; k++) {
            if (!is_merged) continue;
            is_merged = (row >> k & 1) != 0;
            if (is_merged)
                sum = nodes[k] + sum;
            else
                nodes[k] = sum;
        }
    }
    bool is_first = true;
    LS__UNROLL_ON_GPU
    for (int k = 0; k < LS__NORM_SUMS_NODES; k++) {
        if (!(n_rows >> k & 1)) continue;
        total = is_first ? nodes[k] : nodes[k] + total;
        is_first = false;
    }
    return total;
}

typedef struct ls__norm_moments {
    double count, mean, variance;
} ls__norm_moments;

/* Of a channel's `count` values. NaN stays. */
LS__SHARED ls__norm_moments ls__norm_moments_of(const float *rows, int64_t n_rows, int64_t channels,
                                                int64_t c, int64_t count)
{
    ls__norm_moments m;
    m.count = (double)count;
    m.mean = ls__norm_sums_total(rows, n_rows, channels, 0, c) / m.count;
    m.variance = ls__norm_sums_total(rows, n_rows, channels, 1, c) / m.count - m.mean * m.mean;
    if (m.variance < 0) m.variance = 0; /* by rounding */
    return m;
}

/* dx = p dz + q x + r, from the sums of dz and of dz (x - mean) invstd over `count` values. */
LS__SHARED void ls__norm_coefficients(const float *rows, int64_t n_rows, int64_t channels,
                                      int64_t c, int64_t count, float scale, float mean,
                                      float invstd, float *p, float *q, float *r)
{
    const double factor = (double)scale * (double)invstd, m = (double)count;
    const double mean_dz = ls__norm_sums_total(rows, n_rows, channels, 0, c) / m;
    const double slope = ls__norm_sums_total(rows, n_rows, channels, 1, c) / m * (double)invstd;
    *p = (float)factor;
    *q = (float)(-factor * slope);
    *r = (float)(factor * (slope * (double)mean - mean_dz));
}

#endif
