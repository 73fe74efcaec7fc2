/* one_hot.h: targets made of a batch's labels, for losses of targets. */
#ifndef LS_NN_NET_ONE_HOT_H
#define LS_NN_NET_ONE_HOT_H

#include "backend/backend.h"
#include "base/context.h"
#include "tensor/tensor.h"

/* Memory of one batch's targets. Two are used alternately, so that one is filled while the device
 * reads the other. */
typedef struct ls__one_hot_slot {
    void *memory; /* of the device */
    /* The rest only where the host can't write it: what is uploaded to it, */
    float *block;
    ls__event *uploaded; /* after which the block may be written again, */
    ls__event *read;     /* and after which the memory may be */
    bool uploading;
} ls__one_hot_slot;
enum { LS__N_ONE_HOT_SLOTS = 2 };

/* Begins with all zero. */
typedef struct ls__one_hot {
    ls_tensor targets; /* f32 [n,classes]: those of the last batch */
    ls__one_hot_slot slots[LS__N_ONE_HOT_SLOTS];
    int64_t max_n;   /* rows that the slots have room for */
    int32_t *labels; /* [max_n]: of labels that the host can't read */
    int64_t n_filled;
} ls__one_hot;

/* Makes one_hot->targets of the labels i32 [n]; rows of other labels than 0 to classes - 1 are 0.
 * Waits for the device only if labels are in its memory alone. */
ls_status ls__one_hot_fill(ls_context *ctx, ls__one_hot *one_hot, const ls_tensor *labels,
                           int64_t classes);
void ls__one_hot_close(ls_context *ctx, ls__one_hot *one_hot);

#endif
