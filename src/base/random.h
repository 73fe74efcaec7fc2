/* random.h: runs of draws, and normal draws whose bits are the same on every machine. */
#ifndef LS_BASE_RANDOM_H
#define LS_BASE_RANDOM_H

#include <lockstep/random.h>

/* What ls_random_words hands to Philox for a draw. The sample is the lowest part of the counter:
 * that of sample s is (low + s, high), where low is that of sample 0. */
typedef struct ls__philox_input {
    uint64_t low, high; /* counter: words 0, 1 and 2, 3 */
    uint32_t key[2];
} ls__philox_input;
ls__philox_input ls__random_input(uint64_t seed, const ls_draw *draw);

/* Two words as a standard normal float: the inverse of the distribution at the 52-bit midpoint
 * p = (k + 1/2) 2^-52, k the upper 52 bits of high:low, by Wichura's PPND16 (algorithm AS 241,
 * Applied Statistics 37, 1988) in double with our own logarithm: additions, multiplications,
 * divisions and square roots only, which IEEE 754 defines to the bit. Relative error below 1e-15
 * before the rounding to float; |result| < 8.3. */
float ls__random_normal(uint32_t high, uint32_t low);

/* The same inverse for any p in (0,1), before rounding. */
double ls__normal_quantile(double p);

#endif
