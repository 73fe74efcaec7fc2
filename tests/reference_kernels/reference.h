/* reference.h: the form of the reference kernels, the oracle of every test: plain loops over
 * indices, sums in double. Each task of a kernel writes outputs of its own. */
#ifndef LS_TEST_REFERENCE_H
#define LS_TEST_REFERENCE_H

#include "cpu/cpu.h"

typedef struct reference_call {
    const ls__op *op;
    void *const *buffers;
    const ls__step *step;
} reference_call;

/* How a kernel is divided into tasks. */
typedef enum reference_split {
    ONE_TASK,
    TASK_PER_IMAGE, /* of the split operand: its first dimension */
    TASK_PER_CHANNEL
} reference_split;

typedef struct reference_row {
    void (*run)(const reference_call *call, int64_t task);
    reference_split split;
    int split_operand;
} reference_row;

/* One list per family, indexed by op kind; the rows of other families are empty. */
extern const reference_row reference_layout[LS__N_OPS];
extern const reference_row reference_conv[LS__N_OPS];
extern const reference_row reference_linear[LS__N_OPS];
extern const reference_row reference_norm[LS__N_OPS];
extern const reference_row reference_activation[LS__N_OPS];
extern const reference_row reference_rows[LS__N_OPS];
extern const reference_row reference_pool[LS__N_OPS];
extern const reference_row reference_loss[LS__N_OPS];
extern const reference_row reference_optimizer[LS__N_OPS];

/* An operand as [n,h,w,c]: rank 2 is [n,1,1,c], a rank other than 2 and 4 is one row of all
 * elements. data is NULL for an absent operand. */
typedef struct tensor_view {
    float *data;
    int64_t n, h, w, c;
} tensor_view;

tensor_view view_of(const reference_call *call, int operand);
/* Returns a view of an operand's shape, with data NULL. */
tensor_view shape_view(const ls__operand *operand);

static inline int64_t view_offset(const tensor_view *v, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return ((n * v->h + h) * v->w + w) * v->c + c;
}

static inline float *view_at(const tensor_view *v, int64_t n, int64_t h, int64_t w, int64_t c)
{
    return v->data + view_offset(v, n, h, w, c);
}

#endif
