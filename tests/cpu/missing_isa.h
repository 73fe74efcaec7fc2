/* missing_isa.h: what tests leave out on this processor. */
#ifndef LS_TESTS_CPU_MISSING_ISA_H
#define LS_TESTS_CPU_MISSING_ISA_H

#include "../suite.h"
#include "cpu/cpu.h"

#define NO_AVX2   "the processor has no AVX2, or LOCKSTEP_MAX_ISA excludes it"
#define NO_AVX512 "the processor has no AVX-512, or LOCKSTEP_MAX_ISA excludes it"
#define NO_ONEDNN "oneDNN has no kernels in bf16 here, or LOCKSTEP_MAX_ISA is set"

/* test_bf16.c: whether oneDNN has kernels in bf16 here. */
bool onednn_has_kernels(void);

static inline void note_missing_isa(const char *test)
{
    for (int isa = ls__isa_detect() + 1; isa <= LS__ISA_AVX512; isa++)
        note_left_out(test, isa == LS__ISA_AVX2 ? NO_AVX2 : NO_AVX512);
}

#endif
