/* resnet.c: residual networks (He et al. 2015, "Deep Residual Learning for Image Recognition").
 *
 * stem -> stages of blocks, each stage after the first at half the size and twice the channels
 *      -> global average -> linear. A block computes relu(f(x) + shortcut(x)). */
#include <lockstep/models.h>
#include <string.h>

typedef struct resnet_arch {
    int64_t width; /* channels of the first stage */
    bool bottleneck;
    int blocks[4]; /* per stage */
    int64_t image_size, n_classes;
} resnet_arch;

static ls_node *conv(ls_graph *g, const char *name, ls_node *x, int64_t channels, int kernel,
                     int stride)
{
    return ls_conv2d(
        g, name, x, channels,
        &(ls_conv2d_config){ .kernel = kernel, .stride = stride, .padding = kernel / 2 });
}

/* Two ways to bring x to the shape [N,H/stride,W/stride,channels] of f(x). */
static ls_node *subsample(ls_graph *g, ls_node *x, int64_t channels, int stride)
{
    x = ls_avg_pool(g, x, &(ls_pool_config){ .kernel = 1, .stride = stride });
    return ls_pad_channels(g, x, channels);
}

static ls_node *projection(ls_graph *g, ls_node *x, int64_t channels, int stride)
{
    ls_scope(g, "downsample");
    x = ls_batch_norm(g, "1", conv(g, "0", x, channels, 1, stride), NULL);
    ls_scope_end(g);
    return x;
}

/* Two 3x3 convolutions; or 1x1, 3x3 and 1x1, the last with four times the channels. */
static ls_node *block(ls_graph *g, ls_node *x, int64_t width, int stride, bool bottleneck,
                      const ls_resnet_options *options)
{
    const int64_t channels = bottleneck ? 4 * width : width;
    const ls_batch_norm_config last = { .zero_scale = options->zero_init_residual };

    ls_node *y = x;
    if (bottleneck) {
        y = ls_relu(g, ls_batch_norm(g, "bn1", conv(g, "conv1", y, width, 1, 1), NULL));
        y = ls_relu(g, ls_batch_norm(g, "bn2", conv(g, "conv2", y, width, 3, stride), NULL));
        y = ls_batch_norm(g, "bn3", conv(g, "conv3", y, channels, 1, 1), &last);
    } else {
        y = ls_relu(g, ls_batch_norm(g, "bn1", conv(g, "conv1", y, width, 3, stride), NULL));
        y = ls_batch_norm(g, "bn2", conv(g, "conv2", y, channels, 3, 1), &last);
    }

    if (stride != 1 || ls_node_shape(x).dims[3] != channels)
        x = options->parameter_free_shortcuts ? subsample(g, x, channels, stride)
                                              : projection(g, x, channels, stride);
    return ls_relu(g, ls_add(g, y, x));
}

static ls_node *resnet(ls_graph *g, ls_node *x, const void *user_options, const resnet_arch *arch)
{
    static const ls_resnet_options defaults;
    const ls_resnet_options *options = user_options ? user_options : &defaults;
    const int64_t n_classes = options->n_classes ? options->n_classes : arch->n_classes;
    const bool small = options->stem == LS_STEM_SMALL ||
                       (options->stem == LS_STEM_AUTO &&
                        (arch->image_size == 32 || ls_node_shape(x).dims[1] < 64));

    x = small ? conv(g, "conv1", x, arch->width, 3, 1) : conv(g, "conv1", x, arch->width, 7, 2);
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    if (!small) x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 3, .stride = 2, .padding = 1 });

    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < arch->blocks[stage]; i++) {
            ls_scope(g, "layer%d.%d", stage + 1, i);
            x = block(g, x, arch->width << stage, stage > 0 && i == 0 ? 2 : 1, arch->bottleneck,
                      options);
            ls_scope_end(g);
        }
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), n_classes, NULL);
}

/* X(layers, width, bottleneck, blocks of stages 1 to 4, image size, classes), of He et al. 2015:
 * section 4.2, where a net of 6n+2 layers has n blocks a stage, and table 1. */
#define RESNETS(X)                                                                                 \
    X(20, 16, false, 3, 3, 3, 0, 32, 10)                                                           \
    X(32, 16, false, 5, 5, 5, 0, 32, 10)                                                           \
    X(44, 16, false, 7, 7, 7, 0, 32, 10)                                                           \
    X(56, 16, false, 9, 9, 9, 0, 32, 10)                                                           \
    X(110, 16, false, 18, 18, 18, 0, 32, 10)                                                       \
    X(18, 64, false, 2, 2, 2, 2, 224, 1000)                                                        \
    X(34, 64, false, 3, 4, 6, 3, 224, 1000)                                                        \
    X(50, 64, true, 3, 4, 6, 3, 224, 1000)                                                         \
    X(101, 64, true, 3, 4, 23, 3, 224, 1000)                                                       \
    X(152, 64, true, 3, 8, 36, 3, 224, 1000)

#define FUNCTION(layers, width, bottleneck, a, b, c, d, size, n_classes)                           \
    ls_node *ls_resnet##layers(ls_graph *graph, ls_node *x, const void *options)                   \
    {                                                                                              \
        return resnet(graph, x, options,                                                           \
                      &(resnet_arch){ width, bottleneck, { a, b, c, d }, size, n_classes });       \
    }
RESNETS(FUNCTION)

static const ls_model models[] = {
#define ENTRY(layers, width, bottleneck, a, b, c, d, size, n_classes)                              \
    { "resnet" #layers, ls_resnet##layers, size, n_classes },
    RESNETS(ENTRY)
};

const ls_model *ls_model_at(int i)
{
    return i >= 0 && i < (int)(sizeof(models) / sizeof(models[0])) ? &models[i] : NULL;
}

const ls_model *ls_model_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof(models) / sizeof(models[0]); i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}
