/* elementwise.c: activation functions, add, multiply, flatten, dropout, stochastic depth. */
#include "base/error.h"
#include "nn/layers/layers.h"
#include <math.h>

static ls_status infer_f32(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(ls__node_expect(node, &inputs[0], 0, NULL));
    *out = inputs[0];
    return LS_OK;
}

/* ---- Activation functions ---- */

int ls__gradient_before_activation(ls__builder *b, const ls__fused_op *fused)
{
    const int dy = ls__gradient_of(b, fused->tail);
    if (!fused->activation) return dy;
    const int y = ls__forward_value(b, fused->tail);
    const int dx = ls__activation_new(b, ls__spec_of(b, fused->tail)->shape);
    const ls__op op = { .kind = fused->tail->layer->backward_op };
    ls__emit(b, &op, 2, (const int[]){ y, dy }, 1, &dx);
    return dx;
}

/* The layer NAME_layer, and its call ls_NAME. */
#define UNARY(NAME, OP)                                                                            \
    static const ls__layer NAME##_layer = { .name = #NAME,                                         \
                                            .infer = infer_f32,                                    \
                                            .forward = ls__lower_op,                               \
                                            .backward = ls__lower_op_backward,                     \
                                            .op = LS__OP_##OP,                                     \
                                            .backward_op = LS__OP_##OP##_BACKWARD };               \
    ls_node *ls_##NAME(ls_graph *graph, ls_node *x)                                                \
    {                                                                                              \
        return ls__graph_append(graph, &(ls_node){ .layer = &NAME##_layer }, NULL, 1, &x);         \
    }
UNARY(relu, RELU)
UNARY(relu6, RELU6)
UNARY(sigmoid, SIGMOID)
UNARY(tanh, TANH)
UNARY(silu, SILU)
UNARY(gelu, GELU)
UNARY(hard_sigmoid, HARD_SIGMOID)
UNARY(hard_swish, HARD_SWISH)
UNARY(exp, EXP)
UNARY(log, LOG)
UNARY(sqrt, SQRT)
UNARY(abs, ABS)

static void leaky_relu_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->settings.leaky_relu.slope);
}

ls_node *ls_leaky_relu(ls_graph *graph, ls_node *x, float slope)
{
    static const ls__layer layer = { .name = "leaky_relu",
                                     .infer = infer_f32,
                                     .forward = ls__lower_op,
                                     .backward = ls__lower_op_backward,
                                     .put_settings = leaky_relu_settings,
                                     .op = LS__OP_LEAKY_RELU,
                                     .backward_op = LS__OP_LEAKY_RELU_BACKWARD };
    if (!ls__graph_accepts(graph, layer.name, 1, &x)) return NULL;
    if (!(slope >= 0 && slope < INFINITY))
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "leaky_relu after '%s': slope %g, expected 0 or more", x->name,
                             (double)slope);
    const ls_node prototype = { .layer = &layer, .settings.leaky_relu = { slope } };
    return ls__graph_append(graph, &prototype, NULL, 1, &x);
}

/* ---- Add and multiply ---- */

static ls_status binary_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    char a[LS_SHAPE_TEXT_SIZE], c[LS_SHAPE_TEXT_SIZE];
    if (inputs[0].dtype != LS_F32 || inputs[1].dtype != LS_F32)
        return ls__node_fail(node, LS_ERR_TYPE, "inputs are %s and %s, expected F32",
                             ls_dtype_name(inputs[0].dtype), ls_dtype_name(inputs[1].dtype));
    if (!ls_shape_equal(&inputs[0].shape, &inputs[1].shape))
        return ls__node_fail(node, LS_ERR_SHAPE, "'%s' is %s and '%s' is %s; expected equal shapes",
                             node->inputs[0]->name, ls_shape_text(&inputs[0].shape, a, sizeof a),
                             node->inputs[1]->name, ls_shape_text(&inputs[1].shape, c, sizeof c));
    *out = inputs[0];
    return LS_OK;
}

static void add_forward(ls__builder *b, const ls__fused_op *fused)
{
    ls__lower_as(
        b, fused,
        &(ls__op){ .kind = LS__OP_ADD, .u.add.relu = fused->activation == LS__ACTIVATION_RELU });
}

static void add_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int dy = ls__gradient_before_activation(b, fused);
    for (int i = 0; i < 2; i++)
        if (ls__requires_gradient(b, node->inputs[i])) ls__contribute(b, node->inputs[i], dy);
}

const ls__layer ls__add_layer = {
    .name = "add", .infer = binary_infer, .forward = add_forward, .backward = add_backward
};

ls_node *ls_add(ls_graph *graph, ls_node *a, ls_node *b)
{
    ls_node *inputs[2] = { a, b };
    return ls__graph_append(graph, &(ls_node){ .layer = &ls__add_layer }, NULL, 2, inputs);
}

/* da = dy b, db = dy a */
static void mul_backward(ls__builder *b, const ls__fused_op *fused)
{
    ls_node *const *inputs = fused->head->inputs;
    const ls__op op = { .kind = LS__OP_MUL };
    const int dy = ls__gradient_of(b, fused->tail);
    for (int i = 0; i < 2; i++)
        if (ls__requires_gradient(b, inputs[i]))
            ls__emit_gradient(b, inputs[i], &op, 2,
                              (const int[]){ dy, ls__activation_of(b, inputs[1 - i]) });
}

static const ls__layer mul_layer = { .name = "mul",
                                     .infer = binary_infer,
                                     .forward = ls__lower_op,
                                     .backward = mul_backward,
                                     .op = LS__OP_MUL };

ls_node *ls_mul(ls_graph *graph, ls_node *a, ls_node *b)
{
    ls_node *inputs[2] = { a, b };
    return ls__graph_append(graph, &(ls_node){ .layer = &mul_layer }, NULL, 2, inputs);
}

/* ---- Flatten: a copy, whose operands share memory ---- */

static ls_status flatten_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    LS_TRY(infer_f32(node, inputs, out));
    if (x->n_dims < 1) return ls__node_fail(node, LS_ERR_SHAPE, "input is a scalar");
    out->shape = LS_SHAPE(x->dims[0], ls_shape_element_count(x) / x->dims[0]);
    return LS_OK;
}

const ls__layer ls__flatten_layer = { .name = "flatten",
                                      .infer = flatten_infer,
                                      .forward = ls__lower_op,
                                      .backward = ls__lower_op_backward,
                                      .op = LS__OP_COPY,
                                      .backward_op = LS__OP_COPY };

ls_node *ls_flatten(ls_graph *graph, ls_node *x)
{
    return ls__graph_append(graph, &(ls_node){ .layer = &ls__flatten_layer }, NULL, 1, &x);
}

/* ---- Dropout ---- */

static void dropout_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (b->program->mode == LS_MODE_TRAIN && node->settings.dropout.probability > 0)
        ls__lower_op(b, fused);
    else
        ls__set_forward_value(b, fused->tail, ls__forward_value(b, node->inputs[0]));
}

static void dropout_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (node->settings.dropout.probability > 0)
        ls__lower_op_backward(b, fused);
    else
        ls__contribute(b, node->inputs[0], ls__gradient_of(b, fused->tail));
}

static void dropout_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->settings.dropout.probability);
    ls__text_put(out, " %u", (unsigned)node->settings.dropout.layer);
    if (node->settings.dropout.unit != LS__DROPOUT_ELEMENT)
        ls__text_put(out, " %d", (int)node->settings.dropout.unit);
}

static const ls__layer dropout_layer = { .name = "dropout",
                                         .infer = infer_f32,
                                         .forward = dropout_forward,
                                         .backward = dropout_backward,
                                         .put_settings = dropout_settings,
                                         .op = LS__OP_DROPOUT,
                                         .backward_op = LS__OP_DROPOUT_BACKWARD };

static ls_node *append_dropout(ls_graph *graph, const ls__layer *layer, ls_node *x,
                               float probability, ls__dropout_unit unit)
{
    if (!ls__graph_accepts(graph, layer->name, 1, &x)) return NULL;
    if (!(probability >= 0 && probability < 1))
        return ls_graph_fail(graph, LS_ERR_INVALID, "%s after '%s': probability %g, expected [0,1)",
                             layer->name, x->name, (double)probability);
    const ls_node prototype = { .layer = layer,
                                .settings.dropout = { probability, graph->n_dropouts++, unit } };
    return ls__graph_append(graph, &prototype, NULL, 1, &x);
}

ls_node *ls_dropout(ls_graph *graph, ls_node *x, float probability)
{
    return append_dropout(graph, &dropout_layer, x, probability, LS__DROPOUT_ELEMENT);
}

/* ---- Stochastic depth: dropout of whole images ---- */

static const ls__layer stochastic_depth_layer = { .name = "stochastic_depth",
                                                  .infer = infer_f32,
                                                  .forward = dropout_forward,
                                                  .backward = dropout_backward,
                                                  .put_settings = dropout_settings,
                                                  .op = LS__OP_DROPOUT,
                                                  .backward_op = LS__OP_DROPOUT_BACKWARD };

ls_node *ls_stochastic_depth(ls_graph *graph, ls_node *x, float probability,
                             ls_stochastic_depth_mode mode)
{
    if (!ls__graph_accepts(graph, "ls_stochastic_depth", 1, &x)) return NULL;
    if (mode != LS_STOCHASTIC_DEPTH_ROW && mode != LS_STOCHASTIC_DEPTH_BATCH)
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "stochastic_depth after '%s': mode %d, expected row or batch", x->name,
                             (int)mode);
    return append_dropout(graph, &stochastic_depth_layer, x, probability,
                          mode == LS_STOCHASTIC_DEPTH_ROW ? LS__DROPOUT_IMAGE : LS__DROPOUT_BATCH);
}
