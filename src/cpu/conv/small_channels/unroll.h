/* unroll.h: UNROLL before a loop of constant length: sums stay in registers only where the loops
 * over them are gone before the compiler looks for arrays that could be variables. */
#ifndef LS_CPU_CONV_SMALL_CHANNELS_UNROLL_H
#define LS_CPU_CONV_SMALL_CHANNELS_UNROLL_H

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
