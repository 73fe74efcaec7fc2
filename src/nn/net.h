/* net.h: a built net as the folders above see it: parameters in one block, gradients in another. */
#ifndef LS_NN_NET_H
#define LS_NN_NET_H

#include "base/context.h"
#include "backend/algorithm_cache.h"
#include "nn/exec/executor.h"
#include "nn/select/selector.h"
#include "tensor/tensor.h"
#include <lockstep/net.h>

ls__net_blocks ls__net_get_blocks(const ls_net *net);

/* The input spec that the net was built with, for checkpoints. */
const ls_input_spec *ls__net_input_spec(const ls_net *net);
/* Marks the gradients of the last backward pass used. */
void ls__net_use_gradients(ls_net *net);
/* The net's kernel selections: what an optimizer opens its kernels with. */
ls__selector *ls__net_selector(ls_net *net);

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
void ls__net_profile(ls_net *net);
/* Fills up to max lines in order of running; returns how many there are. */
int ls__net_profile_lines(const ls_net *net, ls__profile_line *lines, int max);

/* The serial number of a new optimizer. */
uint64_t ls__net_number_optimizer(ls_net *net);

/* ls_net_step, for an optimizer's update; NULL: forward and backward only. */
ls_status ls__net_step(ls_net *net, const char *call, ls__update *update, const ls_batch *batch,
                       double lr);
/* An update alone, from the gradients of the last backward pass. */
ls_status ls__net_update(ls_net *net, const char *call, ls__update *update, double lr);

#endif
