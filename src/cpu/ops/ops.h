/* ops.h: how our own kernels of ops other than convolutions are written. The files of this folder
 * but ops.c are compiled once per instruction set, with LS__ISA_NAME(x) giving every external name
 * its suffix.
 *
 * A kernel is one to three stages, each a number of tasks cut by shape alone. Bits are the same on
 * every instruction set: no sum is left to the compiler to reorder, nothing is contracted (no
 * fused multiply-add anywhere: these kernels wait for memory), exp and log are polynomials. */
#ifndef LS_CPU_OPS_OPS_H
#define LS_CPU_OPS_OPS_H

#include "cpu/cpu.h"
#include "cpu/simd/compiler.h"
#include <string.h>

typedef struct ls__ops_kernel ls__ops_kernel;
typedef void (*ls__ops_task)(const ls__ops_kernel *k, int64_t task);

enum { LS__MAX_STAGES = 3 };
typedef struct ls__ops_stage {
    ls__ops_task run;
    int64_t n_tasks;
} ls__ops_stage;

/* An activation in memory: [images][groups][places][width], width channels side by side. */
typedef struct ls__planes {
    int64_t images, groups, places, width;
} ls__planes;

struct ls__ops_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op op;
    int n_stages;
    ls__ops_stage stages[LS__MAX_STAGES];
    double bytes; /* read and written in one run, for the estimate of its cost */

    /* set by the family's plan, read by its tasks */
    ls__planes planes;
    int64_t n_chunks; /* a count of elements or rows is cut into this many */

    /* the current run */
    int stage;
    void *const *buffers;
    unsigned char *workspace; /* aligned to 64 bytes */
    const ls__step *step;
};

/* Fills in stages, bytes, workspace_bytes and notes from k->op; false when the operands' layouts
 * are none of ours. */
typedef bool (*ls__ops_plan)(ls__ops_kernel *k);

/* One list per family and instruction set, indexed by op kind. */
#define LS__OPS_FAMILY(family)                                                                     \
    extern const ls__ops_plan ls__ops_##family##_base[LS__N_OPS];                                  \
    extern const ls__ops_plan ls__ops_##family##_avx2[LS__N_OPS];                                  \
    extern const ls__ops_plan ls__ops_##family##_avx512[LS__N_OPS];
LS__OPS_FAMILY(layout)
LS__OPS_FAMILY(layout_bf16)
LS__OPS_FAMILY(norm)
LS__OPS_FAMILY(norm_bf16)
LS__OPS_FAMILY(activation)
LS__OPS_FAMILY(activation_bf16)
LS__OPS_FAMILY(cast)
LS__OPS_FAMILY(pool)
LS__OPS_FAMILY(pool_bf16)
LS__OPS_FAMILY(loss)
LS__OPS_FAMILY(optimizer)

/* ---- Helpers of the families. ---- */

/* Elements per task: some 20 microseconds where three arrays stream from memory at 20 GB/s. */
enum { LS__TASK_ELEMENTS = 32 * 1024 };
/* A pass over up to so many is one task: it is over before a thread that sleeps has woken, some 50
 * microseconds. */
enum { LS__SMALL_ELEMENTS = 4 * LS__TASK_ELEMENTS };

/* value where a condition holds, else 0. Written with bits: a compiler that moves value's load
 * under the condition cannot vectorise the loop any more. */
LS__ALWAYS_INLINE float ls__where(bool condition, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= (uint32_t) - (int32_t)condition;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

typedef struct ls__range {
    int64_t begin, end;
} ls__range;

/* Part i of 0..count-1 cut into n parts; all but the last begin and end at multiples. */
static inline ls__range ls__part(int64_t count, int64_t n, int64_t i, int64_t multiple)
{
    const int64_t units = ls__divide_up(count, multiple);
    return (ls__range){ units * i / n * multiple, ls__min(units * (i + 1) / n * multiple, count) };
}

/* How many tasks a pass over so many elements is cut into. */
static inline int64_t ls__pass_tasks(int64_t elements)
{
    return elements <= LS__SMALL_ELEMENTS ? 1 : ls__divide_up(elements, LS__TASK_ELEMENTS);
}

static inline int64_t ls__count(const ls__operand *operand)
{
    return ls__is_absent(operand) ? 0 : ls_shape_count(&operand->shape);
}

/* Same type, shape and block, or absent. */
static inline bool ls__same_layout(const ls__operand *a, const ls__operand *b)
{
    return ls__is_absent(b) || (a->dtype == b->dtype && ls_shape_equal(&a->shape, &b->shape) &&
                                (a->shape.n_dims != 4 || a->block == b->block));
}

/* How an operand lies in memory. The places of all images are one run where a place holds all
 * channels. Ranks other than 4 and 2 are one row. */
static inline ls__planes ls__planes_of(const ls__operand *operand)
{
    const int64_t *d = operand->shape.dims;
    if (operand->shape.n_dims == 2) return (ls__planes){ 1, 1, d[0], d[1] };
    if (operand->shape.n_dims != 4) return (ls__planes){ 1, 1, 1, ls__count(operand) };
    if (operand->block == d[3] || operand->block == 0)
        return (ls__planes){ 1, 1, d[0] * d[1] * d[2], d[3] };
    return (ls__planes){ d[0], d[3] / operand->block, d[1] * d[2], operand->block };
}

static inline void ls__add_stage(ls__ops_kernel *k, ls__ops_task run, int64_t n_tasks)
{
    k->stages[k->n_stages++] = (ls__ops_stage){ run, n_tasks };
}

#endif
