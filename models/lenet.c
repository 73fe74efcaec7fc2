/* lenet.c: LeNet-5 (LeCun et al. 1998, "Gradient-based learning applied to document recognition",
 * figure 2) with ReLU, max pooling and softmax in place of the paper's tanh, trained pooling and
 * radial basis functions.
 *
 * conv 5x5, 6 -> pool -> conv 5x5, 16 -> pool -> linear 120 -> linear 84 -> linear. The first
 * convolution pads images by 2, so that those of 28x28 give the paper's feature maps. */
#include <lockstep/models.h>

/* Pooled to 6x6, the second convolution makes 2x2 of it, which are pooled to one pixel. */
enum { MIN_SIDE = 12 };

static ls_node *lenet_conv(ls_graph *g, const char *name, ls_node *x, int64_t channels, int padding)
{
    x = ls_conv2d(g, name, x, channels,
                  &(ls_conv2d_config){ .kernel = 5, .padding = padding, .bias = true });
    return ls_max_pool(g, ls_relu(g, x), &(ls_pool_config){ .kernel = 2 });
}

ls_node *ls_lenet5(ls_graph *g, ls_node *x, const void *user_options)
{
    static const ls_model model = { .name = "lenet5", .n_classes = 10, .dropout = -1 };
    ls_model_options options;
    if (!ls_model_resolve_options(g, &model, user_options, &options)) return NULL;
    const ls_shape shape = ls_node_shape(x);
    const int64_t height = shape.dims[1], width = shape.dims[2];
    if (shape.n_dims == 4 && (height < MIN_SIDE || width < MIN_SIDE))
        return ls_graph_fail(g, LS_ERR_SHAPE,
                             "lenet5: images of %lld x %lld pixels, expected sides of at least %d",
                             (long long)width, (long long)height, (int)MIN_SIDE);
    x = lenet_conv(g, "conv1", x, 6, 2);
    x = lenet_conv(g, "conv2", x, 16, 0);
    x = ls_flatten(g, x);
    x = ls_relu(g, ls_linear(g, "fc1", x, 120, NULL));
    x = ls_relu(g, ls_linear(g, "fc2", x, 84, NULL));
    return ls_linear(g, "fc3", x, options.n_classes, NULL);
}
