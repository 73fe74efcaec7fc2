/* net.h: the interface of a built net for other folders. Parameters lie in one block, gradients in
 * another. */
#ifndef LS_NN_NET_NET_H
#define LS_NN_NET_NET_H

#include "base/context.h"
#include "backend/algorithm_cache.h"
#include "nn/exec/executor.h"
#include "nn/select/selector.h"
#include "tensor/tensor.h"
#include <lockstep/net.h>
#include <string.h>

ls__net_blocks ls__net_get_blocks(const ls_net *net);

/* True for the weight and bias of the net's head: its last linear layer. */
bool ls__net_is_head(const ls_net *net, const char *parameter);
/* The digest of the weights that were loaded before training, "" for none; part of a run's
 * identity. */
const char *ls__net_weights_digest(const ls_net *net);
void ls__net_set_weights_digest(ls_net *net, const char digest[LS_DIGEST_TEXT_SIZE]);

/* The config that the net was built with, with the defaults of the loss scale; loss.class_weights
 * is NULL. The loss scale is valid only if the blocks have one. */
const ls_net_config *ls__net_config(const ls_net *net);
/* The graph that the model function made, with the net's own nodes. */
const ls_graph *ls__net_graph(const ls_net *net);
/* Notes which parameters are frozen when the training begins; later calls do nothing. */
void ls__net_begin(ls_net *net);
/* Whether parameter i was frozen when the training began; before that, whether it is now. */
bool ls__net_began_frozen(const ls_net *net, int64_t i);
/* Freezes and unfreezes what differs from the list, one per parameter; buffers are ignored. */
ls_status ls__net_set_frozen(ls_net *net, const bool *frozen);

/* Marks the gradients of the last backward pass as used: that of parameter i, or all. */
void ls__net_use_gradient(ls_net *net, int64_t i);
void ls__net_use_gradients(ls_net *net);
/* Whether the memory of gradients holds those of the last backward pass, used or not. */
bool ls__net_has_gradients(const ls_net *net);
/* The net's kernel selections, with which an optimizer opens its kernels. */
ls__selector *ls__net_selector(ls_net *net);

/* Whether the graph has a metric of that name. */
bool ls__net_has_metric(const ls_net *net, const char *name);
/* Whether it is the name of a metric that every result of a classifier has. */
static inline bool ls__is_accuracy(const char *name)
{
    return strcmp(name, "top1") == 0 || strcmp(name, "top5") == 0;
}
/* The names of the other metrics, in the order of the graph. Returns their number. */
int ls__net_own_metrics(const ls_net *net, const char *names[LS_MAX_METRICS]);
/* Fails if the net has not run yet. */
ls_status ls__net_expect_results(ls_net *net, const char *call);
/* The addresses of the last forward's losses, in device memory, and their weights: up to max of
 * each. Returns their number. */
int ls__net_losses(const ls_net *net, const float **scalars, double *weights, int max);

/* The kernels that the net's programs and optimizers have used, sorted by op, also those of dropped
 * programs and of the run before its checkpoint. Only ops with several kernels are listed. More
 * than LS__MAX_SELECTIONS ops with the heuristic's kernel are sampled; the sample depends on the
 * set of ops alone. Ops and kernels are part of a run's identity, reasons are not. */
const ls__selections *ls__net_selections(const ls_net *net);
/* "f32", "tf32", "bf16", "f16" */
const char *ls__net_precision(const ls_net *net);
/* The type of activations: LS_F32 for TF32, too. */
ls_dtype ls__net_activations(const ls_net *net);

/* The algorithm cache after the net's build, or the table set by ls__selector_replace. Ops that are
 * planned later use it. */
const ls__selections *ls__net_known_selections(const ls_net *net);

/* A digest of nodes, settings, shapes, initialisation and names, but not of weights and of the list
 * of frozen parameters. A custom op is its kind, its settings and whether it has a backward. */
ls_digest ls__net_model_digest(const ls_net *net);

/* A call of the last program; its time is that of all shards. */
typedef struct ls__profile_line {
    const char *layer, *op, *kernel;
    double seconds;      /* since profiling began */
    double flops, bytes; /* of one run, as ls__op_flops and ls__op_bytes count; 0 for users' ops */
} ls__profile_line;
/* True if the last program has a captured graph. */
bool ls__net_is_captured(const ls_net *net);
/* Starts profiling, from zero, in all existing programs. */
void ls__net_profile(ls_net *net);
/* Fills up to max lines in execution order; returns their number. */
int ls__net_profile_lines(const ls_net *net, ls__profile_line *lines, int max);

/* The serial number of a new ls__update. */
uint64_t ls__net_number_update(ls_net *net);

/* Runs ls_net_step with an optimizer's update; NULL: forward and backward only. */
ls_status ls__net_step(ls_net *net, const char *call, ls__update *update, const ls_batch *batch,
                       double lr);
/* Plans the evaluation of a batch of this shape, which another rank runs, so that all ranks have
 * the same kernel selections. */
ls_status ls__net_plan_evaluation(ls_net *net, const ls_batch *batch);
/* Runs an update alone, from the gradients of the last backward pass, which the caller has checked.
 */
ls_status ls__net_update(ls_net *net, const char *call, ls__update *update, double lr);

#endif
