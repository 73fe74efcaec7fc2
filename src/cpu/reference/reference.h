/* reference.h: the form of the reference kernels, the oracle of every test: plain loops over
 * indices, sums in double. Each task of a kernel writes outputs of its own. */
#ifndef LS_CPU_REFERENCE_H
#define LS_CPU_REFERENCE_H

#include "cpu/cpu.h"

typedef struct ls__reference_call {
    const ls__op *op;
    void *const *buffers;
    const ls__step *step;
} ls__reference_call;

/* How a kernel is divided into tasks. */
typedef enum ls__reference_split {
    LS__ONE_TASK,
    LS__TASK_PER_IMAGE, /* of the split operand: its first dimension */
    LS__TASK_PER_CHANNEL
} ls__reference_split;

typedef struct ls__reference {
    void (*run)(const ls__reference_call *call, int64_t task);
    ls__reference_split split;
    int split_operand;
} ls__reference;

/* One list per family, indexed by op kind; the rows of other families are empty. */
extern const ls__reference ls__reference_layout[LS__N_OPS];
extern const ls__reference ls__reference_conv[LS__N_OPS];
extern const ls__reference ls__reference_linear[LS__N_OPS];
extern const ls__reference ls__reference_norm[LS__N_OPS];
extern const ls__reference ls__reference_activation[LS__N_OPS];
extern const ls__reference ls__reference_rows[LS__N_OPS];
extern const ls__reference ls__reference_pool[LS__N_OPS];
extern const ls__reference ls__reference_loss[LS__N_OPS];
extern const ls__reference ls__reference_optimizer[LS__N_OPS];

/* An operand as [n,h,w,c]: rank 2 is [n,1,1,c], a rank other than 2 and 4 is one row of all
 * elements. data is NULL for an absent operand. */
typedef struct ls__view {
    float *data;
    int64_t n, h, w, c;
} ls__view;

ls__view ls__reference_view(const ls__reference_call *call, int operand);
/* Returns a view of an operand's shape, with data NULL. */
ls__view ls__operand_view(const ls__operand *operand);

static inline int64_t ls__view_offset(const ls__view *v, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return ((n * v->h + h) * v->w + w) * v->c + c;
}

static inline float *ls__view_at(const ls__view *v, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return v->data + ls__view_offset(v, n, h, w, c);
}

#endif
