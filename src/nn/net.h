/* net.h: a built net as the folders above see it: parameters in one block, gradients in another. */
#ifndef LS_NN_NET_H
#define LS_NN_NET_H

#include "base/context.h"
#include "backend/algorithm_cache.h"
#include "tensor/tensor.h"
#include <lockstep/net.h>

/* Entries start at multiples of this many elements; the gap's elements are zero in every block. */
enum { LS__PARAMETER_ALIGNMENT = 16 };

/* A parameter or buffer. Parameters come first in the block, buffers after all of them. */
typedef struct ls__parameter {
    char *name; /* "layer1.0.conv1.weight" */
    ls_parameter_kind kind;
    ls_shape shape;        /* memory order */
    int64_t offset, count; /* elements in the block */
    bool frozen;
} ls__parameter;

typedef struct ls__net_blocks {
    int64_t n_parameters;
    const ls__parameter *parameters;
    int64_t parameter_elements; /* length of the parameters' part, gaps included: also of the
                                   gradient block */
    float *values;              /* device memory: parameters, then buffers */
    float *gradients;           /* device memory; NULL for inference */
    void *compute_weights;  /* device memory: the parameters in the type of activations, element for
                       element, as programs have cast them last; NULL when that is f32 */
    float *scaler;          /* device memory: see LS__LOSS_SCALE_*; NULL without loss scaling */
    int64_t frozen_version; /* changes with every freeze and unfreeze */
} ls__net_blocks;

ls__net_blocks ls__net_get_blocks(const ls_net *net);

/* The step's numbers, which ls_net_step and ls_net_set_step set. */
const ls__step *ls__net_get_step(const ls_net *net);
/* The input spec that the net was built with, for checkpoints. */
const ls_input_spec *ls__net_input_spec(const ls_net *net);
/* Whether the gradients in the block belong to a backward pass that no update has used. */
bool ls__net_has_gradients(const ls_net *net);
/* Marks them used. */
void ls__net_use_gradients(ls_net *net);

/* An error when the net has not been run yet. */
ls_status ls__net_need_results(ls_net *net, const char *call);
/* Where the losses of the last forward lie, in device memory, and their weights: up to max of each.
 * Returns how many there are. */
int ls__net_losses(const ls_net *net, const float **scalars, double *weights, int max);

/* The kernels that the net's programs have used so far, and its optimizer's, sorted by op; programs
 * that the cache has dropped count too, and what a checkpoint's run had used before. Listed are ops
 * for which there are several kernels. Beyond LS__MAX_SELECTIONS ops that went by the heuristic
 * there is a sample of these, which depends on the set of ops alone. Ops and kernels are part of a
 * run's identity, reasons are not. */
const ls__selections *ls__net_selections(const ls_net *net);
/* "f32", "tf32", "bf16", "f16" */
const char *ls__net_precision(const ls_net *net);
/* The type of activations: LS_F32 for TF32, too. */
ls_dtype ls__net_activations(const ls_net *net);
/* The loss scale's settings, defaults filled in; only where the blocks have a scaler. */
ls_loss_scale_config ls__net_loss_scale_config(const ls_net *net);

/* The first word of an entry that is not a kernel selection, and its two values: see overlap.c. */
#define LS__WEIGHT_GRADIENTS "weight_gradients"
#define LS__SIDE             "side"
#define LS__MAIN             "main"
/* Does the text of a choice begin with that word? */
bool ls__is_weight_gradients(const char *text);

/* The context's table as it was when the net had been built, or what ls__net_take_selections has
 * put in its place: it decides for ops that come up later. */
const ls__selections *ls__net_known_selections(const ls_net *net);

/* Makes the table of a run that goes on, read from the file `path`, the one that the net knows, as
 * if it had been built with it; *table becomes NULL. LS_ERR_MISMATCH, with nothing changed, when
 * the net has already used another kernel for an op. */
ls_status ls__net_take_selections(ls_net *net, const char *path, ls__selections **table);

/* Which network it is, whatever its weights: nodes, settings, shapes, initialisation, names. Custom
 * ops count by their kind, their settings and whether they have a backward. What is frozen is left
 * out. */
ls_digest ls__net_model_digest(const ls_net *net);

/* Seconds spent in each instruction of the program that ran last, since profiling was switched on.
 */
typedef struct ls__profile_line {
    const char *layer, *op, *kernel;
    double seconds;
    double flops, bytes; /* of one run, as ls__op_flops and ls__op_bytes count; 0 of users' ops */
} ls__profile_line;
/* Has the program that ran last a captured graph? */
bool ls__net_is_captured(const ls_net *net);
/* Starts counting from zero in all programs that are planned now. */
ls_status ls__net_profile(ls_net *net);
/* Fills up to max lines in order of running; returns how many there are. */
int ls__net_profile_lines(const ls_net *net, ls__profile_line *lines, int max);

/* One op of an optimizer's update. Operands as long as the parameters' block are laid out like it.
 */
typedef struct ls__update_op {
    const ls__op *op;
    ls__kernel *kernel;
    void *workspace;
    void *buffers[LS__MAX_OPERANDS];
} ls__update_op;

/* The serial number of a new optimizer. */
uint64_t ls__net_number_optimizer(ls_net *net);

/* An optimizer, as ls_net_step calls it; src/optim extends it. */
struct ls_optimizer {
    ls__owned owned;
    ls_net *net;
    /* Before the backend's begin: takes note of what was frozen since; memory may be allocated. */
    ls_status (*prepare)(ls_optimizer *opt);
    /* An update is this many ops, run in order, each between backend begin and end. They only queue
     * work, so that they can be recorded and replayed: step has the rate and n_steps. */
    int n_ops;
    void (*describe)(const ls_optimizer *opt, int op, ls__update_op *out);
    ls_status (*run)(ls_optimizer *opt, int op, const ls__step *step);
    /* After the ops of an update have been queued. */
    void (*done)(ls_optimizer *opt);
    int64_t n_steps;   /* updates done, as ls__step counts them */
    uint64_t serial;   /* of the net's optimizers, from 1; never used again */
    const float *norm; /* device memory: the L2 norm of the last gradients; NULL: not measured */
};

#endif
