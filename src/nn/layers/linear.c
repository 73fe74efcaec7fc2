/* linear.c: y = x W^T + b, with a fused ReLU. */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    char text[LS_SHAPE_TEXT_SIZE];
    ls_shape_text(x, text, sizeof text);
    LS_TRY(ls__node_expect(node, &inputs[0], 2,
                           "[N,I]: ls_flatten or ls_global_avg_pool comes before"));
    if (node->parameters[LS__WEIGHT] >= 0) {
        const ls_shape *w = &node->graph->parameters[node->parameters[LS__WEIGHT]].shape;
        if (w->dims[1] != x->dims[1])
            return ls__node_fail(node, LS_ERR_SHAPE,
                                 "weight has %lld input features, input %s has %lld",
                                 (long long)w->dims[1], text, (long long)x->dims[1]);
    }
    *out = (ls_spec){ LS_F32, LS_SHAPE(x->dims[0], node->u.linear.features) };
    return LS_OK;
}

static void forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int x = ls__activation_of(b, node->inputs[0]);
    const int w = ls__value_compute_weight(b, node->parameters[LS__WEIGHT]);
    const int bias = ls__value_compute_weight(b, node->parameters[LS__BIAS]);
    const int y = ls__activation_new(b, ls__spec_of(b, node)->shape);
    ls__op op = { .kind = LS__OP_LINEAR };
    op.u.linear.relu = fused->relu;
    ls__emit(b, &op, 3, (const int[]){ x, w, bias }, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

static void backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    if (fused->relu) dy = ls__relu_gradient(b, fused, dy);
    if (ls__wants_parameter(b, node->parameters[LS__WEIGHT]) ||
        ls__wants_parameter(b, node->parameters[LS__BIAS])) {
        const int x = ls__activation_of(b, node->inputs[0]);
        const int dw = ls__value_parameter_gradient(b, node->parameters[LS__WEIGHT]);
        const int db = ls__value_parameter_gradient(b, node->parameters[LS__BIAS]);
        ls__emit(b, &(ls__op){ .kind = LS__OP_LINEAR_BACKWARD_WEIGHTS }, 2, (const int[]){ x, dy },
                 2, (const int[]){ dw, db });
    }
    if (ls__wants_gradient(b, node->inputs[0])) {
        const int w = ls__value_compute_weight(b, node->parameters[LS__WEIGHT]);
        const int dx = ls__activation_new(b, ls__spec_of(b, node->inputs[0])->shape);
        ls__emit(b, &(ls__op){ .kind = LS__OP_LINEAR_BACKWARD_DATA }, 2, (const int[]){ dy, w }, 1,
                 &dx);
        ls__contribute(b, node->inputs[0], dx);
    }
}

static int64_t multiply_adds(const ls_node *node, const ls_spec *inputs, const ls_spec *out)
{
    (void)node;
    return ls_shape_count(&out->shape) * inputs[0].shape.dims[1];
}

const ls__layer ls__linear_layer = { .name = "linear",
                                     .infer = infer,
                                     .forward = forward,
                                     .backward = backward,
                                     .multiply_adds = multiply_adds,
                                     .reads_compute_weights = true };

ls_node *ls_linear(ls_graph *graph, const char *name, ls_node *x, int64_t features,
                   const ls_linear_config *config)
{
    if (!ls__graph_accepts(graph, "ls_linear", 1, &x)) return NULL;
    const ls_linear_config c = config ? *config : (ls_linear_config){ 0 };
    if (!name || features < 1 || c.init < LS_INIT_DEFAULT || c.init > LS_INIT_ONE) {
        ls__fail(graph->ctx, LS_ERR_INVALID,
                 "linear '%s': a name, at least 1 feature (got %lld) and a known init are needed",
                 name ? name : "", (long long)features);
        return NULL;
    }
    ls_node prototype = { .layer = &ls__linear_layer };
    prototype.u.linear.features = features;
    ls_node *node = ls__graph_append(graph, &prototype, name, 1, &x);
    if (!node) return NULL;
    const int64_t in = x->spec.shape.dims[1];
    const ls__parameter_init init = { c.init == LS_INIT_DEFAULT ? LS_INIT_UNIFORM_FAN_IN : c.init,
                                      in, features };
    const ls__parameter_init bias_init = { LS_INIT_UNIFORM_FAN_IN, in, features };
    if (!ls__graph_add_parameter(graph, node, LS__WEIGHT, "weight", LS_PARAMETER_WEIGHT,
                                 LS_SHAPE(features, in), init))
        return NULL;
    if (!c.no_bias && !ls__graph_add_parameter(graph, node, LS__BIAS, "bias", LS_PARAMETER_BIAS,
                                               LS_SHAPE(features), bias_init))
        return NULL;
    return node;
}
