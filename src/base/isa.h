/* isa.h: the instruction sets that our own kernels are compiled for. */
#ifndef LS_BASE_ISA_H
#define LS_BASE_ISA_H

#include <lockstep/context.h>
#include <stdbool.h>

typedef enum ls__isa {
    LS__ISA_PLAIN,  /* instructions of every processor of the architecture */
    LS__ISA_AVX2,   /* with FMA and F16C */
    LS__ISA_AVX512, /* F, BW, DQ and VL */
} ls__isa;

/* The best one that this processor has and that the environment variable LOCKSTEP_MAX_ISA allows:
 * plain, avx2 or avx512. The variable is read once, and not by a program with rights that its
 * caller lacks. */
ls__isa ls__isa_detect(void);
const char *ls__isa_name(ls__isa isa); /* "AVX2" */

/* Whether the processor multiplies bf16, by AVX512_BF16 or AMX, and LOCKSTEP_MAX_ISA is not set. */
bool ls__isa_multiplies_bf16(void);

/* Whether LOCKSTEP_MAX_ISA is set. Products of bf16 are beyond all of its values. */
bool ls__isa_is_limited(void);
/* LS_ERR_INVALID if it is set to anything else. */
ls_status ls__isa_check(ls_context *ctx);

#endif
