/* pad_channels.c: adds channels of zeros, for parameter-free shortcuts (He et al. 2015,
 * option A). */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    char text[LS_SHAPE_TEXT_SIZE];
    ls_shape_text(x, text, sizeof text);
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    if (node->u.pad.channels < x->dims[3])
        return ls__node_fail(node, LS_ERR_SHAPE,
                             "%lld channels asked for, input %s has %lld already",
                             (long long)node->u.pad.channels, text, (long long)x->dims[3]);
    *out = inputs[0];
    out->shape.dims[3] = node->u.pad.channels;
    return LS_OK;
}

static void forward(ls__builder *b, const ls__fused_op *fused)
{
    const int x = ls__activation_of(b, fused->head->inputs[0]);
    const int y = ls__activation_new(b, ls__spec_of(b, fused->head)->shape);
    ls__emit(b, &(ls__op){ .kind = LS__OP_PAD_CHANNELS }, 1, &x, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

static void backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *x = fused->head->inputs[0];
    if (!ls__wants_gradient(b, x)) return;
    const int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    const int dx = ls__activation_new(b, ls__spec_of(b, x)->shape);
    ls__emit(b, &(ls__op){ .kind = LS__OP_PAD_CHANNELS_BACKWARD }, 1, &dy, 1, &dx);
    ls__contribute(b, x, dx);
}

const ls__layer ls__pad_channels_layer = {
    .name = "pad_channels", .infer = infer, .forward = forward, .backward = backward
};

ls_node *ls_pad_channels(ls_graph *graph, ls_node *x, int64_t channels)
{
    if (!ls__graph_accepts(graph, "ls_pad_channels", 1, &x)) return NULL;
    ls_node prototype = { .layer = &ls__pad_channels_layer };
    prototype.u.pad.channels = channels;
    return ls__graph_append(graph, &prototype, NULL, 1, &x);
}
