/* concat.c: concatenation along channels (Huang et al. 2017, DenseNet): y's channels are those of
 * the inputs, in order. Each input is copied into its range of y by one op of a chain, whose
 * results share one memory. */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status concat_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    *out = inputs[0];
    const int last = inputs[0].shape.n_dims - 1;
    for (int i = 0; i < node->n_inputs; i++) {
        char first_text[LS_SHAPE_TEXT_SIZE], text[LS_SHAPE_TEXT_SIZE];
        ls_shape others = inputs[i].shape;
        LS_TRY(ls__node_expect(node, &inputs[i], last == 1 ? 2 : 4, "[N,H,W,C] or [N,C]"));
        const int64_t channels = others.dims[last];
        others.dims[last] = out->shape.dims[last];
        if (!ls_shape_equal(&others, &out->shape))
            return ls__node_fail(
                node, LS_ERR_SHAPE,
                "'%s' is %s and '%s' is %s; expected equal sizes of all dimensions but the last",
                node->inputs[0]->name,
                ls_shape_text(&inputs[0].shape, first_text, sizeof first_text),
                node->inputs[i]->name, ls_shape_text(&inputs[i].shape, text, sizeof text));
        if (i > 0 &&
            __builtin_add_overflow(out->shape.dims[last], channels, &out->shape.dims[last]))
            return ls__node_fail(node, LS_ERR_SHAPE, "too many channels");
    }
    return LS_OK;
}

static int64_t channels_of(ls__builder *b, const ls_node *node)
{
    const ls_shape *shape = &ls__spec_of(b, node)->shape;
    return shape->dims[shape->n_dims - 1];
}

static void concat_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    ls__op op = { .kind = LS__OP_CONCAT };
    int y = -1;
    for (int i = 0; i < node->n_inputs; i++) {
        const int inputs[2] = { ls__activation_of(b, node->inputs[i]), y };
        y = ls__activation_new(b, ls__spec_of(b, node)->shape);
        ls__emit(b, &op, 2, inputs, 1, &y);
        op.u.concat.offset += channels_of(b, node->inputs[i]);
    }
    ls__set_forward_value(b, fused->tail, y);
}

static void concat_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    ls__op op = { .kind = LS__OP_CONCAT_BACKWARD };
    const int dy = ls__gradient_of(b, fused->tail);
    for (int i = 0; i < node->n_inputs; i++) {
        const ls_node *x = node->inputs[i];
        if (ls__requires_gradient(b, x)) ls__emit_gradient(b, x, &op, 1, &dy);
        op.u.concat.offset += channels_of(b, x);
    }
}

static const ls__layer concat_layer = {
    .name = "concat", .infer = concat_infer, .forward = concat_forward, .backward = concat_backward
};

ls_node *ls_concat(ls_graph *graph, int n, ls_node *const *nodes)
{
    if (!graph || ls__has_error(graph->ctx)) return NULL;
    if (!nodes) return ls_graph_fail(graph, LS_ERR_INVALID, "ls_concat: nodes is NULL");
    if (n < 1 || n > LS_MAX_CONCAT_INPUTS)
        return ls_graph_fail(graph, LS_ERR_INVALID, "ls_concat: %d nodes, expected 1 to %d", n,
                             LS_MAX_CONCAT_INPUTS);
    return ls__graph_append(graph, &(ls_node){ .layer = &concat_layer }, NULL, n, nodes);
}
