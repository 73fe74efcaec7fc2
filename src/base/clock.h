/* clock.h: how long things take, for reports, waits and the choice of kernels; results never depend
 * on it. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <time.h>

/* From some moment in the past on; never goes back. */
static inline double ls__now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline double ls__now_ms(void)
{
    return 1e3 * ls__now_seconds();
}

#endif
