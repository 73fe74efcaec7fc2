/* group_norm.c: softmax over channels; layer norm (Ba et al. 2016) and group norm (Wu & He 2018),
 * which are one op: the statistics' shape [instances,groups] tells them apart. */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status group_norm_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    const int64_t groups = node->settings.group_norm.groups, channels = x->dims[x->n_dims - 1];
    LS_TRY(ls__node_expect(node, &inputs[0], x->n_dims == 2 ? 2 : 4, "[N,H,W,C] or [N,C]"));
    LS_TRY(ls__node_expect_weight(node, x, 0, 1, "channels"));
    if (groups > 0 && channels % groups != 0)
        return ls__node_fail(node, LS_ERR_SHAPE, "%lld groups must divide the %lld channels",
                             (long long)groups, (long long)channels);
    *out = inputs[0];
    return LS_OK;
}

/* ---- Softmax ---- */

static const ls__layer softmax_layer = { .name = "softmax",
                                         .infer = group_norm_infer,
                                         .forward = ls__lower_op,
                                         .backward = ls__lower_op_backward,
                                         .op = LS__OP_SOFTMAX,
                                         .backward_op = LS__OP_SOFTMAX_BACKWARD };

ls_node *ls_softmax(ls_graph *graph, ls_node *x)
{
    return ls__graph_append(graph, &(ls_node){ .layer = &softmax_layer }, NULL, 1, &x);
}

/* ---- Layer norm and group norm ---- */

static void group_norm_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const ls_shape shape = ls__spec_of(b, node)->shape;
    const int64_t groups = node->settings.group_norm.groups;
    const int64_t places = ls_shape_element_count(&shape) / shape.dims[shape.n_dims - 1];
    const ls_shape statistics = groups ? LS_SHAPE(shape.dims[0], groups) : LS_SHAPE(places, 1);
    const int inputs[3] = { ls__activation_of(b, node->inputs[0]),
                            ls__value_parameter(b, node, LS__WEIGHT),
                            ls__value_parameter(b, node, LS__BIAS) };
    const ls__op op = ls__op_of(node, LS__OP_GROUP_NORM);
    const int y = ls__activation_new(b, shape);
    int *saved = &b->saved[node->id * LS__MAX_SAVED];
    saved[0] = ls__value_new(b, LS_F32, statistics);
    saved[1] = ls__value_new(b, LS_F32, statistics);
    ls__emit(b, &op, 3, inputs, 3, (const int[]){ y, saved[0], saved[1] });
    ls__set_forward_value(b, fused->tail, y);
}

static void group_norm_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int *saved = &b->saved[node->id * LS__MAX_SAVED];
    const ls__op op = ls__op_of(node, LS__OP_GROUP_NORM_BACKWARD);
    const int inputs[5] = { ls__activation_of(b, node->inputs[0]), ls__gradient_of(b, fused->tail),
                            ls__value_parameter(b, node, LS__WEIGHT), saved[0], saved[1] };
    const int dx = ls__activation_new(b, ls__spec_of(b, node)->shape);
    ls__emit(b, &op, 5, inputs, 3,
             (const int[]){ dx, ls__value_parameter_gradient(b, node, LS__WEIGHT),
                            ls__value_parameter_gradient(b, node, LS__BIAS) });
    if (ls__requires_gradient(b, node->inputs[0])) ls__contribute(b, node->inputs[0], dx);
}

static void settings(const ls_node *node, ls__text *out)
{
    ls__text_put_floats(out, 1, &node->settings.group_norm.epsilon);
    ls__text_put_integers(out, 1, &node->settings.group_norm.groups);
}

static const ls__layer layer_norm_layer = { .name = "layer_norm",
                                            .infer = group_norm_infer,
                                            .forward = group_norm_forward,
                                            .backward = group_norm_backward,
                                            .put_settings = settings };
static const ls__layer group_norm_layer = { .name = "group_norm",
                                            .infer = group_norm_infer,
                                            .forward = group_norm_forward,
                                            .backward = group_norm_backward,
                                            .put_settings = settings };

/* groups 0: layer norm */
static ls_node *append_norm(ls_graph *graph, const ls__layer *layer, const char *name, ls_node *x,
                            int64_t groups, float epsilon)
{
    if (epsilon == 0) epsilon = 1e-5f;
    if (!name || !(epsilon > 0 && epsilon < 1e30f))
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "%s '%s': expected a name and epsilon > 0 (got %g)", layer->name,
                             name ? name : "", (double)epsilon);
    const ls_node prototype = { .layer = layer, .settings.group_norm = { epsilon, groups } };
    ls_node *node = ls__graph_append(graph, &prototype, name, 1, &x);
    if (!node) return NULL;
    const ls_shape channels = LS_SHAPE(x->spec.shape.dims[x->spec.shape.n_dims - 1]);
    const ls__parameter_init zero = { LS_INIT_ZERO, 1, 1 }, one = { LS_INIT_ONE, 1, 1 };
    if (ls__node_add_parameter(node, LS__WEIGHT, "weight", LS_PARAMETER_NORM, channels, one) !=
            LS_OK ||
        ls__node_add_parameter(node, LS__BIAS, "bias", LS_PARAMETER_NORM, channels, zero) != LS_OK)
        return NULL;
    return node;
}

ls_node *ls_layer_norm(ls_graph *graph, const char *name, ls_node *x,
                       const ls_layer_norm_config *config)
{
    if (!ls__graph_accepts(graph, "ls_layer_norm", 1, &x)) return NULL;
    return append_norm(graph, &layer_norm_layer, name, x, 0, config ? config->epsilon : 0);
}

ls_node *ls_group_norm(ls_graph *graph, const char *name, ls_node *x, int64_t groups,
                       const ls_group_norm_config *config)
{
    if (!ls__graph_accepts(graph, "ls_group_norm", 1, &x)) return NULL;
    if (groups < 1)
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "group_norm '%s': expected at least 1 group (got %lld)",
                             name ? name : "", (long long)groups);
    return append_norm(graph, &group_norm_layer, name, x, groups, config ? config->epsilon : 0);
}
