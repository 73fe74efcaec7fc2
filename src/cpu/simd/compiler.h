/* compiler.h: names of functions that are compiled once per instruction set, and hints for loops.
 */
#ifndef LS_CPU_SIMD_COMPILER_H
#define LS_CPU_SIMD_COMPILER_H

#include <stdint.h>

/* The build defines LS__ISA_SUFFIX (_plain, _avx2, _avx512) for each variant of a source file. */
#define LS__PASTE_(a, b)   a##b
#define LS__PASTE(a, b)    LS__PASTE_(a, b)
#define LS__ISA_NAME(name) LS__PASTE(name, LS__ISA_SUFFIX)

#define LS__ALWAYS_INLINE static inline __attribute__((always_inline))

/* Prefetches what is so many bytes after `from`; not as a pointer, because it can be past the end
 * of the array. */
LS__ALWAYS_INLINE void ls__prefetch_after(const void *from, int64_t bytes)
{
    __builtin_prefetch((const void *)((uintptr_t)from + (uint64_t)bytes));
}

/* These stand before a loop: LS__INDEPENDENT if its iterations are independent although pointers
 * may be equal (in-place ops); LS__UNROLL if its length is constant and its arrays must become
 * registers, which requires early unrolling; LS__ROLLED if its addresses would be spilled when
 * unrolled. */
#if defined(__clang__)
#define LS__INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define LS__UNROLL      _Pragma("clang loop unroll(full)")
#define LS__ROLLED      _Pragma("clang loop unroll(disable)")
#else
#define LS__INDEPENDENT _Pragma("GCC ivdep")
#define LS__UNROLL      _Pragma("GCC unroll 16")
#define LS__ROLLED      _Pragma("GCC unroll 1")
#endif

#endif
