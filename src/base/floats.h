/* floats.h: the library computes in the default floating-point environment: round to nearest, no
 * flushing of denormals. A caller may have set another, or be linked with -ffast-math, which sets
 * one for the program's first thread; threads inherit it from those that start them. */
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

/* As a declaration, at the beginning of a public function that computes with floats, or starts
 * threads that do: up to the end of the block the environment is the default one. */
#define LS__DEFAULT_FLOATS                                                                         \
    __attribute__((cleanup(ls__leave_floats), unused)) const fenv_t ls__floats_before =            \
        ls__enter_floats()

#endif
