/* wide_resnet.c: WRN-28-10 (Zagoruyko & Komodakis 2016, "Wide Residual Networks", table 1) of
 * pre-activation blocks, with the names of github.com/xternalz/WideResNet-pytorch:
 * "block1.layer.0.conv1". */
#include <lockstep/models.h>

static ls_node *wide_conv(ls_graph *g, const char *name, ls_node *x, int64_t channels, int kernel,
                          int stride)
{
    return ls_conv2d(
        g, name, x, channels,
        &(ls_conv2d_config){ .kernel = kernel, .stride = stride, .padding = kernel / 2 });
}

/* x + f(x), f = norm, ReLU, conv, norm, ReLU, dropout, conv. Where the channels change, the
 * shortcut is a 1x1 convolution of the first ReLU's result. */
static ls_node *wide_block(ls_graph *g, ls_node *x, int64_t channels, int stride, float dropout)
{
    ls_node *a = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    ls_node *y = wide_conv(g, "conv1", a, channels, 3, stride);
    if (dropout != 0) y = ls_dropout(g, y, dropout);
    y = ls_relu(g, ls_batch_norm(g, "bn2", y, NULL));
    y = wide_conv(g, "conv2", y, channels, 3, 1);
    if (ls_node_shape(x).dims[3] != channels)
        x = wide_conv(g, "convShortcut", a, channels, 1, stride);
    return ls_add(g, y, x);
}

ls_node *ls_wide_resnet28_10(ls_graph *g, ls_node *x, const void *user_options)
{
    enum { BLOCKS = (28 - 4) / 6, WIDTH = 16 * 10 };
    static const ls_model model = { .name = "wide_resnet28_10", .n_classes = 10 };
    ls_model_options options;
    if (!ls_model_resolve_options(g, &model, user_options, &options)) return NULL;
    x = wide_conv(g, "conv1", x, 16, 3, 1);
    for (int stage = 0; stage < 3; stage++)
        for (int i = 0; i < BLOCKS; i++) {
            ls_scope_begin(g, "block%d.layer.%d", stage + 1, i);
            x = wide_block(g, x, WIDTH << stage, stage > 0 && i == 0 ? 2 : 1, options.dropout);
            ls_scope_end(g);
        }
    x = ls_global_avg_pool(g, ls_relu(g, ls_batch_norm(g, "bn1", x, NULL)));
    return ls_linear(g, "fc", x, options.n_classes,
                     &(ls_linear_config){ .bias_init = LS_INIT_ZERO });
}
