/* random.h: runs of draws, and normal draws whose bits are the same on every machine. */
#ifndef LS_BASE_RANDOM_H
#define LS_BASE_RANDOM_H

#include "base/philox.h"

/* Two words as a standard normal float: the inverse of the distribution at the 52-bit midpoint
 * p = (k + 1/2) 2^-52, k the upper 52 bits of high:low, by Wichura's PPND16 (algorithm AS 241,
 * Applied Statistics 37, 1988) in double with our own logarithm: additions, multiplications,
 * divisions and square roots only, which IEEE 754 defines to the bit. Relative error below 1e-15
 * before the rounding to float; |result| < 8.3. */
float ls__random_normal(uint32_t high, uint32_t low);

/* The same inverse for any p in (0,1), before rounding. */
double ls__normal_quantile(double p);

#endif
