/* compare.h: where two runs part. Both are opened in this process, each with a context and
 * executors of its own, replayed to the step in question, and that step is done op by op, side by
 * side.
 *
 * The first op whose outputs differ is the culprit: all that ops write is compared, in the order of
 * running, so what it read agreed. Values are compared bit by bit and by logical element, whatever
 * the layouts. */
#ifndef LS_RUN_COMPARE_H
#define LS_RUN_COMPARE_H

#include "nn/net_trace.h"
#include <lockstep/optim.h>
#include <lockstep/run_log.h>

/* One of the two runs, opened, and restored where it goes on from a checkpoint. */
typedef struct ls__compare_side {
    ls_net *net;
    ls_optimizer *optimizer;
    ls_loader *loader;
    const ls_schedule *schedule;
    int64_t epoch, step; /* the next step; moves on with the replay */
    /* After an epoch's last step, for what a run does there that its rate depends on; optional. */
    ls_status (*end_epoch)(void *user, int64_t epoch);
    void *user;
    const char *record; /* path of what the run wrote, NULL = not compared */
    int64_t departed;   /* set: the first replayed step that is not as the record says, or -1 */
} ls__compare_side;

typedef enum ls__found {
    LS__FOUND_NOTHING, /* the two replays agree in all that the step read and wrote */
    LS__FOUND_EARLIER, /* the optimizers' states differ before `step`, which no record shows */
    LS__FOUND_RATE,    /* the learning rates differ */
    LS__FOUND_BATCH,   /* the loaders' batches differ */
    LS__FOUND_STATE,   /* an op reads what differs, and no op of this step has written it: a weight
                          that was different before */
    LS__FOUND_OP,      /* an op's output differs though all that it read agrees */
    LS__FOUND_PROGRAM  /* the steps do not consist of the same ops */
} ls__found;

typedef struct ls__finding {
    ls__found found;
    int64_t step, epoch, step_in_epoch; /* step: of the whole run */
    ls_step_digest digests[2];          /* what the replays make of that step */

    /* LS__FOUND_RATE: the rates. */
    double rates[2];

    /* LS__FOUND_BATCH: the first place whose sample, label or image differs; -1 when the batches
     * have different sizes. */
    int64_t place, samples[2], labels[2];

    /* LS__FOUND_OP, _STATE, _PROGRAM: the ops, borrowed from the nets; n_values 0: that side has no
     * more. Layouts are each side's own business, so a reorder is compared with what it read:
     * `side` is the side whose reorder is wrong, and -1 for all other ops. */
    ls__trace_op ops[2];
    int side;
    ls__trace_value value; /* not in _PROGRAM; of _EARLIER role and entry */

    /* The first element that differs in the value; -1 when there is none. LS__FOUND_BATCH: the
     * value is the image at `place`, of role "image" and shape [H,W,C]. */
    int64_t element, n_different;
    int64_t fault_element; /* the same, counted over the op's outputs as ls__fault does */
    double values[2];
    uint64_t ulps; /* numbers of the type between them, plus one; for integers the difference */
} ls__finding;

/* Replays both sides to step `step` of the whole run and looks for the difference there. Returns
 * LS_OK whatever is found; an error is that of one side's context. Afterwards the nets have done
 * the step, unless EARLIER was found. */
ls_status ls__compare_runs(ls__compare_side sides[2], int64_t step, ls__finding *out);

/* Distance of two numbers of a type in representable numbers; -0 and 0 are one apart. */
uint64_t ls__ulps(ls_dtype dtype, const void *a, const void *b);

#endif
