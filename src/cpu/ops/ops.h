/* ops.h: our own kernels of ops other than convolutions. All files of this folder but ops.c are
 * compiled once per instruction set; LS__ISA_NAME(x) gives every external name its suffix.
 *
 * A kernel has one to three phases. The shape alone determines a phase's tasks. Bits are the same
 * on every instruction set: the compiler reorders no sum, no fused multiply-add is used (memory
 * bounds these kernels), exp and log are polynomials. */
#ifndef LS_CPU_OPS_OPS_H
#define LS_CPU_OPS_OPS_H

#include "cpu/cpu.h"
#include "cpu/simd/compiler.h"
#include <string.h>

typedef struct ls__ops_kernel ls__ops_kernel;
typedef void (*ls__ops_task)(const ls__ops_kernel *k, int64_t task);

enum { LS__MAX_PHASES = 3 };
typedef struct ls__ops_phase {
    ls__ops_task run;
    int64_t n_tasks;
} ls__ops_phase;

struct ls__ops_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op op;
    int n_phases;
    ls__ops_phase phases[LS__MAX_PHASES];

    /* set by the family's prepare function, read by its tasks */
    int64_t n_rows, n_channels; /* of a batch norm: a row is the channels of a place */
    int64_t n_chunks;           /* of elements or rows */

    /* the current run */
    int phase;
    void *const *buffers;
    unsigned char *workspace; /* aligned to 64 bytes */
    const ls__step *step;
};

/* Sets phases, workspace_bytes and the family's fields from k->op; false when the family does not
 * support the types of the operands. */
typedef bool (*ls__ops_prepare)(ls__ops_kernel *k);

/* The files of this folder that have kernels, once per type of activations. */
#define LS__OPS_FAMILIES(X)                                                                        \
    X(layout)                                                                                      \
    X(layout_bf16)                                                                                 \
    X(norm)                                                                                        \
    X(norm_bf16)                                                                                   \
    X(activation)                                                                                  \
    X(activation_bf16)                                                                             \
    X(rows)                                                                                        \
    X(rows_bf16)                                                                                   \
    X(cast)                                                                                        \
    X(pool)                                                                                        \
    X(pool_bf16)                                                                                   \
    X(loss)                                                                                        \
    X(optimizer)

/* One list per family and instruction set, indexed by op kind. */
#define LS__OPS_FAMILY(family)                                                                     \
    extern const ls__ops_prepare ls__ops_##family##_plain[LS__N_OPS];                              \
    extern const ls__ops_prepare ls__ops_##family##_avx2[LS__N_OPS];                               \
    extern const ls__ops_prepare ls__ops_##family##_avx512[LS__N_OPS];
LS__OPS_FAMILIES(LS__OPS_FAMILY)

/* ---- Helpers of the families. ---- */

/* Elements per task: about 20 microseconds when three arrays stream from memory at 20 GB/s. */
enum { LS__TASK_ELEMENTS = 32 * 1024 };
/* A pass over at most this many is one task: waking a thread takes about 50 microseconds. */
enum { LS__SMALL_ELEMENTS = 4 * LS__TASK_ELEMENTS };

typedef struct ls__range {
    int64_t begin, end;
} ls__range;

/* Share i of n of 0..count-1; all begin at multiples. */
static inline ls__range ls__share(int64_t count, int64_t n, int64_t i, int64_t multiple)
{
    const int64_t units = ls__divide_up(count, multiple);
    return (ls__range){ units * i / n * multiple,
                        ls__min_i64(units * (i + 1) / n * multiple, count) };
}

/* The number of tasks of a pass over `elements`. */
static inline int64_t ls__pass_tasks(int64_t elements)
{
    return elements <= LS__SMALL_ELEMENTS ? 1 : ls__divide_up(elements, LS__TASK_ELEMENTS);
}

static inline int64_t ls__count(const ls__operand *operand)
{
    return ls__is_absent(operand) ? 0 : ls_shape_element_count(&operand->shape);
}

/* The channels of an operand [N,H,W,C] or [N,C]. */
static inline int64_t ls__channels_of(const ls__operand *operand)
{
    return operand->shape.dims[operand->shape.n_dims - 1];
}

/* The elements of the first operand that belong to a task; they begin at a multiple. */
static inline ls__range ls__task_elements(const ls__ops_kernel *k, int64_t task, int64_t multiple)
{
    return ls__share(ls__count(&k->op.operands[0]), k->n_chunks, task, multiple);
}

static inline void ls__add_phase(ls__ops_kernel *k, ls__ops_task run, int64_t n_tasks)
{
    k->phases[k->n_phases++] = (ls__ops_phase){ run, n_tasks };
}

#endif
