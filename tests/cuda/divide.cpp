/* divide.cpp: the quotients of kernels/divide.h against the processor's division. */
#include "cuda/kernels/divide.h"

#include <stdio.h>

static const int64_t LARGEST = ((int64_t)1 << 31) - 1;

static bool check(int64_t n, int64_t by)
{
    if (n < 0 || n > LARGEST) return true;
    const int32_t got = ls__divisor<int32_t>::of(by).quotient((int32_t)n);
    if (got == n / by) return true;
    printf("%lld / %lld: got %lld, expected %lld\n", (long long)n, (long long)by, (long long)got,
           (long long)(n / by));
    return false;
}

/* Quotients can be wrong only beside multiples of the divisor. */
static bool check_divisor(int64_t by)
{
    bool right = true;
    const int64_t last = LARGEST / by;
    for (int64_t k = 0; k <= last; k += last / 64 + 1)
        for (int64_t n = k * by - 1; n <= k * by + 1; n++) right &= check(n, by);
    for (int64_t n = last * by - 1; n <= last * by + 1; n++) right &= check(n, by);
    return right & check(LARGEST, by);
}

int main(void)
{
    bool right = true;
    for (int64_t by = 1; by <= 5000; by++) right &= check_divisor(by);
    for (int bit = 12; bit <= 31; bit++)
        for (int64_t by = ((int64_t)1 << bit) - 3; by <= ((int64_t)1 << bit) + 3; by++)
            if (by <= LARGEST) right &= check_divisor(by);
    for (uint32_t by = 1; by < (uint32_t)LARGEST / 3; by = by * 3 + 7) right &= check_divisor(by);
    return right ? 0 : 1;
}
