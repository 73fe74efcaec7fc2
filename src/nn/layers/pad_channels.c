/* pad_channels.c: adds channels of zeros, for parameter-free shortcuts (He et al. 2015,
 * option A). */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status pad_channels_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    char text[LS_SHAPE_TEXT_SIZE];
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    if (node->channels < x->dims[3])
        return ls__node_fail(
            node, LS_ERR_SHAPE, "expected at most %lld channels, input %s has %lld",
            (long long)node->channels, ls_shape_text(x, text, sizeof text), (long long)x->dims[3]);
    *out = inputs[0];
    out->shape.dims[3] = node->channels;
    return LS_OK;
}

const ls__layer ls__pad_channels_layer = { .name = "pad_channels",
                                           .infer = pad_channels_infer,
                                           .forward = ls__lower_op,
                                           .backward = ls__lower_op_backward,
                                           .op = LS__OP_PAD_CHANNELS,
                                           .backward_op = LS__OP_PAD_CHANNELS_BACKWARD };

ls_node *ls_pad_channels(ls_graph *graph, ls_node *x, int64_t channels)
{
    const ls_node prototype = { .layer = &ls__pad_channels_layer, .channels = channels };
    return ls__graph_append(graph, &prototype, NULL, 1, &x);
}
