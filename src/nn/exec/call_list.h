/* call_list.h: the calls of a step in the order in which they run: copies of the inputs and
 * instructions of the program, for each shard of the batch, sums of the shards' results, operations
 * of the optimizer. A list is made once for its programs and its update. */
#ifndef LS_NN_EXEC_CALL_LIST_H
#define LS_NN_EXEC_CALL_LIST_H

#include "nn/plan/shard.h"
#include "tensor/tensor.h"
#include <lockstep/net.h>

/* The update of a step, or the addition of its gradients to those of earlier batches. */
typedef struct ls__update {
    ls_net *net;
    ls_optimizer *optimizer;
    ls__call *calls; /* the calls only queue work, so that they can be captured */
    int n_calls;
    uint64_t serial;       /* its number in the net, from 1; never reused */
    int64_t n_steps;       /* updates done, as ls__step counts them */
    int64_t n_accumulated; /* batches since the last update */
    const float *norm; /* device memory: the L2 norm of the last gradients; NULL: not measured */
    ls__captures captures; /* of steps that only update */
    void (*prepare)(struct ls__update
                        *update); /* called before a step: updates the list of frozen parameters */
    void (*done)(struct ls__update *update); /* called after its calls were queued */
} ls__update;

/* The parts of a step's batch that this rank computes. In the last part each sum stands at its
 * position among the program's calls, so that exchanges between ranks begin as early as
 * possible. */
typedef struct ls__parts {
    const ls__shard *list;
    int64_t n, n_all;              /* of this rank, of all ranks */
    int64_t first;                 /* the index of this rank's first one among all */
    const ls_tensor *const *feeds; /* per graph input; read until the last part's copies */
    int64_t first_fed;             /* the sample that the feeds begin with */
    ls__shard_sum *sums;           /* of shards' results */
    int n_sums;
    bool sums_last;      /* all sums follow the last part instead */
    ls__call *last_call; /* follows all sums; NULL: none */
    /* Synchronised batch norms have [n][n_sums] calls, calls[0] of each sum for each part. The
     * parts run at the same time, from one sync point of their programs to the next. NULL: parts
     * run one after the other. */
    ls__call *synced_sums;
} ls__parts;

/* Consecutive calls of one part. */
typedef struct ls__span {
    int64_t part;
    bool copies; /* begins with the copies of the inputs */
    int end;     /* the position after it */
} ls__span;

typedef enum ls__phase {
    LS__PHASE_COPIES,
    LS__PHASE_FORWARD,
    LS__PHASE_BACKWARD,
    LS__PHASE_UPDATE,
    LS__N_PHASES
} ls__phase;

typedef struct ls__call_list {
    ls__call **calls;
    int n_calls;
    int ends[LS__N_PHASES]; /* the end of each phase, in the last part */
    int summed;             /* the position after all sums of the parts' results */
    ls__span *spans;        /* of the parts; the update belongs to the last one */
    int n_spans;
    /* The list is valid for these programs and this update. */
    uint64_t *programs; /* [n_parts]: serial numbers */
    int64_t n_parts;
    uint64_t update; /* serial number; 0: none */
    const ls__shard_sum *sums;
    bool sums_last;
    int64_t last_used;     /* 0: not made */
    size_t capacity_bytes; /* of the block at calls, which also holds spans and programs */
} ls__call_list;

/* The lists that alternate in a run: of training steps, of the last batch of an epoch, which is
 * smaller, of evaluation, of updates alone. */
enum { LS__MAX_CALL_LISTS = 6 };
typedef struct ls__call_lists {
    ls__call_list items[LS__MAX_CALL_LISTS];
    int64_t clock;
} ls__call_lists;

/* The list of these parts and this update, either of which may be NULL. A new list replaces the
 * least recently used. Returns NULL if host memory is short. */
const ls__call_list *ls__call_lists_find(ls_context *ctx, ls__call_lists *lists,
                                         const ls__parts *parts, const ls__update *update);
void ls__call_lists_close(ls_context *ctx, ls__call_lists *lists);

#endif
