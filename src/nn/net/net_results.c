/* net_results.c: the results of a forward: losses, metrics, outputs; waiting, or by readback. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "nn/net/net_state.h"
#include <string.h>

ls_status ls__net_expect_results(ls_net *net, const char *call)
{
    LS__ENTER(ls__net_context(net));
    if (net->current) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_INVALID, "%s: the net has not been run", call);
}

/* Fails unless the last batch had what the loss reads. */
static ls_status expect_labels(ls_net *net, const char *call)
{
    LS_TRY(ls__net_expect_results(net, call));
    if (!net->unlabelled) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_INVALID,
                    "%s: the last batch had no labels or targets for the loss", call);
}

/* The address of a scalar of the last forward. */
static const float *address(const ls_net *net, const ls_node *node)
{
    return ls__program_address(net->current, net->current->full_values[node->id]);
}

/* The addresses of loss i and metric i of the last batch. */
static const float *loss_address(const ls_net *net, int i)
{
    return net->current->is_shard ? ls__net_shard_scalar(net, ls__shard_losses(&net->graph) + i)
                                  : address(net, net->graph.losses.items[i].node);
}

static const float *metric_address(const ls_net *net, int i)
{
    return net->current->is_shard ? ls__net_shard_scalar(net, LS__SHARD_METRICS + i)
                                  : address(net, net->graph.metrics.items[i].node);
}

/* The divisor of the last batch's mean loss; NULL = the number of samples. */
static const float *loss_weight_address(const ls_net *net)
{
    const ls__program *p = net->current;
    if (p->is_shard) return ls__net_shard_scalar(net, LS__SHARD_WEIGHT);
    return p->loss_weight < 0 ? NULL : ls__program_address(p, p->loss_weight);
}

/* Fails if the program of a shard ran last. */
static ls_status expect_output(const ls_net *net, const char *call, const char *name)
{
    if (!net->current->is_shard) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_UNSUPPORTED,
                    "%s '%s': a training step with %lld shards keeps losses and metrics, but no "
                    "outputs",
                    call, name, (long long)net->shards.n);
}

/* ---- By readback ---- */

/* Returns the number of scalars in the device's bytes: the losses, the metrics, the loss's divisor,
 * the gradients' norm. */
static int count_scalars(const ls_net *net)
{
    return net->graph.losses.n + net->graph.metrics.n + 2;
}

ls_status ls__net_open_results(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    const size_t n = (size_t)count_scalars(net);
    net->scalars = ls__zalloc(ctx, n * sizeof *net->scalars);
    if (!net->scalars) return ls__fail_memory(ctx, "net", n * sizeof *net->scalars);
    for (int i = 0; i < LS__N_RESULTS; i++)
        LS_TRY(ls__readback_open(&net->results[i].readback, ctx, "net", n * sizeof(float)));
    return LS_OK;
}

void ls__net_close_results(ls_net *net)
{
    for (int i = 0; i < LS__N_RESULTS; i++) ls__readback_close(&net->results[i].readback);
    ls__free(net->owned.ctx, net->scalars);
}

ls_status ls__net_send_results(ls_net *net, const ls_batch *batch, const ls__update *update)
{
    ls__device *device = net->owned.ctx->device;
    const ls_graph *graph = &net->graph;
    ls__results *r = &net->results[net->n_sent % LS__N_RESULTS];
    const float *weight = loss_weight_address(net), *norm = update ? update->norm : NULL;
    int n = 0;
    for (int i = 0; i < graph->losses.n; i++) net->scalars[n++] = loss_address(net, i);
    for (int i = 0; i < graph->metrics.n; i++) net->scalars[n++] = metric_address(net, i);
    if (weight) net->scalars[n++] = weight;
    if (norm) net->scalars[n++] = norm;
    LS_TRY(device->backend->gather(device, r->readback.memory, net->scalars, n));
    LS_TRY(ls__readback_send(&r->readback));
    r->unlabelled = net->unlabelled;
    r->has_weight = weight != NULL;
    r->has_norm = norm != NULL;
    r->epoch = batch->epoch;
    r->step = batch->step;
    r->n = ls_tensor_shape(batch->images)->dims[0];
    net->n_sent++;
    if (net->n_sent - net->n_taken > LS__N_RESULTS) net->n_taken = net->n_sent - LS__N_RESULTS;
    return LS_OK;
}

bool ls__net_has_metric(const ls_net *net, const char *name)
{
    return ls__find_named(&net->graph.metrics, name) >= 0;
}

int ls__net_own_metrics(const ls_net *net, const char *names[LS_MAX_METRICS])
{
    const ls__named_list *metrics = &net->graph.metrics;
    int n = 0;
    for (int i = 0; i < metrics->n; i++)
        if (!ls__is_accuracy(metrics->items[i].name)) names[n++] = metrics->items[i].name;
    return n;
}

double ls_results_metric(const ls_results *results, const char *name)
{
    for (int i = 0; results && name && i < results->n_metrics; i++)
        if (strcmp(results->metrics[i].name, name) == 0) return results->metrics[i].value;
    return 0;
}

/* Returns the oldest results, or none if at most `kept` are pending. */
static ls_status results_take(ls_net *net, int64_t kept, const char *call, ls_results *out)
{
    LS__DEFAULT_FLOATS;
    if (out) *out = (ls_results){ 0 };
    LS__ENTER(ls__net_context(net));
    if (!out) return ls__fail(net->owned.ctx, LS_ERR_INVALID, "%s: out is NULL", call);
    if (net->n_sent - net->n_taken <= kept) return LS_OK;
    ls__results *r = &net->results[net->n_taken++ % LS__N_RESULTS];
    LS_TRY(ls__readback_wait(&r->readback));
    const ls__named_list *losses = &net->graph.losses, *metrics = &net->graph.metrics;
    const float *scalars = r->readback.host;
    *out = (ls_results){ .epoch = r->epoch,
                         .step = r->step,
                         .n = r->n,
                         .has_loss = losses->n > 0 && !r->unlabelled,
                         .n_metrics = r->unlabelled ? 0 : metrics->n };
    for (int i = 0; i < losses->n && out->has_loss; i++)
        out->loss += (double)losses->items[i].weight * (double)scalars[i];
    for (int i = 0; i < out->n_metrics; i++)
        out->metrics[i] = (ls_metric_value){ metrics->items[i].name,
                                             (double)scalars[losses->n + i] / (double)r->n };
    const float *others = scalars + losses->n + metrics->n;
    if (out->has_loss) out->loss_weight = r->has_weight ? (double)others[0] : (double)r->n;
    if (r->has_norm) out->gradient_norm = (double)others[r->has_weight];
    return LS_OK;
}

ls_status ls_net_results(ls_net *net, ls_results *out)
{
    return results_take(net, net ? ls__readback_lag(net->owned.ctx->device) : 0, "ls_net_results",
                        out);
}

ls_status ls_net_last_results(ls_net *net, ls_results *out)
{
    return results_take(net, 0, "ls_net_last_results", out);
}

int ls__net_losses(const ls_net *net, const float **scalars, double *weights, int max)
{
    const ls__named_list *losses = &net->graph.losses;
    for (int i = 0; i < losses->n && i < max; i++) {
        scalars[i] = loss_address(net, i);
        weights[i] = (double)losses->items[i].weight;
    }
    return losses->n;
}

/* ---- Waiting ---- */

static ls_status read_scalar(const ls_net *net, const float *scalar, double *out)
{
    ls__device *device = net->owned.ctx->device;
    float value;
    LS_TRY(device->backend->read(device, &value, scalar, sizeof value));
    *out = (double)value;
    return LS_OK;
}

ls_status ls_net_loss(ls_net *net, double *loss)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(expect_labels(net, "ls_net_loss"));
    if (!loss) return ls__fail(net->owned.ctx, LS_ERR_INVALID, "ls_net_loss: loss is NULL");
    *loss = 0;
    const ls__named_list *losses = &net->graph.losses;
    for (int i = 0; i < losses->n; i++) {
        double value;
        LS_TRY(read_scalar(net, loss_address(net, i), &value));
        *loss += (double)losses->items[i].weight * value;
    }
    return LS_OK;
}

ls_status ls_net_metric(ls_net *net, const char *name, double *value)
{
    LS__DEFAULT_FLOATS;
    LS_TRY(expect_labels(net, "ls_net_metric"));
    if (!value) return ls__fail(net->owned.ctx, LS_ERR_INVALID, "ls_net_metric: value is NULL");
    const ls_graph *graph = &net->graph;
    const int metric = name ? ls__find_named(&graph->metrics, name) : -1;
    if (metric >= 0) {
        LS_TRY(read_scalar(net, metric_address(net, metric), value));
        *value /= (double)net->n_samples;
        return LS_OK;
    }
    const int loss = name ? ls__find_named(&graph->losses, name) : -1;
    if (loss >= 0) return read_scalar(net, loss_address(net, loss), value);
    const int output = name ? ls__find_named(&graph->outputs, name) : -1;
    const ls_node *node = output < 0 ? NULL : graph->outputs.items[output].node;
    if (node && node->spec.dtype == LS_F32 && ls_shape_element_count(&node->spec.shape) == 1) {
        LS_TRY(expect_output(net, "ls_net_metric", name));
        return read_scalar(net, address(net, node), value);
    }
    return ls__fail(net->owned.ctx, LS_ERR_NOT_FOUND,
                    "ls_net_metric: the net has no metric, loss or scalar output '%s'",
                    name ? name : "(null)");
}

const ls_tensor *ls_net_output(ls_net *net, const char *name)
{
    if (ls__net_expect_results(net, "ls_net_output") != LS_OK) return NULL;
    const int i =
        ls__expect_named(net->owned.ctx, &net->graph.outputs, "ls_net_output", "output", name);
    const bool found = i >= 0 && expect_output(net, "ls_net_output", name) == LS_OK;
    return found ? &net->output_views[i] : NULL;
}
