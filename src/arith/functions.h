/* functions.h: elementary functions from IEEE arithmetic alone. Those of the C library differ in
 * the last bit between versions and processors (with and without fused multiply-add). That could
 * move a crop by a pixel or change a learning rate. */
#ifndef LS_ARITH_FUNCTIONS_H
#define LS_ARITH_FUNCTIONS_H

/* log2 x, x > 0: error below 1e-15 max(1, |log2 x|). */
double ls__log2(double x);
/* 2^x, |x| below 2^31: relative error below 1e-15. */
double ls__exp2(double x);
/* cos(pi x) for 0 <= x <= 1, within 3e-16. */
double ls__cos_pi(double x);
/* x^y for x > 0: by multiplications if y is an integer from 0 to 64, else by ls__exp2. */
double ls__power_of(double x, double y);

#endif
