/* net_build.c: builds a net: calls the model function, adds the loss, allocates, plans. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/floats.h"
#include "nn/layers/layers.h"
#include "nn/net/net_state.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_PLANS = 1024, TOP_FEW = 5 };

/* ---- The graph ---- */

static ls_status check_net_config(ls_context *ctx, ls_model_fn model, const ls_net_config *config)
{
    if (!model || !config)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_net_build: model and config are required");
    const ls_spec *image = &config->input.image;
    char text[LS_SHAPE_TEXT_SIZE];
    ls_shape_text(&image->shape, text, sizeof text);
    if (image->shape.n_dims < 2 || ls_shape_element_count(&image->shape) <= 0)
        return ls__fail(ctx, LS_ERR_SHAPE,
                        "ls_net_build: config.input.image has shape %s, expected [batch,...]",
                        text);
    if (image->dtype != LS_F32 && image->dtype != LS_U8)
        return ls__fail(ctx, LS_ERR_TYPE,
                        "ls_net_build: config.input.image is %s, expected U8 or F32",
                        ls_dtype_name(image->dtype));
    if (image->dtype == LS_U8 && (image->shape.n_dims != 4 || image->shape.dims[3] > 4))
        return ls__fail(
            ctx, LS_ERR_SHAPE,
            "ls_net_build: config.input.image is U8 %s; expected [N,H,W,C] with at most 4 channels",
            text);
    const struct {
        const char *name;
        int64_t value, max;
    } limits[] = { { "max_execution_plans", config->max_execution_plans, MAX_PLANS },
                   { "steps", config->steps, INT64_MAX },
                   { "recompute", config->recompute, LS_RECOMPUTE_CHEAP },
                   { "loss.kind", config->loss.kind, LS_LOSS_EXTERNAL } };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].value < 0 || limits[i].value > limits[i].max)
            return ls__fail(ctx, LS_ERR_INVALID,
                            "ls_net_build: config.%s is %lld, expected 0 to %lld", limits[i].name,
                            (long long)limits[i].value, (long long)limits[i].max);
    LS_TRY(ls__precision_check(ctx, config));
    if (config->loss.kind != LS_LOSS_CROSS_ENTROPY &&
        (config->loss.label_smoothing != 0 || config->loss.class_weights ||
         config->loss.soft_targets))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_net_build: label smoothing, class weights or soft targets %s",
                        config->loss.kind == LS_LOSS_NONE ? "without a loss"
                                                          : "are for LS_LOSS_CROSS_ENTROPY only");
    if (config->loss.kind == LS_LOSS_CROSS_ENTROPY && !config->loss.soft_targets &&
        config->input.n_targets > 0 && config->input.n_classes == 0)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_net_build: the data have targets but no labels, which "
                        "LS_LOSS_CROSS_ENTROPY reads; expected LS_LOSS_BINARY_CROSS_ENTROPY or "
                        "LS_LOSS_MSE, or soft_targets for class probabilities");
    return LS_OK;
}

static ls_node *append_input(ls_net *net)
{
    const ls_input_spec *input = &net->config.input;
    ls_graph *graph = &net->graph;
    ls_node *x = ls__append_input(graph, "input", input->image);
    if (!x || input->image.dtype == LS_F32) return x;
    float std[4];
    for (int i = 0; i < 4; i++) {
        const float mean = input->mean[i];
        std[i] = input->std[i] == 0 ? 1 : input->std[i];
        if (isfinite(mean) && isfinite(std[i]) && std[i] > 0) continue;
        return ls_graph_fail(graph, LS_ERR_INVALID, "ls_net_build: mean %g, std %g of channel %d",
                             (double)mean, (double)std[i], i);
    }
    return ls__append_normalize(graph, x, input->mean, std);
}

/* `k`: columns of the output for this data; 0 = any. */
static ls_status check_output(const ls_net *net, const ls_node *y, const char *loss, int k)
{
    const ls_shape shape = ls_node_shape(y);
    char text[LS_SHAPE_TEXT_SIZE], expected[48] = "";
    if (k > 0) snprintf(expected, sizeof expected, ", with K = %d for this data", k);
    if (shape.n_dims == 2 && (k == 0 || shape.dims[1] == k)) return LS_OK;
    return ls__fail(net->graph.ctx, LS_ERR_SHAPE,
                    "ls_net_build: the model's output '%s' is %s; %s requires [N,K]%s", y->name,
                    ls_shape_text(&shape, text, sizeof text), loss, expected);
}

/* A loss of the output and targets, which has no metrics. */
static ls_status append_target_loss(ls_net *net, ls_node *y)
{
    ls_graph *graph = &net->graph;
    const bool binary = net->config.loss.kind == LS_LOSS_BINARY_CROSS_ENTROPY;
    LS_TRY(check_output(net, y, binary ? "binary cross-entropy" : "the mean squared error",
                        net->config.input.n_targets));
    ls_node *target = ls_input(graph, "target", (ls_spec){ LS_F32, ls_node_shape(y) });
    ls_node *loss =
        binary ? ls_binary_cross_entropy(graph, y, target, NULL) : ls_mse(graph, y, target);
    return ls_loss(graph, "loss", loss, 1) ? LS_OK : LS_ERR_EARLIER;
}

static ls_status append_loss(ls_net *net, ls_node *y)
{
    ls_graph *graph = &net->graph;
    if (net->config.loss.kind != LS_LOSS_CROSS_ENTROPY) return append_target_loss(net, y);
    LS_TRY(check_output(net, y, "cross-entropy", net->config.input.n_classes));
    const ls_shape shape = ls_node_shape(y);
    ls_node *label = ls_input(graph, "label", (ls_spec){ LS_I32, LS_SHAPE(shape.dims[0]) });
    const ls_cross_entropy_config config = { net->config.loss.label_smoothing,
                                             net->config.loss.class_weights };
    ls_node *target = label;
    if (net->config.loss.soft_targets && label) {
        label->u.input.classes = shape.dims[1]; /* set like the number of classes by
                                                 * ls_cross_entropy */
        target = ls_input(graph, "target", (ls_spec){ LS_F32, shape });
    }
    ls_node *loss = ls_loss(graph, "loss", ls_cross_entropy(graph, y, target, &config), 1);
    if (!loss || !ls_metric(graph, "top1", ls_top_k_correct(graph, y, label, 1)))
        return LS_ERR_EARLIER;
    if (shape.dims[1] > TOP_FEW &&
        !ls_metric(graph, "top5", ls_top_k_correct(graph, y, label, TOP_FEW)))
        return LS_ERR_EARLIER;
    return LS_OK;
}

static ls_status make_graph(ls_net *net, ls_model_fn model, const void *options)
{
    ls_graph *graph = &net->graph;
    ls_context *ctx = graph->ctx;
    ls_node *x = append_input(net);
    ls_node *y = x ? model(graph, x, options) : NULL;
    LS__ENTER(ctx);
    if (!y) return ls__fail(ctx, LS_ERR_INVALID, "ls_net_build: the model function returned NULL");
    if (y->graph != graph)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_net_build: the model returned another graph's node");
    if (graph->n_scopes > 0)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_net_build: scope '%s' was not ended",
                        graph->scope);
    if (!ls_output(graph, "output", y)) return LS_ERR_EARLIER;
    const ls_loss_kind kind = net->config.loss.kind;
    if (kind == LS_LOSS_EXTERNAL && graph->losses.n > 0)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_net_build: LS_LOSS_EXTERNAL, but the graph declares the loss '%s'",
                        graph->losses.items[0].name);
    if (kind != LS_LOSS_NONE && kind != LS_LOSS_EXTERNAL) LS_TRY(append_loss(net, y));
    if (!net->config.inference && graph->losses.n == 0 && kind != LS_LOSS_EXTERNAL)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_net_build: no loss to train on: set config.loss (LS_LOSS_EXTERNAL for "
                        "a loss outside the graph), call ls_loss, or set config.inference");
    return LS_OK;
}

/* ---- Building ---- */

static void close_net(ls__owned *owned)
{
    ls_net *net = (ls_net *)owned;
    ls_context *ctx = owned->ctx;
    ls__plan_cache_close(net);
    ls__executor_close(&net->executor);
    ls__selector_close(&net->selector);
    ls__net_close_results(net);
    ls__net_close_shards(net);
    ls__net_drop_constant(net, &net->no_labels);
    ls__net_drop_constant(net, &net->no_targets);
    ls__one_hot_close(ctx, &net->one_hot);
    ls__net_close_blocks(net);
    ls__free(ctx, net->feeds);
    ls__free(ctx, net->fed_specs);
    ls__free(ctx, net->output_views);
    ls__free(ctx, net->gradient_of_inputs);
    ls__bump_close(&net->graph.bump);
    ls__free(ctx, net);
}

static ls_status allocate_lists(ls_net *net)
{
    ls_context *ctx = net->owned.ctx;
    const size_t n_inputs = (size_t)net->graph.inputs.n, n_outputs = (size_t)net->graph.outputs.n;
    net->feeds = ls__zalloc(ctx, n_inputs * sizeof *net->feeds);
    net->fed_specs = ls__zalloc(ctx, n_inputs * sizeof *net->fed_specs);
    net->output_views = ls__zalloc(ctx, n_outputs * sizeof *net->output_views);
    net->gradient_of_inputs = ls__zalloc(ctx, n_inputs * sizeof *net->gradient_of_inputs);
    if (!net->feeds || !net->fed_specs || !net->output_views || !net->gradient_of_inputs)
        return ls__fail_memory(ctx, "net", (n_inputs + n_outputs) * sizeof *net->output_views);
    return LS_OK;
}

static void set_environment(ls_net *net)
{
    net->env = (ls__environment){ .ctx = net->owned.ctx,
                                  .selector = &net->selector,
                                  .activations = ls__net_activations(net),
                                  .tf32 = net->config.precision == LS_PRECISION_TF32,
                                  .scales_loss = net->blocks.loss_scale != NULL,
                                  .recompute = net->config.recompute,
                                  .expected_steps = net->config.steps,
                                  .parameter_elements = net->blocks.parameter_elements,
                                  .block_elements = net->blocks.block_elements,
                                  .n_shards = net->shards.n,
                                  .sync_batch_norm = net->shards.is_synced,
                                  .n_own_shards = net->shards.end - net->shards.first };
}

/* Programs for the model's own shapes, before step 0. */
static ls_status make_programs(ls_net *net)
{
    ls__program *program;
    LS_TRY(ls__selector_inherit(&net->selector));
    if (!net->config.inference) LS_TRY(ls__net_program(net, LS_MODE_TRAIN, NULL, true, &program));
    /* With benchmark on, the kernels for evaluation are timed now, because nothing is timed after
     * the build. */
    if (net->config.inference || net->owned.ctx->config.benchmark == LS_BENCHMARK_ON)
        LS_TRY(ls__net_program(net, LS_MODE_EVAL, NULL, true, &program));
    return ls__selector_freeze(&net->selector);
}

ls_net *ls_net_build(ls_context *ctx, ls_model_fn model, const void *options,
                     const ls_net_config *config)
{
    LS__DEFAULT_FLOATS;
    if (!ctx) return NULL;
    LS__ENTER_NULL(ctx);
    if (check_net_config(ctx, model, config) != LS_OK) return NULL;
    ls_net *net = ls__zalloc(ctx, sizeof *net);
    if (!net) return ls__fail_memory(ctx, "net", sizeof *net), NULL;
    net->owned.ctx = ctx;
    net->config = *config;
    ls__precision_fill(net);
    net->executor.ctx = ctx;
    net->graph.ctx = ctx;
    ls__bump_open(&net->graph.bump, ctx);
    ls_status status = make_graph(net, model, options);
    net->config.loss.class_weights = NULL; /* owned by the caller; the graph has a copy */
    if (status == LS_OK) status = ls__net_count_shards(net);
    if (status == LS_OK) status = ls__net_open_blocks(net);
    if (status == LS_OK) status = allocate_lists(net);
    if (status == LS_OK) status = ls__selector_open(&net->selector, ctx);
    if (status == LS_OK) status = ls__plan_cache_open(net);
    if (status == LS_OK) status = ls__executor_open(&net->executor, ctx, &net->blocks);
    if (status == LS_OK) status = ls__net_open_results(net);
    if (status == LS_OK) status = ls__net_open_shards(net);
    if (status == LS_OK) set_environment(net);
    if (status == LS_OK) status = make_programs(net);
    if (status != LS_OK) {
        close_net(&net->owned);
        return NULL;
    }
    ls__own(ctx, &net->owned, close_net);
    return net;
}

void ls_net_close(ls_net **net)
{
    if (!net || !*net) return;
    ls__disown_and_close(&(*net)->owned);
    *net = NULL;
}

ls_context *ls_net_context(ls_net *net)
{
    return net ? net->owned.ctx : NULL;
}

const ls_net_config *ls__net_config(const ls_net *net)
{
    return &net->config;
}

const ls_graph *ls__net_graph(const ls_net *net)
{
    return &net->graph;
}

const ls__selections *ls__net_selections(const ls_net *net)
{
    return net->selector.used;
}

const ls__selections *ls__net_known_selections(const ls_net *net)
{
    return net->selector.cache;
}

uint64_t ls__net_number_update(ls_net *net)
{
    return ++net->n_updates;
}

ls__selector *ls__net_selector(ls_net *net)
{
    return &net->selector;
}
