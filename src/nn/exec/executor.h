/* executor.h: runs a step, which is one flat list of calls: copies of the inputs, instructions of
 * the program, operations of the optimizer. Graph capture, tracing, profiling and injected faults
 * are properties of the executor; each position looks the same to them. */
#ifndef LS_NN_EXEC_EXECUTOR_H
#define LS_NN_EXEC_EXECUTOR_H

#include "nn/exec/fault.h"
#include "nn/plan/program.h"

/* An optimizer's part of a step. */
typedef struct ls__update {
    ls_net *net;
    ls__call *calls; /* they only queue work, so that they can be captured */
    int n_calls;
    uint64_t serial;   /* of the net's optimizers, from 1; never used again */
    int64_t n_steps;   /* updates done, as ls__step counts them */
    const float *norm; /* device memory: the L2 norm of the last gradients; NULL: not measured */
    ls__captures captures;                      /* of steps that only update */
    void (*prepare)(struct ls__update *update); /* before a step: notes what was frozen since */
    void (*done)(struct ls__update *update);    /* after its calls have been queued */
} ls__update;

typedef enum ls__phase {
    LS__PHASE_COPIES,
    LS__PHASE_FORWARD,
    LS__PHASE_BACKWARD,
    LS__PHASE_UPDATE,
    LS__N_PHASES
} ls__phase;

/* Steps that may be queued at a time: the host waits rather than run further ahead. */
enum { LS__STEPS_QUEUED = 2 };

typedef struct ls__executor {
    ls_context *ctx;
    const ls__net_blocks *blocks;
    ls__call **calls; /* of the step at hand */
    int n_calls, room;
    int ends[LS__N_PHASES]; /* behind the last call of each phase */
    ls__program *program;   /* NULL: the step only updates */
    ls__update *update;     /* NULL: it does not */
    int next;               /* position that runs next */
    int fault_at;           /* position after which the fault is injected; -1 = none in this step */
    ls__fault fault;        /* op -1: none */
    bool call_by_call;      /* a trace looks at each call: nothing is captured or replayed */
    bool profiled;
    ls__step step;
    ls__event *events[LS__STEPS_QUEUED]; /* at the ends of the last steps */
    int64_t n_steps, clock;
} ls__executor;

ls_status ls__executor_open(ls__executor *executor, ls_context *ctx, const ls__net_blocks *blocks);
void ls__executor_close(ls__executor *executor);

/* Makes the list of a step. program, update: either may be NULL. The inputs' operand 0 must have
 * been set; update->prepare has run. */
ls_status ls__executor_begin(ls__executor *executor, ls__program *program, ls__update *update,
                             double lr);
/* Finds out whether the fault belongs to this step, and where. */
ls_status ls__executor_place_fault(ls__executor *executor);
/* Runs the calls that come before position `end`. */
ls_status ls__executor_run(ls__executor *executor, int end);

#endif
