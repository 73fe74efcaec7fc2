/* mobilenet.c: MobileNetV2 (Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear
 * Bottlenecks", table 2), as in torchvision.
 *
 * A block expands its channels by a 1x1 convolution, filters each by a 3x3 convolution of its own
 * (depthwise), and projects them by a linear 1x1 convolution; if the shape stays the same, the
 * block's input is added. */
#include <lockstep/models.h>
#include <stdio.h>

static ls_node *conv_norm(ls_graph *g, ls_node *x, int first, int64_t channels, int kernel,
                          int stride, int groups)
{
    char conv[16], norm[16];
    snprintf(conv, sizeof(conv), "%d", first);
    snprintf(norm, sizeof(norm), "%d", first + 1);
    x = ls_conv2d(
        g, conv, x, channels,
        &(ls_conv2d_config){
            .kernel = kernel, .stride = stride, .padding = kernel / 2, .groups = groups });
    return ls_batch_norm(g, norm, x, NULL);
}

/* "scope.0", "scope.1": a convolution and its batch norm, then ReLU6. */
static ls_node *conv_relu6(ls_graph *g, ls_node *x, int scope, int64_t channels, int kernel,
                           int stride, int groups)
{
    ls_scope_begin(g, "%d", scope);
    x = conv_norm(g, x, 0, channels, kernel, stride, groups);
    ls_scope_end(g);
    return ls_relu6(g, x);
}

static ls_node *inverted_residual(ls_graph *g, ls_node *x, int64_t channels, int stride,
                                  int expansion)
{
    const int64_t in = ls_node_shape(x).dims[3], hidden = expansion * in;
    int layer = 0;
    ls_scope_begin(g, "conv");
    ls_node *y = expansion > 1 ? conv_relu6(g, x, layer++, hidden, 1, 1, 1) : x;
    y = conv_relu6(g, y, layer++, hidden, 3, stride, (int)hidden);
    y = conv_norm(g, y, layer, channels, 1, 1, 1);
    ls_scope_end(g);
    return stride == 1 && in == channels ? ls_add(g, y, x) : y;
}

ls_node *ls_mobilenet_v2(ls_graph *g, ls_node *x, const void *user_options)
{
    static const struct {
        int expansion, channels, blocks, stride;
    } stages[] = { { 1, 16, 1, 1 }, { 6, 24, 2, 2 },  { 6, 32, 3, 2 }, { 6, 64, 4, 2 },
                   { 6, 96, 3, 1 }, { 6, 160, 3, 2 }, { 6, 320, 1, 1 } };
    static const ls_model model = { .name = "mobilenet_v2", .n_classes = 1000, .dropout = 0.2 };
    ls_model_options options;
    if (!ls_model_resolve_options(g, &model, user_options, &options)) return NULL;
    int feature = 0;

    ls_scope_begin(g, "features");
    x = conv_relu6(g, x, feature++, 32, 3, 2, 1);
    for (size_t stage = 0; stage < sizeof(stages) / sizeof(stages[0]); stage++)
        for (int i = 0; i < stages[stage].blocks; i++) {
            ls_scope_begin(g, "%d", feature++);
            x = inverted_residual(g, x, stages[stage].channels, i == 0 ? stages[stage].stride : 1,
                                  stages[stage].expansion);
            ls_scope_end(g);
        }
    x = conv_relu6(g, x, feature, 1280, 1, 1, 1);
    ls_scope_end(g);

    x = ls_dropout(g, ls_global_avg_pool(g, x), options.dropout);
    return ls_linear(g, "classifier.1", x, options.n_classes,
                     &(ls_linear_config){ .init = LS_INIT_NORMAL, .bias_init = LS_INIT_ZERO });
}
