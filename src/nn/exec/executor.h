/* executor.h: runs a step, which is one flat list of calls: copies of the inputs and instructions
 * of the program, for each shard of the batch, operations of the optimizer. Graph capture, tracing,
 * profiling and injected faults are properties of the executor and treat all positions alike. */
#ifndef LS_NN_EXEC_EXECUTOR_H
#define LS_NN_EXEC_EXECUTOR_H

#include "nn/exec/injected_fault.h"
#include "nn/exec/rank_sums.h"
#include "tensor/tensor.h"

/* The update of a step, or the addition of its gradients to those of earlier batches. */
typedef struct ls__update {
    ls_net *net;
    ls_optimizer *optimizer;
    ls__call *calls; /* they only queue work, so that they can be captured */
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
    /* With synchronised batch norms: [n][n_sums], calls[0] of each sum for each part. The parts run
     * at the same time, from one sync point of their programs to the next. NULL: one after the
     * other. */
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

/* The largest number of queued steps; the host waits before it queues more. */
enum { LS__STEPS_QUEUED = 2 };

typedef struct ls__executor {
    ls_context *ctx;
    const ls__net_blocks *blocks;
    ls__call **calls; /* of the current step */
    int n_calls, room;
    int ends[LS__N_PHASES]; /* end of each phase, in the last part */
    const ls__parts *parts; /* NULL: the step only updates */
    ls__span *spans;        /* of the parts; the update belongs to the last one */
    int n_spans, span_room;
    int span;               /* the current one */
    int begin, copied, end; /* its positions: the first, that after the copies, that after it */
    ls__program *program;   /* of its part; NULL: the step only updates */
    ls__update *update;     /* NULL: no update */
    int next;               /* the next position */
    int summed;             /* position after all sums of the parts' results */
    ls__rank_sums sums;     /* those that run beside later calls */
    int fault_at;           /* position after which the fault is injected; -1 = none in this step */
    ls__injected_fault fault; /* op -1: none */
    bool call_by_call;        /* traces and audits: no graph is captured or replayed */
    bool profiled;
    ls__step step;
    ls__event *events[LS__STEPS_QUEUED]; /* at the end of each of the last steps */
    int64_t n_steps, clock;
    int64_t n_captures; /* that all ranks have made at the same time */
} ls__executor;

ls_status ls__executor_open(ls__executor *executor, ls_context *ctx, const ls__net_blocks *blocks);
void ls__executor_close(ls__executor *executor);

/* Makes the list of a step. parts, update: either may be NULL. update->prepare has run. */
ls_status ls__executor_begin(ls__executor *executor, const ls__parts *parts, ls__update *update,
                             double lr);
/* Finds the position of the injected fault, if it is in this step. */
ls_status ls__executor_place_fault(ls__executor *executor);
/* Runs the calls before position `end`. */
ls_status ls__executor_run(ls__executor *executor, int end);

#endif
