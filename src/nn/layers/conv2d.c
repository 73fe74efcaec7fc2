/* conv2d.c: two-dimensional convolution (cross-correlation, as in PyTorch). */
#include "base/error.h"
#include "nn/layers/layers.h"

static ls_status conv2d_infer(const ls_node *node, const ls_spec *inputs, ls_spec *out)
{
    const ls_shape *x = &inputs[0].shape;
    const int64_t groups = node->settings.conv.groups;
    char text[LS_SHAPE_TEXT_SIZE];
    LS_TRY(ls__node_expect(node, &inputs[0], 4, "[N,H,W,C]"));
    if (x->dims[3] % groups != 0 || node->channels % groups != 0)
        return ls__node_fail(
            node, LS_ERR_SHAPE,
            "input %s has %lld channels and the output %lld; %lld groups must divide both",
            ls_shape_text(x, text, sizeof text), (long long)x->dims[3], (long long)node->channels,
            (long long)groups);
    LS_TRY(ls__node_expect_weight(node, x, 3, groups, "input channels"));
    int64_t extent[2];
    for (int i = 0; i < 2; i++)
        extent[i] = node->settings.conv.dilation[i] * (node->settings.conv.kernel[i] - 1) + 1;
    *out = (ls_spec){ LS_F32, LS_SHAPE(x->dims[0], 0, 0, node->channels) };
    return ls__node_slide(node, x, extent, node->settings.conv.padding, node->settings.conv.stride,
                          &out->shape.dims[1]);
}

/* The number of zero channels added to x for alignment, see input.c. */
static int64_t padding_channels(ls__builder *b, const ls_node *node, int x)
{
    if (b->status != LS_OK) return 0;
    return b->program->values[x].shape.dims[3] - ls__spec_of(b, node->inputs[0])->shape.dims[3];
}

/* A value for weights or their gradient, with `more` input channels than value w. */
static int padded_weights(ls__builder *b, int w, ls_dtype dtype, int64_t more)
{
    if (b->status != LS_OK) return -1;
    ls_shape shape = b->program->values[w].shape;
    shape.dims[3] += more;
    return ls__value_new(b, dtype, shape);
}

static void conv2d_forward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    ls__op op = ls__op_of(node, LS__OP_CONV2D);
    const int x = ls__activation_of(b, node->inputs[0]);
    const int64_t more = op.u.conv.padding_channels = padding_channels(b, node, x);
    int w = ls__value_compute_weight(b, node, LS__WEIGHT);
    if (more > 0) {
        const int padded = padded_weights(b, w, b->activations, more);
        ls__emit(b, &(ls__op){ .kind = LS__OP_PAD_CHANNELS }, 1, &w, 1, &padded);
        w = padded;
    }
    const int bias = ls__value_compute_weight(b, node, LS__BIAS);
    ls__emit_forward(b, fused, &op, 3, (const int[]){ x, w, bias });
}

static void conv2d_backward(ls__builder *b, const ls__fused_op *fused)
{
    const ls_node *node = fused->head;
    const int dy = ls__gradient_of(b, fused->tail);
    const int x = ls__activation_of(b, node->inputs[0]);
    /* The weight gradient first, because x's memory is free afterwards. */
    if (ls__is_trained(b, node)) {
        ls__op op = ls__op_of(node, LS__OP_CONV2D_BACKWARD_WEIGHTS);
        const int64_t more = op.u.conv.padding_channels = padding_channels(b, node, x);
        const int dw = ls__value_parameter_gradient(b, node, LS__WEIGHT);
        const int db = ls__value_parameter_gradient(b, node, LS__BIAS);
        const int all = more > 0 ? padded_weights(b, dw, LS_F32, more) : dw;
        ls__emit(b, &op, 2, (const int[]){ x, dy }, 2, (const int[]){ all, db });
        if (more > 0)
            ls__emit(b, &(ls__op){ .kind = LS__OP_PAD_CHANNELS_BACKWARD }, 1, &all, 1, &dw);
    }
    if (ls__requires_gradient(b, node->inputs[0])) {
        const ls__op op = ls__op_of(node, LS__OP_CONV2D_BACKWARD_DATA);
        const int w = ls__value_compute_weight(b, node, LS__WEIGHT);
        ls__emit_gradient(b, node->inputs[0], &op, 2, (const int[]){ dy, w });
    }
}

static int64_t conv2d_multiply_adds(const ls_node *node, const ls_spec *inputs, const ls_spec *out)
{
    return ls_shape_element_count(&out->shape) * node->settings.conv.kernel[0] *
           node->settings.conv.kernel[1] * (inputs[0].shape.dims[3] / node->settings.conv.groups);
}

static void conv2d_settings(const ls_node *node, ls__text *out)
{
    ls__text_put_integers(out, 2, node->settings.conv.kernel);
    ls__text_put_integers(out, 2, node->settings.conv.stride);
    ls__text_put_integers(out, 2, node->settings.conv.padding);
    ls__text_put_integers(out, 2, node->settings.conv.dilation);
    ls__text_put_integers(out, 1, &node->settings.conv.groups);
}

const ls__layer ls__conv2d_layer = { .name = "conv2d",
                                     .infer = conv2d_infer,
                                     .forward = conv2d_forward,
                                     .backward = conv2d_backward,
                                     .multiply_adds = conv2d_multiply_adds,
                                     .put_settings = conv2d_settings,
                                     .reads_compute_weights = true };

/* Sets a {height, width} pair from a config: height 0 = fallback, width 0 = height, width
 * LS_ZERO_INT = 0 if 0 is allowed. */
static ls_status take_pair(ls_graph *graph, const char *name, const char *what, int height,
                           int width, int fallback, int min_value, int64_t out[2])
{
    out[0] = height ? height : fallback;
    out[1] = width == LS_ZERO_INT && min_value == 0 ? 0 : width ? width : out[0];
    if (out[0] >= min_value && out[1] >= min_value) return LS_OK;
    return ls__fail(graph->ctx, LS_ERR_INVALID,
                    "conv2d '%s': %s is %lld x %lld, expected at least %d", name, what,
                    (long long)out[0], (long long)out[1], min_value);
}

ls_node *ls_conv2d(ls_graph *graph, const char *name, ls_node *x, int64_t channels,
                   const ls_conv2d_config *config)
{
    if (!ls__graph_accepts(graph, "ls_conv2d", 1, &x)) return NULL;
    ls_conv2d_config c = config ? *config : (ls_conv2d_config){ 0 };
    if (!name || channels < 1 || c.groups < 0 || !ls__init_resolve(&c.init, LS_INIT_HE_FAN_OUT) ||
        !ls__init_resolve(&c.bias_init, LS_INIT_UNIFORM_FAN_IN))
        return ls_graph_fail(graph, LS_ERR_INVALID,
                             "conv2d '%s': expected a name, at least 1 output channel (got %lld), "
                             "groups >= 0 (got %d) and a known init",
                             name ? name : "", (long long)channels, c.groups);
    ls_node prototype = { .layer = &ls__conv2d_layer, .channels = channels };
    int64_t *kernel = prototype.settings.conv.kernel;
    prototype.settings.conv.groups = c.groups ? c.groups : 1;
    if (take_pair(graph, name, "kernel", c.kernel, c.kernel_w, 1, 1, kernel) != LS_OK ||
        take_pair(graph, name, "stride", c.stride, c.stride_w, 1, 1,
                  prototype.settings.conv.stride) != LS_OK ||
        take_pair(graph, name, "padding", c.padding, c.padding_w, 0, 0,
                  prototype.settings.conv.padding) != LS_OK ||
        take_pair(graph, name, "dilation", c.dilation, c.dilation_w, 1, 1,
                  prototype.settings.conv.dilation) != LS_OK)
        return NULL;
    ls_node *node = ls__graph_append(graph, &prototype, name, 1, &x);
    if (!node) return NULL;
    const double field = (double)kernel[0] * (double)kernel[1];
    const int64_t in = x->spec.shape.dims[3] / prototype.settings.conv.groups;
    const ls__parameter_init init = { c.init, (double)in * field, (double)channels * field };
    const ls__parameter_init bias_init = { c.bias_init, (double)in * field, (double)channels };
    return ls__node_add_weights(node, LS_SHAPE(channels, kernel[0], kernel[1], in), init, c.bias,
                                bias_init);
}
