/* compare.h: the first divergence of two runs. Both are opened in this process, each with a context
 * and execution settings of its own, and replayed to a step. That step then runs op by op on both
 * sides.
 *
 * All outputs are compared in the order of execution, so the first op whose outputs differ had
 * equal inputs and caused the divergence. Values are compared bit by bit. */
#ifndef LS_RUN_COMPARE_H
#define LS_RUN_COMPARE_H

#include "nn/net/net_trace.h"
#include <lockstep/optim.h>
#include <lockstep/run_log.h>

/* One of the two runs, opened, and restored if it resumes from a checkpoint. */
typedef struct ls__compare_side {
    ls_net *net;
    ls_optimizer *optimizer;
    ls_loader *loader;
    const ls_schedule *schedule;
    int64_t epoch, step; /* the next step to replay */
    /* Called after an epoch's last step, to update what the learning rate depends on; optional. */
    ls_status (*end_epoch)(void *user, int64_t epoch);
    void *user;
    const char *run_log; /* path, NULL = not compared */
    int64_t diverged; /* output: the first replayed step whose digests differ from the run log's, or
                         -1 */
} ls__compare_side;

typedef enum ls__found {
    LS__FOUND_NOTHING, /* both replays read and wrote equal values in this step */
    LS__FOUND_EARLIER, /* the optimizers' states differ before `step`; no run log shows them */
    LS__FOUND_LR,      /* the learning rates differ */
    LS__FOUND_BATCH,   /* the loaders' batches differ */
    LS__FOUND_STATE, /* an op reads a value that differs and that no op of this step wrote: a weight
                        differed before */
    LS__FOUND_OP,    /* an op's output differs, but its inputs are equal */
    LS__FOUND_PROGRAM /* the steps do not consist of the same ops */
} ls__found;

typedef struct ls__finding {
    ls__found found;
    int64_t step, epoch, step_in_epoch; /* step: of the whole run */
    ls_step_digest digests[2];          /* of that step's replays */

    /* LS__FOUND_LR */
    double lrs[2];

    /* LS__FOUND_BATCH: the first index in the batch whose sample, label, image or targets differ;
     * -1 if the batches have different sizes. */
    int64_t place, samples[2], labels[2];

    /* LS__FOUND_OP, _STATE, _PROGRAM: the ops, borrowed from the nets; n_values 0: that side has no
     * more ops. */
    ls__trace_op ops[2];
    ls__trace_value value; /* not in _PROGRAM; of _EARLIER the parameter and role */

    /* The first element that differs in the value; -1 if none. LS__FOUND_BATCH: the
     * value is the image at `place`, with role "image" and shape [H,W,C], or its targets, with role
     * "target" and shape [K]. */
    int64_t element, n_different;
    int64_t
        fault_element; /* the same, counted over all outputs of the op, as in ls__injected_fault */
    double values[2];
    uint64_t ulps; /* distance in representable numbers; for integers the difference */
} ls__finding;

/* Replays both sides to step `step` of the whole run and compares that step. Returns LS_OK for any
 * finding; an error is in the context of one side. The nets have then run the step, unless EARLIER
 * was found. */
ls_status ls__compare_runs(ls__compare_side sides[2], int64_t step, ls__finding *out);

/* The distance of two numbers in representable numbers of their type; that of -0 and 0 is 1. */
uint64_t ls__ulps(ls_dtype dtype, const void *a, const void *b);

#endif
