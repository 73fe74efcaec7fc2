/* linear.c: y = x W^T + b, with a fused ReLU. */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status linear_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    LS_TRY(
        ls__node_expect(node, &inputs[0], 2, "[N,I]: call ls_flatten or ls_global_avg_pool first"));
    LS_TRY(ls__node_expect_weight(node, x, 1, 1, "input features"));
    *out = (ls_spec){ LS_F32, LS_SHAPE(x->dims[0], node->channels) };
    return LS_OK;
}

static void linear_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int x = ls__activation_of(b, node->inputs[0]);
    const int w = ls__value_compute_weight(b, node, LS__WEIGHT);
    const int bias = ls__value_compute_weight(b, node, LS__BIAS);
    ls__emit_forward(b, fused,
                     &(ls__op){ .kind = LS__OP_LINEAR,
                                .u.linear.relu = fused->activation == LS__ACTIVATION_RELU },
                     3, (const int[]){ x, w, bias });
}

static void linear_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int dy = ls__gradient_before_activation(b, fused);
    if (ls__is_trained(b, node)) {
        const int x = ls__activation_of(b, node->inputs[0]);
        const int dw = ls__value_parameter_gradient(b, node, LS__WEIGHT);
        const int db = ls__value_parameter_gradient(b, node, LS__BIAS);
        ls__emit(b, &(ls__op){ .kind = LS__OP_LINEAR_BACKWARD_WEIGHTS }, 2, (const int[]){ x, dy },
                 2, (const int[]){ dw, db });
    }
    if (ls__requires_gradient(b, node->inputs[0])) {
        const int w = ls__value_compute_weight(b, node, LS__WEIGHT);
        ls__emit_gradient(b, node->inputs[0], &(ls__op){ .kind = LS__OP_LINEAR_BACKWARD_DATA }, 2,
                          (const int[]){ dy, w });
    }
}

static int64_t linear_multiply_adds(const ls_node *node, const ls_spec *inputs, const ls_spec *out)
{
    (void)node;
    return ls_shape_element_count(&out->shape) * inputs[0].shape.dims[1];
}

const ls__layer ls__linear_layer = { .name = "linear",
                                     .infer = linear_infer,
                                     .forward = linear_forward,
                                     .backward = linear_backward,
                                     .multiply_adds = linear_multiply_adds,
                                     .reads_compute_weights = true };

/* The channels of the [N,H,W,C] that was flattened to x, with functions of each element between; 0
 * if there is none, or if H,W,C and C,H,W are the same order. */
static int64_t flattened_channels(const ls_node *x)
{
    while (x->n_inputs == 1 && x->layer != &ls__custom_layer && x->parameters[LS__WEIGHT] < 0 &&
           ls_shape_equal(&x->spec.shape, &x->inputs[0]->spec.shape))
        x = x->inputs[0];
    if (x->layer != &ls__flatten_layer) return 0;
    const ls_shape *from = &x->inputs[0]->spec.shape;
    if (from->n_dims != 4 || from->dims[1] * from->dims[2] == 1 || from->dims[3] == 1) return 0;
    return from->dims[3];
}

ls_node *ls_linear(ls_graph *graph, const char *name, ls_node *x, int64_t features,
                   const ls_linear_config *config)
{
    if (!ls__graph_accepts(graph, "ls_linear", 1, &x)) return NULL;
    ls_linear_config c = config ? *config : (ls_linear_config){ 0 };
    if (!name || features < 1 || !ls__init_resolve(&c.init, LS_INIT_UNIFORM_FAN_IN) ||
        !ls__init_resolve(&c.bias_init, LS_INIT_UNIFORM_FAN_IN))
        return ls_graph_fail(
            graph, LS_ERR_INVALID,
            "linear '%s': expected a name, at least 1 feature (got %lld) and a known init",
            name ? name : "", (long long)features);
    const ls_node prototype = { .layer = &ls__linear_layer, .channels = features };
    ls_node *node = ls__graph_append(graph, &prototype, name, 1, &x);
    if (!node) return NULL;
    const int64_t in = x->spec.shape.dims[1];
    const ls__parameter_init init = { c.init, in, features };
    const ls__parameter_init bias_init = { c.bias_init, in, features };
    node = ls__node_add_weights(node, LS_SHAPE(features, in), init, !c.no_bias, bias_init);
    if (node) graph->parameters[node->parameters[LS__WEIGHT]].flattened = flattened_channels(x);
    return node;
}
