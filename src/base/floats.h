/* floats.h: the library computes in the default floating-point environment: round to nearest,
 * denormals are not flushed. The caller's environment may differ, for example because -ffast-math
 * changes that of the first thread. New threads inherit it. */
#ifndef LS_BASE_FLOATS_H
#define LS_BASE_FLOATS_H

#include <fenv.h>

static inline fenv_t ls__enter_floats(void)
{
    fenv_t before;
    fegetenv(&before);
    fesetenv(FE_DFL_ENV);
    return before;
}

static inline void ls__leave_floats(const fenv_t *before)
{
    fesetenv(before);
}

/* A declaration that sets the default environment until the end of the block. It begins each public
 * function that computes with floats, or starts threads that do. */
#define LS__DEFAULT_FLOATS                                                                         \
    __attribute__((cleanup(ls__leave_floats), unused)) const fenv_t ls__floats_before =            \
        ls__enter_floats()

#endif
