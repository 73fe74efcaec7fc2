/* executor.h: runs the call list of a step (call_list.h). Graph capture, tracing, profiling and
 * injected faults are properties of the executor and treat all positions alike. */
#ifndef LS_NN_EXEC_EXECUTOR_H
#define LS_NN_EXEC_EXECUTOR_H

#include "nn/exec/call_list.h"
#include "nn/exec/call_values.h"
#include "nn/exec/run_call.h"

/* The largest number of queued steps; the host waits before it queues more. */
enum { LS__STEPS_QUEUED = 2 };

typedef struct ls__executor {
    ls_context *ctx;
    const ls__net_blocks *blocks;
    ls__call_lists lists;
    const ls__call_list *list; /* of the current step */
    const ls__parts *parts;    /* NULL: the step only updates */
    int span;                  /* the current one */
    int begin, copied, end;    /* its positions: the first, that after the copies, that after it */
    ls__program *program;      /* of its part; NULL: the step only updates */
    ls__update *update;        /* NULL: no update */
    int next;                  /* the next position */
    ls__rank_sums sums;        /* sums that run beside later calls */
    int fault_at; /* position after which the fault is injected; -1 = none in this step */
    ls__injected_fault fault; /* op -1: none */
    bool call_by_call;        /* traces and audits: no graph is captured or replayed */
    bool profiled;
    ls__step step;
    ls__event *events[LS__STEPS_QUEUED]; /* at the end of each of the last steps */
    int64_t n_steps, clock;
    int64_t n_captures; /* captures that all ranks have made at the same time */
} ls__executor;

ls_status ls__executor_open(ls__executor *executor, ls_context *ctx, const ls__net_blocks *blocks);
void ls__executor_close(ls__executor *executor);

/* Begins a step at the first call of its list. parts, update: either may be NULL. update->prepare
 * has run. */
ls_status ls__executor_begin(ls__executor *executor, const ls__parts *parts, ls__update *update,
                             double lr);
/* Finds the position of the injected fault, if it is in this step. */
ls_status ls__executor_place_fault(ls__executor *executor);
/* Runs the calls before position `end`. */
ls_status ls__executor_run(ls__executor *executor, int end);

#endif
