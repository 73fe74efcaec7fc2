/* random.h: runs of draws, and normal draws whose bits are the same on every machine. */
#ifndef LS_BASE_RANDOM_H
#define LS_BASE_RANDOM_H

#include "base/philox.h"

/* The words of n draws from sample `first` on, four each. */
void ls__random_run(const ls__philox_input *input, uint64_t first, int64_t n, uint32_t *words);

/* Two words as a standard normal float: the inverse of the distribution at the 52-bit midpoint
 * p = (k + 1/2) 2^-52, k the upper 52 bits of high:low, by Wichura's PPND16 (normal.c) in double
 * with our own logarithm. IEEE 754 defines all bits of its additions, multiplications, divisions
 * and square roots. Relative error below 1e-15 before the rounding to float; |result| < 8.3. */
float ls__random_normal(uint32_t high, uint32_t low);
/* n normals from 2n words, (high, low) each: the same bits in less time. */
void ls__random_normals(const uint32_t *words, int64_t n, float *out);

/* Returns the inverse of the normal distribution for any p in (0,1), before rounding. */
double ls__normal_quantile(double p);

#endif
