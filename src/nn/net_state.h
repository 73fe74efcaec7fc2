/* net_state.h: what a net is made of, for the net_*.c files. */
#ifndef LS_NN_NET_STATE_H
#define LS_NN_NET_STATE_H

#include "nn/plan/program.h"
#include "nn/exec/trace.h"
#include "backend/readback.h"
#include <pthread.h>
#include <stdatomic.h>

/* A way through the ops of a step, in order: the copies of the inputs, the program's instructions,
 * the optimizer's ops. */
typedef struct ls__walk {
    ls__program *program;
    ls_optimizer *optimizer; /* may be NULL */
    int next;                /* position that runs next */
    int fault_at;            /* position after which the fault comes; -1 = none in this step */
    bool op_by_op;           /* someone looks at the ops: nothing is recorded or replayed */
} ls__walk;

/* Steps that may be queued at a time: the host waits rather than run further ahead. */
enum { LS__WALKS_AHEAD = 2 };

/* The results of a batch on their way; what is read last is one behind what is run. */
typedef struct ls__results {
    ls__readback late;
    bool has_norm;
    int64_t epoch, step, n;
} ls__results;
enum { LS__N_RESULTS = 2, LS__FALLBACK_SIZE = 512 };

struct ls_net {
    ls__owned owned;
    ls_graph graph;
    ls_net_config config;
    ls__net_blocks blocks;
    int64_t block_elements; /* parameters and buffers */
    ls_tensor *value_views; /* one per entry */
    ls_tensor *gradient_views;

    ls__program **programs; /* cache, by mode and input shapes */
    int n_programs, max_programs;
    int64_t clock;              /* counts uses, for the cache */
    ls__selections *selections; /* what programs have used: for these ops it is so for ever */
    ls__selections *tried;      /* which kernels have run for which ops, see trial.h */
    ls__selections *known; /* for other ops: the context's table as it was when the build was over,
                           since what that learns later is not for this net, or the one of the
                           run that goes on; NULL while the net is built */
    int n_fallbacks;       /* ops whose library kernels all fail when they are run */
    char fallback[LS__FALLBACK_SIZE]; /* the first of these, until a warning has named it */
    bool plans_only;                  /* a program is made for its size alone, and never run */
    unsigned char *arena;             /* shared by all programs */
    size_t arena_bytes;
    uint64_t arena_generation;

    const ls_tensor **feeds;       /* per graph input: what the next forward copies */
    ls_spec *fed_specs;            /* room for a program's key */
    ls_tensor *output_views;       /* per graph output */
    ls_tensor *gradient_of_inputs; /* per graph input */
    ls__program *current;          /* ran last */
    bool forward_done;             /* current is a train program whose backward may run */
    bool has_gradients;
    ls__step step;
    ls__walk walk;
    uint64_t n_optimizers;            /* opened so far */
    ls__event *ends[LS__WALKS_AHEAD]; /* of the last walks */
    int64_t n_walks;
    ls__fault fault;  /* op -1: none */
    atomic_bool busy; /* a call is running it */
    bool has_run;     /* and then by which thread last */
    pthread_t last_thread;

    ls__results results[LS__N_RESULTS]; /* in turn */
    int64_t n_sent, n_taken;            /* of them */
    const float **scalars;              /* room for a list of theirs */
};

/* Allocates the blocks, sets offsets, draws initial values, makes the views. */
ls_status ls__net_open_blocks(ls_net *net);
void ls__net_close_blocks(ls_net *net);
/* Draws them for a block of zeros. */
ls_status ls__net_set_initial_values(ls_net *net);

/* The program for these inputs, from the cache or made now; bound to the arena. */
ls_status ls__net_program(ls_net *net, ls_mode mode, const ls_spec *input_specs, bool timed,
                          ls__program **out);
/* Forgets programs whose gradients were planned for other frozen parameters or wanted inputs. */
void ls__net_drop_training_programs(ls_net *net);

/* ---- In precision.c ---- */

/* Errors in config's precision and loss scale. */
ls_status ls__precision_check(ls_context *ctx, const ls_net_config *config);
/* Fills in the loss scale's defaults, and warns of emulation. */
void ls__precision_fill(ls_net *net);
/* Does the device compute the net's precision by way of another? */
bool ls__emulates_precision(const ls_net *net);

/* ---- Walks, in net_walk.c ---- */

typedef enum ls__walk_part {
    LS__WALK_COPIES,
    LS__WALK_FORWARD,
    LS__WALK_BACKWARD,
    LS__WALK_UPDATE,
    LS__WALK_END
} ls__walk_part;

/* Starts the net's walk; its inputs have been fed, and the optimizer is prepared. */
void ls__walk_begin(ls_net *net, ls__program *program, ls_optimizer *opt, double lr);
/* The position at which a part begins. */
int ls__walk_position(const ls_net *net, ls__walk_part part);
/* Whether anything happens at a position: not for inputs that the program has no need of, nor for
 * skipped instructions. */
bool ls__walk_has_op(const ls_net *net, int position);
/* Runs all that comes before position `end`. */
ls_status ls__walk_run(ls_net *net, int end);
/* What it consists of: queues what stands at a position; does so with all before `end`; takes note
 * of what has been queued so far. */
ls_status ls__walk_queue(ls_net *net, int position);
ls_status ls__walk_plainly(ls_net *net, int end);
void ls__walk_arrived(ls_net *net);
/* In record.c: as ls__walk_plainly, from a part's beginning behind the copies, by a recording where
 * that can be. */
ls_status ls__walk_replay(ls_net *net, int end);

/* ---- In net_run.c ---- */

/* All of ls_net_step but the running. */
ls_status ls__net_take_step(ls_net *net, const char *call, ls_optimizer *opt, const ls_batch *batch,
                            double lr);
/* Goes on with that step, up to position `end`. */
ls_status ls__net_run_step(ls_net *net, int end);

/* ---- In net_labels.c ---- */

/* An error when an input that is fed, and that a cross-entropy reads as labels, has one that is no
 * class. Waits for the device where only that has them. */
ls_status ls__net_check_labels(ls_net *net);

/* ---- In net_results.c ---- */

ls_status ls__net_open_results(ls_net *net);
void ls__net_close_results(ls_net *net);
/* Sends the results of the batch that has been run to the host; queued. */
ls_status ls__net_send_results(ls_net *net, const ls_batch *batch, const ls_optimizer *opt);

/* ---- Faults, in trace.c ---- */

/* Finds out whether the net's fault belongs to the walk that has just begun, and where. */
ls_status ls__fault_place(ls_net *net);
/* Does it. */
ls_status ls__fault_inject(ls_net *net);

#endif
