/* vgg.c: VGG-16 (Simonyan & Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale Image
 * Recognition", table 1, D) with batch norm, as in torchvision. */
#include <lockstep/models.h>
#include <stdio.h>

/* "features.N", "features.N+1": a 3x3 convolution and its batch norm, then ReLU. */
static ls_node *conv_relu(ls_graph *g, ls_node *x, int layer, int64_t channels)
{
    char conv[16], norm[16];
    snprintf(conv, sizeof(conv), "%d", layer);
    snprintf(norm, sizeof(norm), "%d", layer + 1);
    x = ls_conv2d(
        g, conv, x, channels,
        &(ls_conv2d_config){ .kernel = 3, .padding = 1, .bias = true, .bias_init = LS_INIT_ZERO });
    return ls_relu(g, ls_batch_norm(g, norm, x, NULL));
}

/* The pooling before the classifier has 7x7 windows of equal size: see models.h. */
static bool check_size(ls_graph *g, const ls_node *x)
{
    const ls_shape shape = ls_node_shape(x);
    const int64_t height = shape.dims[1] / 32, width = shape.dims[2] / 32;
    if (shape.n_dims != 4 || (height == width && height > 0 && height % 7 == 0)) return true;
    ls_graph_fail(
        g, LS_ERR_UNSUPPORTED,
        "vgg16_bn: images of %lld x %lld pixels, expected height and width both of 224 to "
        "255, or both of 448 to 479, or both further multiples of 224 plus up to 31",
        (long long)shape.dims[2], (long long)shape.dims[1]);
    return false;
}

ls_node *ls_vgg16_bn(ls_graph *g, ls_node *x, const void *user_options)
{
    static const struct {
        int convs, channels;
    } stages[] = { { 2, 64 }, { 2, 128 }, { 3, 256 }, { 3, 512 }, { 3, 512 } };
    static const ls_linear_config init = { .init = LS_INIT_NORMAL, .bias_init = LS_INIT_ZERO };
    static const ls_model model = { .name = "vgg16_bn", .n_classes = 1000, .dropout = 0.5 };
    ls_model_options options;
    int layer = 0;
    if (!ls_model_resolve_options(g, &model, user_options, &options) || !check_size(g, x))
        return NULL;
    ls_scope_begin(g, "features");
    for (size_t stage = 0; stage < sizeof(stages) / sizeof(stages[0]); stage++) {
        for (int i = 0; i < stages[stage].convs; i++, layer += 3)
            x = conv_relu(g, x, layer, stages[stage].channels);
        x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2 });
        layer++;
    }
    ls_scope_end(g);
    x = ls_flatten(g, ls_adaptive_avg_pool(g, x, 7));
    x = ls_dropout(g, ls_relu(g, ls_linear(g, "classifier.0", x, 4096, &init)), options.dropout);
    x = ls_dropout(g, ls_relu(g, ls_linear(g, "classifier.3", x, 4096, &init)), options.dropout);
    return ls_linear(g, "classifier.6", x, options.n_classes, &init);
}
