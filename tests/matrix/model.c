/* model.c: see model.h. */
#include "model.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHANNELS = 256 };

/* ---- An op of one's own: each channel times a learned factor. Its backward pass adds over the
 * pixels in `parts` pieces: harmless when that is a constant, and the classical mistake when it is
 * the number of threads. ---- */

static ls_status scale_forward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *scale = call->inputs[1];
    const int64_t n = ls_shape_element_count(&call->output_spec.shape),
                  c = call->output_spec.shape.dims[3];
    for (int64_t i = 0; i < n; i++) ((float *)call->output)[i] = x[i] * scale[i % c];
    return LS_OK;
}

static ls_status scale_backward(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *scale = call->inputs[1], *dy = call->output_gradient;
    const int64_t n = ls_shape_element_count(&call->output_spec.shape),
                  c = call->output_spec.shape.dims[3];
    const int64_t rows = n / c, parts = *(const int *)call->user;
    for (int64_t i = 0; i < n; i++) call->input_gradients[0][i] = dy[i] * scale[i % c];
    memset(call->input_gradients[1], 0, (size_t)c * sizeof(float));
    for (int64_t p = 0; p < parts; p++) {
        float sums[MAX_CHANNELS] = { 0 };
        for (int64_t i = p * rows / parts * c; i < (p + 1) * rows / parts * c; i++)
            sums[i % c] += x[i] * dy[i];
        for (int64_t i = 0; i < c; i++) call->input_gradients[1][i] += sums[i];
    }
    return LS_OK;
}

static ls_node *scale(ls_graph *g, const char *name, ls_node *x, const int *parts)
{
    const ls_shape factors = LS_SHAPE(ls_node_shape(x).dims[3]);
    ls_node *both[] = { x, ls_parameter(g, name, factors, LS_PARAMETER_NORM, LS_INIT_DEFAULT) };
    const ls_custom_op_config op = { .kind = "scale",
                                     .output = { LS_F32, ls_node_shape(x) },
                                     .forward = scale_forward,
                                     .backward = scale_backward,
                                     .user = (void *)(uintptr_t)parts };
    return ls_custom_op(g, name, 2, both, &op);
}

/* ---- The net. conv2 (Winograd) is cut into tasks by tiles, the gradient of conv7's weights by
 * channels; a wide conv1 is large enough to be cut by images. ---- */

static ls_node *conv(ls_graph *g, const char *name, ls_node *x, int64_t channels,
                     ls_conv2d_config config)
{
    ls_scope_begin(g, "%s", name);
    x = ls_batch_norm(g, "bn", ls_conv2d(g, "conv", x, channels, &config), NULL);
    ls_scope_end(g);
    return x;
}

/* x [N,23,23,3] -> [N,3] */
ls_node *matrix_model(ls_graph *g, ls_node *x, const void *which)
{
    const net_options *o = which;
    x = ls_relu(g, conv(g, "conv1", x, o->width, (ls_conv2d_config){ .kernel = 7, .padding = 3 }));
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 3, .stride = 2, .padding = 1 });
    x = ls_relu(g, conv(g, "conv2", x, 32, (ls_conv2d_config){ .kernel = 3, .padding = 1 }));
    ls_node *y =
        conv(g, "conv3", x, 32, (ls_conv2d_config){ .kernel = 3, .padding = 1, .groups = 4 });
    y = conv(g, "conv4", ls_relu(g, y), 32, (ls_conv2d_config){ .kernel = 1 });
    x = ls_relu(g, ls_add(g, x, y));
    x = conv(g, "conv5", x, 32,
             (ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1, .groups = 32 });
    x = ls_relu(g, ls_conv2d(g, "conv6", x, 144, &(ls_conv2d_config){ .kernel = 1, .bias = true }));
    x = conv(g, "conv7", x, 128, (ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1 });
    x = ls_global_avg_pool(g, ls_relu(g, scale(g, "scale", x, &o->parts)));
    return ls_linear(g, "fc", ls_dropout(g, x, 0.2f), 3, NULL);
}
