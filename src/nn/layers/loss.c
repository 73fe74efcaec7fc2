/* loss.c: softmax cross-entropy, and the number of rows whose label is among the k largest logits.
 */
#include "base/error.h"
#include "nn/layers/layers.h"

#include <string.h>

static ls_status need_logits_and_labels(const ls_node *node, const ls_spec *inputs)
{
    char a[LS_SHAPE_TEXT_SIZE], c[LS_SHAPE_TEXT_SIZE];
    const ls_shape *logits = &inputs[0].shape, *labels = &inputs[1].shape;
    if (inputs[0].dtype != LS_F32 || inputs[1].dtype != LS_I32)
        return ls__node_fail(node, LS_ERR_TYPE, "logits are %s and labels %s; wanted F32 and I32",
                             ls_dtype_name(inputs[0].dtype), ls_dtype_name(inputs[1].dtype));
    if (logits->n_dims != 2 || labels->n_dims != 1 || logits->dims[0] != labels->dims[0])
        return ls__node_fail(
            node, LS_ERR_SHAPE, "logits are %s and labels %s; wanted [N,K] and [N]",
            ls_shape_text(logits, a, sizeof a), ls_shape_text(labels, c, sizeof c));
    return LS_OK;
}

/* ---- Cross-entropy ---- */

static ls_status cross_entropy_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(need_logits_and_labels(node, inputs));
    *out = (ls_spec){ LS_F32, LS_SHAPE(1) };
    return LS_OK;
}

static ls__op cross_entropy_op(const ls_node *node, ls__op_kind kind)
{
    ls__op op = { .kind = kind };
    op.u.loss.label_smoothing = node->u.loss.label_smoothing;
    return op;
}

static int class_weights(ls__builder *b, const ls_node *node)
{
    if (!node->u.loss.class_weights) return -1;
    return ls__value_constant(b, node->u.loss.class_weights,
                              ls__spec_of(b, node->inputs[0])->shape.dims[1]);
}

static void cross_entropy_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls__op op = cross_entropy_op(node, LS__OP_CROSS_ENTROPY);
    const int loss = ls__value_new(b, LS_F32, LS_SHAPE(1));
    int *saved = &b->saved[node->id * LS__MAX_SAVED];
    const int64_t rows = ls__spec_of(b, node->inputs[0])->shape.dims[0];
    saved[0] = ls__value_new(b, LS_F32, LS_SHAPE(rows, 2));
    saved[1] = ls__value_new(b, LS_F32, LS_SHAPE(1));
    ls__emit(b, &op, 3,
             (const int[]){ ls__activation_of(b, node->inputs[0]),
                            ls__forward_value(b, node->inputs[1]), class_weights(b, node) },
             3, (const int[]){ loss, saved[0], saved[1] });
    ls__set_forward_value(b, fused->tail, loss);
}

static void cross_entropy_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (!ls__wants_gradient(b, node->inputs[0])) return;
    const int dloss = ls__gradient_of(b, fused->tail);
    if (dloss < 0) return;
    const ls__op op = cross_entropy_op(node, LS__OP_CROSS_ENTROPY_BACKWARD);
    const int *saved = &b->saved[node->id * LS__MAX_SAVED];
    const int dlogits = ls__activation_new(b, ls__spec_of(b, node->inputs[0])->shape);
    ls__emit(b, &op, 6,
             (const int[]){ ls__activation_of(b, node->inputs[0]),
                            ls__forward_value(b, node->inputs[1]), class_weights(b, node), saved[0],
                            saved[1], dloss },
             1, &dlogits);
    ls__contribute(b, node->inputs[0], dlogits);
}

static void cross_entropy_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->u.loss.label_smoothing);
}

const ls__layer ls__cross_entropy_layer = { .name = "cross_entropy",
                                            .infer = cross_entropy_infer,
                                            .forward = cross_entropy_forward,
                                            .backward = cross_entropy_backward,
                                            .put_settings = cross_entropy_settings };

static bool copy_class_weights(ls_graph *graph, ls_node *prototype, const ls_node *logits,
                               const float *weights)
{
    if (!weights) return true;
    const int64_t k = logits->spec.shape.n_dims == 2 ? logits->spec.shape.dims[1] : 0;
    float sum = 0;
    for (int64_t i = 0; i < k; i++) {
        if (!(weights[i] >= 0 && weights[i] < 1e30f)) {
            ls__fail(graph->ctx, LS_ERR_INVALID,
                     "cross_entropy: class weight %lld is %g, wanted >= 0 and finite", (long long)i,
                     (double)weights[i]);
            return false;
        }
        sum += weights[i];
    }
    if (k > 0 && sum == 0) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "cross_entropy: all class weights are zero");
        return false;
    }
    float *copy = ls__bump_alloc(&graph->bump, (size_t)k * sizeof *copy);
    if (!copy) {
        ls__fail_memory(graph->ctx, "class weights", (size_t)k * sizeof *copy);
        return false;
    }
    memcpy(copy, weights, (size_t)k * sizeof *copy);
    prototype->u.loss.class_weights = copy;
    return true;
}

ls_node *ls_cross_entropy(ls_graph *graph, ls_node *logits, ls_node *labels,
                          const ls_cross_entropy_config *config)
{
    ls_node *inputs[2] = { logits, labels };
    if (!ls__graph_accepts(graph, "ls_cross_entropy", 2, inputs)) return NULL;
    const ls_cross_entropy_config c = config ? *config : (ls_cross_entropy_config){ 0 };
    if (!(c.label_smoothing >= 0 && c.label_smoothing < 1)) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "cross_entropy: label smoothing %g, wanted [0,1)",
                 (double)c.label_smoothing);
        return NULL;
    }
    ls_node prototype = { .layer = &ls__cross_entropy_layer };
    prototype.u.loss.label_smoothing = c.label_smoothing;
    if (!copy_class_weights(graph, &prototype, logits, c.class_weights)) return NULL;
    ls_node *node = ls__graph_append(graph, &prototype, NULL, 2, inputs);
    if (node && labels->layer == &ls__input_layer) {
        const int64_t classes = logits->spec.shape.dims[1], known = labels->u.input.classes;
        labels->u.input.classes = known == 0 || classes < known ? classes : known;
    }
    return node;
}

/* ---- Top k ---- */

static ls_status top_k_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(need_logits_and_labels(node, inputs));
    if (node->u.top_k.k > inputs[0].shape.dims[1])
        return ls__node_fail(node, LS_ERR_SHAPE, "k is %lld, the logits have %lld classes",
                             (long long)node->u.top_k.k, (long long)inputs[0].shape.dims[1]);
    *out = (ls_spec){ LS_F32, LS_SHAPE(1) };
    return LS_OK;
}

static void top_k_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    ls__op op = { .kind = LS__OP_TOP_K };
    op.u.top_k.k = node->u.top_k.k;
    const int count = ls__value_new(b, LS_F32, LS_SHAPE(1));
    ls__emit(b, &op, 2,
             (const int[]){ ls__activation_of(b, node->inputs[0]),
                            ls__forward_value(b, node->inputs[1]) },
             1, &count);
    ls__set_forward_value(b, fused->tail, count);
}

static void top_k_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_integers(out, 1, &node->u.top_k.k);
}

static const ls__layer top_k_layer = { .name = "top_k",
                                       .infer = top_k_infer,
                                       .forward = top_k_forward,
                                       .put_settings = top_k_settings,
                                       .has_no_gradient = true };

ls_node *ls_top_k(ls_graph *graph, ls_node *logits, ls_node *labels, int k)
{
    ls_node *inputs[2] = { logits, labels };
    if (!ls__graph_accepts(graph, "ls_top_k", 2, inputs)) return NULL;
    if (k < 1) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "top_k: k is %d, wanted at least 1", k);
        return NULL;
    }
    ls_node prototype = { .layer = &top_k_layer };
    prototype.u.top_k.k = k;
    return ls__graph_append(graph, &prototype, NULL, 2, inputs);
}
