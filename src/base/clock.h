/* clock.h: durations for reports, waits and kernel selection; no result depends on them. */
#ifndef LS_BASE_CLOCK_H
#define LS_BASE_CLOCK_H

#include <time.h>

/* Monotonic, from an arbitrary origin. */
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
