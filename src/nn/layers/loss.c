/* loss.c: losses, and the number of rows whose label is among the k largest logits. */
#include "base/error.h"
#include "base/minmax.h"
#include "nn/layers/layers.h"
#include <string.h>

static ls_status expect_logits_and_labels(const ls_node *node, const ls_spec *inputs)
{
    char a[LS_SHAPE_TEXT_SIZE], c[LS_SHAPE_TEXT_SIZE];
    const ls_shape *logits = &inputs[0].shape, *labels = &inputs[1].shape;
    if (inputs[0].dtype != LS_F32 || inputs[1].dtype != LS_I32)
        return ls__node_fail(node, LS_ERR_TYPE, "logits are %s and labels %s; expected F32 and I32",
                             ls_dtype_name(inputs[0].dtype), ls_dtype_name(inputs[1].dtype));
    if (logits->n_dims != 2 || labels->n_dims != 1 || logits->dims[0] != labels->dims[0])
        return ls__node_fail(
            node, LS_ERR_SHAPE, "logits are %s and labels %s; expected [N,K] and [N]",
            ls_shape_text(logits, a, sizeof a), ls_shape_text(labels, c, sizeof c));
    return LS_OK;
}

static ls_status expect_targets(const ls_node *node, const ls_spec *inputs)
{
    char a[LS_SHAPE_TEXT_SIZE], c[LS_SHAPE_TEXT_SIZE];
    const ls_shape *x = &inputs[0].shape, *targets = &inputs[1].shape;
    if (inputs[0].dtype != LS_F32 || inputs[1].dtype != LS_F32)
        return ls__node_fail(node, LS_ERR_TYPE, "input 0 is %s and targets %s; expected F32",
                             ls_dtype_name(inputs[0].dtype), ls_dtype_name(inputs[1].dtype));
    if (x->n_dims != 2 || !ls_shape_equal(x, targets))
        return ls__node_fail(node, LS_ERR_SHAPE,
                             "input 0 is %s and targets %s; expected [N,K] twice",
                             ls_shape_text(x, a, sizeof a), ls_shape_text(targets, c, sizeof c));
    /* Targets that a layer computes would need a gradient, which this loss does not have. */
    if (node->inputs[1]->layer != &ls__input_layer)
        return ls__node_fail(node, LS_ERR_INVALID, "targets are node '%s', expected an ls_input",
                             node->inputs[1]->name);
    return LS_OK;
}

/* ---- Cross-entropy ---- */

static bool has_soft_targets(const ls_node *node)
{
    return node->inputs[1]->spec.dtype == LS_F32;
}

static ls_status cross_entropy_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(inputs[1].dtype == LS_F32 ? expect_targets(node, inputs)
                                     : expect_logits_and_labels(node, inputs));
    *out = (ls_spec){ LS_F32, LS_SHAPE(1) };
    return LS_OK;
}

static int class_weights(ls__builder *b, const ls_node *node)
{
    if (!node->u.class_weights) return -1;
    return ls__value_constant(b, node->u.class_weights,
                              ls__spec_of(b, node->inputs[0])->shape.dims[1]);
}

static void cross_entropy_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const bool soft = has_soft_targets(node);
    const ls__op op = ls__op_of(node, soft ? LS__OP_SOFT_CROSS_ENTROPY : LS__OP_CROSS_ENTROPY);
    const int loss = ls__value_new(b, LS_F32, LS_SHAPE(1));
    int *saved = &b->saved[node->id * LS__MAX_SAVED];
    const int64_t rows = ls__spec_of(b, node->inputs[0])->shape.dims[0];
    saved[0] = ls__value_new(b, LS_F32, LS_SHAPE(rows, 2));
    saved[1] = soft ? -1 : ls__value_new(b, LS_F32, LS_SHAPE(1));
    ls__emit(b, &op, 3,
             (const int[]){ ls__activation_of(b, node->inputs[0]),
                            ls__forward_value(b, node->inputs[1]), class_weights(b, node) },
             soft ? 2 : 3, (const int[]){ loss, saved[0], saved[1] });
    ls__set_forward_value(b, fused->tail, loss);
}

static void cross_entropy_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const bool soft = has_soft_targets(node);
    const ls__op op =
        ls__op_of(node, soft ? LS__OP_SOFT_CROSS_ENTROPY_BACKWARD : LS__OP_CROSS_ENTROPY_BACKWARD);
    const int *saved = &b->saved[node->id * LS__MAX_SAVED];
    const int dloss = ls__gradient_of(b, fused->tail);
    ls__emit_gradient(b, node->inputs[0], &op, soft ? 5 : 6,
                      (const int[]){ ls__activation_of(b, node->inputs[0]),
                                     ls__forward_value(b, node->inputs[1]), class_weights(b, node),
                                     saved[0], soft ? dloss : saved[1], dloss });
}

static void cross_entropy_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->settings.loss.label_smoothing);
}

const ls__layer ls__cross_entropy_layer = { .name = "cross_entropy",
                                            .infer = cross_entropy_infer,
                                            .forward = cross_entropy_forward,
                                            .backward = cross_entropy_backward,
                                            .put_settings = cross_entropy_settings };

/* name: "class weight" or "positive weight". */
static ls_status copy_class_weights(ls_graph *graph, ls_node *prototype, const ls_node *logits,
                                    const char *name, const float *weights)
{
    if (!weights) return LS_OK;
    const int64_t k = logits->spec.shape.n_dims == 2 ? logits->spec.shape.dims[1] : 0;
    float sum = 0;
    for (int64_t i = 0; i < k; i++) {
        if (!(weights[i] >= 0 && weights[i] < 1e30f))
            return ls__fail(graph->ctx, LS_ERR_INVALID,
                            "%s: %s %lld is %g, expected >= 0 and finite", prototype->layer->name,
                            name, (long long)i, (double)weights[i]);
        sum += weights[i];
    }
    if (k > 0 && sum == 0 && prototype->layer == &ls__cross_entropy_layer)
        return ls__fail(graph->ctx, LS_ERR_INVALID, "%s: all class weights are zero",
                        prototype->layer->name);
    float *copy = ls__bump_alloc(&graph->bump, (size_t)k * sizeof *copy);
    if (!copy) return ls__fail_memory(graph->ctx, "class weights", (size_t)k * sizeof *copy);
    prototype->u.class_weights = memcpy(copy, weights, (size_t)k * sizeof *copy);
    return LS_OK;
}

ls_node *ls_cross_entropy(ls_graph *graph, ls_node *logits, ls_node *labels,
                          const ls_cross_entropy_config *config)
{
    ls_node *inputs[2] = { logits, labels };
    if (!ls__graph_accepts(graph, "ls_cross_entropy", 2, inputs)) return NULL;
    const ls_cross_entropy_config c = config ? *config : (ls_cross_entropy_config){ 0 };
    if (!(c.label_smoothing >= 0 && c.label_smoothing < 1))
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "cross_entropy: label smoothing %g, expected [0,1)",
                             (double)c.label_smoothing);
    ls_node prototype = { .layer = &ls__cross_entropy_layer,
                          .settings.loss.label_smoothing = c.label_smoothing };
    if (copy_class_weights(graph, &prototype, logits, "class weight", c.class_weights) != LS_OK)
        return NULL;
    ls_node *node = ls__graph_append(graph, &prototype, NULL, 2, inputs);
    if (node && labels->layer == &ls__input_layer && !has_soft_targets(node)) {
        const int64_t classes = logits->spec.shape.dims[1], known = labels->u.input.classes;
        labels->u.input.classes = known == 0 ? classes : ls__min_i64(classes, known);
    }
    return node;
}

/* ---- Binary cross-entropy and mean squared error ---- */

static ls_status mean_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(expect_targets(node, inputs));
    *out = (ls_spec){ LS_F32, LS_SHAPE(1) };
    return LS_OK;
}

/* The inputs of the forward op of these losses and of top k; returns their number. */
static int scalar_inputs(ls__builder *b, const ls_node *node, int out[3])
{
    const bool has_weights = node->layer == &ls__binary_cross_entropy_layer;
    out[0] = ls__activation_of(b, node->inputs[0]);
    out[1] = ls__forward_value(b, node->inputs[1]);
    if (has_weights) out[2] = class_weights(b, node);
    return 2 + has_weights;
}

static void scalar_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls__op op = ls__op_of(node, node->layer->op);
    const int loss = ls__value_new(b, LS_F32, LS_SHAPE(1));
    int inputs[3];
    const int n = scalar_inputs(b, node, inputs);
    ls__emit(b, &op, n, inputs, 1, &loss);
    ls__set_forward_value(b, fused->tail, loss);
}

static void mean_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls__op op = ls__op_of(node, node->layer->backward_op);
    int inputs[4];
    const int dloss = ls__gradient_of(b, fused->tail);
    const int n = scalar_inputs(b, node, inputs);
    inputs[n] = dloss;
    ls__emit_gradient(b, node->inputs[0], &op, n + 1, inputs);
}

const ls__layer ls__binary_cross_entropy_layer = { .name = "binary_cross_entropy",
                                                   .infer = mean_infer,
                                                   .forward = scalar_forward,
                                                   .backward = mean_backward,
                                                   .op = LS__OP_BINARY_CROSS_ENTROPY,
                                                   .backward_op =
                                                       LS__OP_BINARY_CROSS_ENTROPY_BACKWARD };

ls_node *ls_binary_cross_entropy(ls_graph *graph, ls_node *logits, ls_node *targets,
                                 const ls_binary_cross_entropy_config *config)
{
    ls_node *inputs[2] = { logits, targets };
    if (!ls__graph_accepts(graph, "ls_binary_cross_entropy", 2, inputs)) return NULL;
    ls_node prototype = { .layer = &ls__binary_cross_entropy_layer };
    if (config && copy_class_weights(graph, &prototype, logits, "positive weight",
                                     config->positive_weights) != LS_OK)
        return NULL;
    return ls__graph_append(graph, &prototype, NULL, 2, inputs);
}

static const ls__layer mse_layer = { .name = "mse",
                                     .infer = mean_infer,
                                     .forward = scalar_forward,
                                     .backward = mean_backward,
                                     .op = LS__OP_MSE,
                                     .backward_op = LS__OP_MSE_BACKWARD };

ls_node *ls_mse(ls_graph *graph, ls_node *x, ls_node *targets)
{
    ls_node *inputs[2] = { x, targets };
    if (!ls__graph_accepts(graph, "ls_mse", 2, inputs)) return NULL;
    const ls_node prototype = { .layer = &mse_layer };
    return ls__graph_append(graph, &prototype, NULL, 2, inputs);
}

/* ---- Top k ---- */

static ls_status top_k_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(expect_logits_and_labels(node, inputs));
    if (node->settings.top_k.k > inputs[0].shape.dims[1])
        return ls__node_fail(node, LS_ERR_SHAPE, "k is %lld, the logits have %lld classes",
                             (long long)node->settings.top_k.k, (long long)inputs[0].shape.dims[1]);
    *out = (ls_spec){ LS_F32, LS_SHAPE(1) };
    return LS_OK;
}

static void top_k_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_integers(out, 1, &node->settings.top_k.k);
}

static const ls__layer top_k_layer = { .name = "top_k",
                                       .infer = top_k_infer,
                                       .forward = scalar_forward,
                                       .op = LS__OP_TOP_K,
                                       .put_settings = top_k_settings,
                                       .has_no_gradient = true };

ls_node *ls_top_k_correct(ls_graph *graph, ls_node *logits, ls_node *labels, int k)
{
    ls_node *inputs[2] = { logits, labels };
    if (!ls__graph_accepts(graph, "ls_top_k_correct", 2, inputs)) return NULL;
    if (k < 1)
        return ls_graph_fail(graph, LS_ERR_INVALID, "top_k: k is %d, expected at least 1", k);
    const ls_node prototype = { .layer = &top_k_layer, .settings.top_k.k = k };
    return ls__graph_append(graph, &prototype, NULL, 2, inputs);
}
