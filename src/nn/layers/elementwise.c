/* elementwise.c: ReLU, sigmoid, add, multiply, flatten, dropout. */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status infer_f32(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    LS_TRY(ls__node_expect(node, &inputs[0], 0, NULL));
    *out = inputs[0];
    return LS_OK;
}

/* A forward op y = f(x) of equal shapes. */
static void unary_forward(ls__builder *b, const ls__fused_op *fused, const ls__op *op)
{
    const int x = ls__activation_of(b, fused->head->inputs[0]);
    const int y = ls__activation_new(b, ls__spec_of(b, fused->head)->shape);
    ls__emit(b, op, 1, &x, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

/* The gradient by x of y = f(x), from y and dy. */
static int unary_gradient(ls__builder *b, const ls__fused_op *fused, ls__op_kind kind, int dy)
{
    const int dx = ls__activation_new(b, ls__spec_of(b, fused->tail)->shape);
    ls__emit(b, &(ls__op){ .kind = kind }, 2,
             (const int[]){ ls__forward_value(b, fused->tail), dy }, 1, &dx);
    return dx;
}

static void unary_backward(ls__builder *b, const ls__fused_op *fused, ls__op_kind kind)
{
    const ls_node *x = fused->head->inputs[0];
    if (!ls__wants_gradient(b, x)) return;
    const int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    ls__contribute(b, x, unary_gradient(b, fused, kind, dy));
}

/* A forward op y = f(a, b) of the node's own shape. */
static void binary_forward(ls__builder *b, const ls__fused_op *fused, const ls__op *op)
{
    const ls_node *node = fused->head;
    int inputs[2];
    for (int i = 0; i < 2; i++) inputs[i] = ls__activation_of(b, node->inputs[i]);
    const int y = ls__activation_new(b, ls__spec_of(b, node)->shape);
    ls__emit(b, op, 2, inputs, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

/* ---- ReLU and sigmoid ---- */

static void relu_forward(ls__builder *b, const ls__fused_op *fused)
{
    unary_forward(b, fused, &(ls__op){ .kind = LS__OP_RELU });
}

int ls__relu_gradient(ls__builder *b, const ls__fused_op *fused, int dy)
{
    return unary_gradient(b, fused, LS__OP_RELU_BACKWARD, dy);
}

static void relu_backward(ls__builder *b, const ls__fused_op *fused)
{
    unary_backward(b, fused, LS__OP_RELU_BACKWARD);
}

const ls__layer ls__relu_layer = {
    .name = "relu", .infer = infer_f32, .forward = relu_forward, .backward = relu_backward
};

ls_node *ls_relu(ls_graph *graph, ls_node *x)
{
    if (!ls__graph_accepts(graph, "ls_relu", 1, &x)) return NULL;
    return ls__graph_append(graph, &(ls_node){ .layer = &ls__relu_layer }, NULL, 1, &x);
}

static void sigmoid_forward(ls__builder *b, const ls__fused_op *fused)
{
    unary_forward(b, fused, &(ls__op){ .kind = LS__OP_SIGMOID });
}

static void sigmoid_backward(ls__builder *b, const ls__fused_op *fused)
{
    unary_backward(b, fused, LS__OP_SIGMOID_BACKWARD);
}

static const ls__layer sigmoid_layer = {
    .name = "sigmoid", .infer = infer_f32, .forward = sigmoid_forward, .backward = sigmoid_backward
};

ls_node *ls_sigmoid(ls_graph *graph, ls_node *x)
{
    if (!ls__graph_accepts(graph, "ls_sigmoid", 1, &x)) return NULL;
    return ls__graph_append(graph, &(ls_node){ .layer = &sigmoid_layer }, NULL, 1, &x);
}

/* ---- Add and multiply ---- */

static ls_status binary_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    char a[LS_SHAPE_TEXT_SIZE], c[LS_SHAPE_TEXT_SIZE];
    if (inputs[0].dtype != LS_F32 || inputs[1].dtype != LS_F32)
        return ls__node_fail(node, LS_ERR_TYPE, "inputs are %s and %s, wanted F32",
                             ls_dtype_name(inputs[0].dtype), ls_dtype_name(inputs[1].dtype));
    if (!ls_shape_equal(&inputs[0].shape, &inputs[1].shape))
        return ls__node_fail(node, LS_ERR_SHAPE, "'%s' is %s and '%s' is %s; wanted equal shapes",
                             node->inputs[0]->name, ls_shape_text(&inputs[0].shape, a, sizeof a),
                             node->inputs[1]->name, ls_shape_text(&inputs[1].shape, c, sizeof c));
    *out = inputs[0];
    return LS_OK;
}

static void add_forward(ls__builder *b, const ls__fused_op *fused)
{
    binary_forward(b, fused, &(ls__op){ .kind = LS__OP_ADD, .u.add.relu = fused->relu });
}

static void add_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (!ls__wants_gradient(b, node->inputs[0]) && !ls__wants_gradient(b, node->inputs[1])) return;
    int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    if (fused->relu) dy = ls__relu_gradient(b, fused, dy);
    for (int i = 0; i < 2; i++)
        if (ls__wants_gradient(b, node->inputs[i])) ls__contribute(b, node->inputs[i], dy);
}

const ls__layer ls__add_layer = {
    .name = "add", .infer = binary_infer, .forward = add_forward, .backward = add_backward
};

ls_node *ls_add(ls_graph *graph, ls_node *a, ls_node *b)
{
    ls_node *inputs[2] = { a, b };
    if (!ls__graph_accepts(graph, "ls_add", 2, inputs)) return NULL;
    return ls__graph_append(graph, &(ls_node){ .layer = &ls__add_layer }, NULL, 2, inputs);
}

static void mul_forward(ls__builder *b, const ls__fused_op *fused)
{
    binary_forward(b, fused, &(ls__op){ .kind = LS__OP_MUL });
}

/* da = dy b, db = dy a */
static void mul_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (!ls__wants_gradient(b, node->inputs[0]) && !ls__wants_gradient(b, node->inputs[1])) return;
    const int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    for (int i = 0; i < 2; i++) {
        if (!ls__wants_gradient(b, node->inputs[i])) continue;
        const int other = ls__activation_of(b, node->inputs[1 - i]);
        const int dx = ls__activation_new(b, ls__spec_of(b, node)->shape);
        ls__emit(b, &(ls__op){ .kind = LS__OP_MUL }, 2, (const int[]){ dy, other }, 1, &dx);
        ls__contribute(b, node->inputs[i], dx);
    }
}

static const ls__layer mul_layer = {
    .name = "mul", .infer = binary_infer, .forward = mul_forward, .backward = mul_backward
};

ls_node *ls_mul(ls_graph *graph, ls_node *a, ls_node *b)
{
    ls_node *inputs[2] = { a, b };
    if (!ls__graph_accepts(graph, "ls_mul", 2, inputs)) return NULL;
    return ls__graph_append(graph, &(ls_node){ .layer = &mul_layer }, NULL, 2, inputs);
}

/* ---- Flatten: no work if the input is dense ---- */

static ls_status flatten_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    LS_TRY(infer_f32(node, inputs, out));
    if (x->n_dims < 1) return ls__node_fail(node, LS_ERR_SHAPE, "input is a scalar");
    out->shape = LS_SHAPE(x->dims[0], ls_shape_count(x) / x->dims[0]);
    return LS_OK;
}

static void flatten_forward(ls__builder *b, const ls__fused_op *fused)
{
    const int x = ls__dense(b, ls__activation_of(b, fused->head->inputs[0]));
    const int y = ls__value_dense(b, b->activations, ls__spec_of(b, fused->head)->shape);
    ls__emit(b, &(ls__op){ .kind = LS__OP_REORDER }, 1, &x, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

static void flatten_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *x = fused->head->inputs[0];
    if (!ls__wants_gradient(b, x)) return;
    const int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    const ls_shape shape = ls__spec_of(b, x)->shape;
    int dx = ls__value_dense(b, b->activations, shape);
    ls__emit(b, &(ls__op){ .kind = LS__OP_REORDER }, 1, &dy, 1, &dx);
    if (shape.n_dims == 4) { /* in x's layout */
        const int dense = dx;
        dx = ls__activation_new(b, shape);
        ls__emit(b, &(ls__op){ .kind = LS__OP_REORDER }, 1, &dense, 1, &dx);
    }
    ls__contribute(b, x, dx);
}

static const ls__layer flatten_layer = { .name = "flatten",
                                         .infer = flatten_infer,
                                         .forward = flatten_forward,
                                         .backward = flatten_backward };

ls_node *ls_flatten(ls_graph *graph, ls_node *x)
{
    if (!ls__graph_accepts(graph, "ls_flatten", 1, &x)) return NULL;
    return ls__graph_append(graph, &(ls_node){ .layer = &flatten_layer }, NULL, 1, &x);
}

/* ---- Dropout ---- */

static ls__op dropout_op(const ls_node *node, ls__op_kind kind)
{
    ls__op op = { .kind = kind };
    op.u.dropout.probability = node->u.dropout.probability;
    op.u.dropout.layer = node->u.dropout.layer;
    return op;
}

static void dropout_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (b->program->mode == LS_EVAL || node->u.dropout.probability == 0) {
        ls__set_forward_value(b, fused->tail, ls__forward_value(b, node->inputs[0]));
        return;
    }
    const ls__op op = dropout_op(node, LS__OP_DROPOUT);
    unary_forward(b, fused, &op);
}

static void dropout_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    if (!ls__wants_gradient(b, node->inputs[0])) return;
    int gradient = ls__gradient_of(b, fused->tail);
    if (gradient < 0) return;
    if (node->u.dropout.probability > 0) {
        const ls__op op = dropout_op(node, LS__OP_DROPOUT_BACKWARD);
        const int dx = ls__activation_new(b, ls__spec_of(b, node)->shape);
        ls__emit(b, &op, 1, &gradient, 1, &dx);
        gradient = dx;
    }
    ls__contribute(b, node->inputs[0], gradient);
}

static void dropout_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->u.dropout.probability);
    ls__text_put(out, " %u", (unsigned)node->u.dropout.layer);
}

static const ls__layer dropout_layer = { .name = "dropout",
                                         .infer = infer_f32,
                                         .forward = dropout_forward,
                                         .backward = dropout_backward,
                                         .put_settings = dropout_settings };

ls_node *ls_dropout(ls_graph *graph, ls_node *x, float probability)
{
    if (!ls__graph_accepts(graph, "ls_dropout", 1, &x)) return NULL;
    if (!(probability >= 0 && probability < 1)) {
        ls__fail(graph->ctx, LS_ERR_INVALID, "dropout after '%s': probability %g, wanted [0,1)",
                 x->name, (double)probability);
        return NULL;
    }
    ls_node prototype = { .layer = &dropout_layer };
    prototype.u.dropout.probability = probability;
    prototype.u.dropout.layer = graph->n_dropouts++;
    return ls__graph_append(graph, &prototype, NULL, 1, &x);
}
