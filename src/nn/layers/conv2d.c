/* conv2d.c: two-dimensional convolution (in fact cross-correlation, as usual). */
#include "base/error.h"
#include "nn/layers/layers.h"

static const char *const axis[2] = { "height", "width" };

static ls_status infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    char text[LS_SHAPE_TEXT_SIZE];
    ls_shape_text(x, text, sizeof text);
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    const int64_t groups = node->u.conv.groups;
    if (x->dims[3] % groups != 0 || node->u.conv.channels % groups != 0)
        return ls__node_fail(
            node, LS_ERR_SHAPE,
            "input %s has %lld channels and the output %lld; %lld groups must divide both", text,
            (long long)x->dims[3], (long long)node->u.conv.channels, (long long)groups);
    if (node->parameters[LS__WEIGHT] >= 0) {
        const ls_shape *w = &node->graph->parameters[node->parameters[LS__WEIGHT]].shape;
        if (w->dims[3] * groups != x->dims[3])
            return ls__node_fail(node, LS_ERR_SHAPE,
                                 "weight has %lld input channels, input %s has %lld",
                                 (long long)(w->dims[3] * groups), text, (long long)x->dims[3]);
    }
    int64_t size[2];
    for (int i = 0; i < 2; i++) {
        const int64_t extent = node->u.conv.dilation[i] * (node->u.conv.kernel[i] - 1) + 1;
        const int64_t room = x->dims[1 + i] + 2 * node->u.conv.padding[i] - extent;
        if (room < 0)
            return ls__node_fail(
                node, LS_ERR_SHAPE,
                "%s %lld of input %s with padding %lld is smaller than the kernel's extent %lld",
                axis[i], (long long)x->dims[1 + i], text, (long long)node->u.conv.padding[i],
                (long long)extent);
        size[i] = room / node->u.conv.stride[i] + 1;
    }
    *out = (ls_spec){ LS_F32, LS_SHAPE(x->dims[0], size[0], size[1], node->u.conv.channels) };
    return LS_OK;
}

static ls__op conv_op(const ls_node *node, ls__op_kind kind)
{
    ls__op op = { .kind = kind };
    for (int i = 0; i < 2; i++) {
        op.u.conv.kernel[i] = node->u.conv.kernel[i];
        op.u.conv.stride[i] = node->u.conv.stride[i];
        op.u.conv.padding[i] = node->u.conv.padding[i];
        op.u.conv.dilation[i] = node->u.conv.dilation[i];
    }
    op.u.conv.groups = node->u.conv.groups;
    return op;
}

/* The number of zero channels added to x for alignment, see input.c. */
static int64_t padding_channels(ls__builder *b, const ls_node *node, int x)
{
    if (b->status != LS_OK) return 0;
    return b->program->values[x].shape.dims[3] - ls__spec_of(b, node->inputs[0])->shape.dims[3];
}

/* Weights, or their gradient, with so many input channels more than value w. */
static int padded_weights(ls__builder *b, int w, ls_dtype dtype, int64_t more)
{
    if (b->status != LS_OK) return -1;
    ls_shape shape = b->program->values[w].shape;
    shape.dims[3] += more;
    return ls__value_weights(b, dtype, shape);
}

static void forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    ls__op op = conv_op(node, LS__OP_CONV2D);
    const int x = ls__activation_of(b, node->inputs[0]);
    const int64_t more = op.u.conv.padding_channels = padding_channels(b, node, x);
    int w = ls__value_compute_weight(b, node->parameters[LS__WEIGHT]);
    if (more > 0) {
        const int padded = padded_weights(b, w, b->activations, more);
        ls__emit(b, &(ls__op){ .kind = LS__OP_PAD_CHANNELS }, 1, &w, 1, &padded);
        w = padded;
    }
    const int bias = ls__value_compute_weight(b, node->parameters[LS__BIAS]);
    const int y = ls__activation_new(b, ls__spec_of(b, node)->shape);
    ls__emit(b, &op, 3, (const int[]){ x, w, bias }, 1, &y);
    ls__set_forward_value(b, fused->tail, y);
}

static void backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int dy = ls__gradient_of(b, fused->tail);
    if (dy < 0) return;
    const int x = ls__activation_of(b, node->inputs[0]);
    /* The weight gradient first, because x's memory is free afterwards. */
    if (ls__wants_parameter(b, node->parameters[LS__WEIGHT]) ||
        ls__wants_parameter(b, node->parameters[LS__BIAS])) {
        ls__op op = conv_op(node, LS__OP_CONV2D_BACKWARD_WEIGHTS);
        const int64_t more = op.u.conv.padding_channels = padding_channels(b, node, x);
        const int dw = ls__value_parameter_gradient(b, node->parameters[LS__WEIGHT]);
        const int db = ls__value_parameter_gradient(b, node->parameters[LS__BIAS]);
        const int all = more > 0 ? padded_weights(b, dw, LS_F32, more) : dw;
        ls__emit(b, &op, 2, (const int[]){ x, dy }, 2, (const int[]){ all, db });
        if (more > 0)
            ls__emit(b, &(ls__op){ .kind = LS__OP_PAD_CHANNELS_BACKWARD }, 1, &all, 1, &dw);
    }
    if (ls__wants_gradient(b, node->inputs[0])) {
        const ls__op op = conv_op(node, LS__OP_CONV2D_BACKWARD_DATA);
        const int w = ls__value_compute_weight(b, node->parameters[LS__WEIGHT]);
        const int dx = ls__activation_new(b, ls__spec_of(b, node->inputs[0])->shape);
        ls__emit(b, &op, 2, (const int[]){ dy, w }, 1, &dx);
        ls__contribute(b, node->inputs[0], dx);
    }
}

static int64_t multiply_adds(const ls_node *node, const ls_spec *inputs, const ls_spec *out)
{
    return ls_shape_count(&out->shape) * node->u.conv.kernel[0] * node->u.conv.kernel[1] *
           (inputs[0].shape.dims[3] / node->u.conv.groups);
}

static void conv2d_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_integers(out, 2, node->u.conv.kernel);
    ls__text_put_integers(out, 2, node->u.conv.stride);
    ls__text_put_integers(out, 2, node->u.conv.padding);
    ls__text_put_integers(out, 2, node->u.conv.dilation);
    ls__text_put_integers(out, 1, &node->u.conv.groups);
}

const ls__layer ls__conv2d_layer = { .name = "conv2d",
                                     .infer = infer,
                                     .forward = forward,
                                     .backward = backward,
                                     .multiply_adds = multiply_adds,
                                     .put_settings = conv2d_settings,
                                     .reads_compute_weights = true };

/* Fills a {height, width} pair from a config: height 0 = fallback; width 0 = height, and -1 = 0
 * where that may be. */
static bool take_pair(ls_graph *graph, const char *name, const char *what, int height, int width,
                      int fallback, int least, int64_t out[2])
{
    out[0] = height ? height : fallback;
    out[1] = width == LS_NONE && least == 0 ? 0 : width ? width : out[0];
    if (out[0] >= least && out[1] >= least) return true;
    ls__fail(graph->ctx, LS_ERR_INVALID, "conv2d '%s': %s is %lld x %lld, wanted at least %d", name,
             what, (long long)out[0], (long long)out[1], least);
    return false;
}

ls_node *ls_conv2d(ls_graph *graph, const char *name, ls_node *x, int64_t channels,
                   const ls_conv2d_config *config)
{
    if (!ls__graph_accepts(graph, "ls_conv2d", 1, &x)) return NULL;
    const ls_conv2d_config c = config ? *config : (ls_conv2d_config){ 0 };
    if (!name || channels < 1 || c.groups < 0 || c.init < LS_INIT_DEFAULT || c.init > LS_INIT_ONE) {
        ls__fail(graph->ctx, LS_ERR_INVALID,
                 "conv2d '%s': a name, at least 1 output channel (got %lld), groups >= 0 (got %d) "
                 "and a known init "
                 "are needed",
                 name ? name : "", (long long)channels, c.groups);
        return NULL;
    }
    ls_node prototype = { .layer = &ls__conv2d_layer };
    prototype.u.conv.channels = channels;
    prototype.u.conv.groups = c.groups ? c.groups : 1;
    if (!take_pair(graph, name, "kernel", c.kernel, c.kernel_w, 1, 1, prototype.u.conv.kernel) ||
        !take_pair(graph, name, "stride", c.stride, c.stride_w, 1, 1, prototype.u.conv.stride) ||
        !take_pair(graph, name, "padding", c.padding, c.padding_w, 0, 0,
                   prototype.u.conv.padding) ||
        !take_pair(graph, name, "dilation", c.dilation, c.dilation_w, 1, 1,
                   prototype.u.conv.dilation))
        return NULL;
    ls_node *node = ls__graph_append(graph, &prototype, name, 1, &x);
    if (!node) return NULL;
    const double field = (double)prototype.u.conv.kernel[0] * (double)prototype.u.conv.kernel[1];
    const int64_t in = x->spec.shape.dims[3] / prototype.u.conv.groups;
    const ls__parameter_init init = { c.init == LS_INIT_DEFAULT ? LS_INIT_HE_FAN_OUT : c.init,
                                      (double)in * field, (double)channels * field };
    const ls_shape weight =
        LS_SHAPE(channels, prototype.u.conv.kernel[0], prototype.u.conv.kernel[1], in);
    if (!ls__graph_add_parameter(graph, node, LS__WEIGHT, "weight", LS_PARAMETER_WEIGHT, weight,
                                 init))
        return NULL;
    /* As PyTorch's: uniform, limit 1 / sqrt(fan_in). */
    const ls__parameter_init bias_init = { LS_INIT_UNIFORM_FAN_IN, (double)in * field,
                                           (double)channels };
    if (c.bias && !ls__graph_add_parameter(graph, node, LS__BIAS, "bias", LS_PARAMETER_BIAS,
                                           LS_SHAPE(channels), bias_init))
        return NULL;
    return node;
}
