/* resnet.c: residual networks (He et al. 2015, "Deep Residual Learning for Image Recognition").
 *
 * stem -> stages of blocks, each stage after the first at half the size and twice the channels
 *      -> global average -> linear. A block computes relu(f(x) + shortcut(x)). */
#include <lockstep/models.h>

typedef struct resnet_arch {
    int64_t width; /* channels of the first stage */
    bool bottleneck;
    int blocks[4];     /* per stage */
    int groups;        /* of the bottlenecks' 3x3 convolutions; 0 = 1, and */
    int group_width;   /* channels of each at width 64; 0 = 64 (torchvision: width_per_group) */
    bool small_images; /* section 4.2: for 32x32 and 10 classes, else for 224x224 and 1000 */
} resnet_arch;

static ls_node *grouped_conv(ls_graph *g, const char *name, ls_node *x, int64_t channels,
                             int kernel, int stride, int groups)
{
    return ls_conv2d(
        g, name, x, channels,
        &(ls_conv2d_config){
            .kernel = kernel, .stride = stride, .padding = kernel / 2, .groups = groups });
}

static ls_node *resnet_conv(ls_graph *g, const char *name, ls_node *x, int64_t channels, int kernel,
                            int stride)
{
    return grouped_conv(g, name, x, channels, kernel, stride, 1);
}

/* Two ways to bring x to the shape [N,H/stride,W/stride,channels] of f(x). */
static ls_node *subsample(ls_graph *g, ls_node *x, int64_t channels, int stride)
{
    x = ls_avg_pool(g, x, &(ls_pool_config){ .kernel = 1, .stride = stride });
    return ls_pad_channels(g, x, channels);
}

static ls_node *projection(ls_graph *g, ls_node *x, int64_t channels, int stride)
{
    ls_scope_begin(g, "downsample");
    x = ls_batch_norm(g, "1", resnet_conv(g, "0", x, channels, 1, stride), NULL);
    ls_scope_end(g);
    return x;
}

/* Two 3x3 convolutions; or 1x1, 3x3 and 1x1, the last with four times the channels. */
static ls_node *resnet_block(ls_graph *g, ls_node *x, int64_t width, int stride,
                             const resnet_arch *arch, const ls_model_options *options)
{
    const int64_t channels = arch->bottleneck ? 4 * width : width;
    const ls_batch_norm_config last = { .zero_scale = options->zero_init_residual };

    ls_node *y = x;
    if (arch->bottleneck) {
        const int groups = arch->groups ? arch->groups : 1;
        if (arch->group_width) width = width * arch->group_width / 64 * groups;
        y = ls_relu(g, ls_batch_norm(g, "bn1", resnet_conv(g, "conv1", y, width, 1, 1), NULL));
        y = grouped_conv(g, "conv2", y, width, 3, stride, groups);
        y = ls_relu(g, ls_batch_norm(g, "bn2", y, NULL));
        y = ls_batch_norm(g, "bn3", resnet_conv(g, "conv3", y, channels, 1, 1), &last);
    } else {
        y = ls_relu(g, ls_batch_norm(g, "bn1", resnet_conv(g, "conv1", y, width, 3, stride), NULL));
        y = ls_batch_norm(g, "bn2", resnet_conv(g, "conv2", y, channels, 3, 1), &last);
    }

    if (stride != 1 || ls_node_shape(x).dims[3] != channels)
        x = options->parameter_free_shortcuts ? subsample(g, x, channels, stride)
                                              : projection(g, x, channels, stride);
    return ls_relu(g, ls_add(g, y, x));
}

static ls_node *resnet(ls_graph *g, const char *name, ls_node *x, const void *user_options,
                       const resnet_arch *arch)
{
    const ls_model model = {
        .name = name, .n_classes = arch->small_images ? 10 : 1000, .resnet = true, .dropout = -1
    };
    ls_model_options options;
    if (!ls_model_resolve_options(g, &model, user_options, &options)) return NULL;
    const bool small =
        options.stem == LS_STEM_SMALL ||
        (options.stem == LS_STEM_AUTO && (arch->small_images || ls_node_shape(x).dims[1] < 64));

    x = small ? resnet_conv(g, "conv1", x, arch->width, 3, 1)
              : resnet_conv(g, "conv1", x, arch->width, 7, 2);
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    if (!small) x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 3, .stride = 2, .padding = 1 });

    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < arch->blocks[stage]; i++) {
            ls_scope_begin(g, "layer%d.%d", stage + 1, i);
            x = resnet_block(g, x, arch->width << stage, stage > 0 && i == 0 ? 2 : 1, arch,
                             &options);
            ls_scope_end(g);
        }
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), options.n_classes, NULL);
}

/* The models of He et al. 2015: section 4.2, where a net of 6n+2 layers has n blocks a stage, and
 * table 1. */
#define RESNET(name, ...)                                                                          \
    ls_node *ls_##name(ls_graph *graph, ls_node *x, const void *options)                           \
    {                                                                                              \
        return resnet(graph, #name, x, options, &(resnet_arch){ __VA_ARGS__ });                    \
    }
RESNET(resnet20, .width = 16, .blocks = { 3, 3, 3 }, .small_images = true)
RESNET(resnet32, .width = 16, .blocks = { 5, 5, 5 }, .small_images = true)
RESNET(resnet44, .width = 16, .blocks = { 7, 7, 7 }, .small_images = true)
RESNET(resnet56, .width = 16, .blocks = { 9, 9, 9 }, .small_images = true)
RESNET(resnet110, .width = 16, .blocks = { 18, 18, 18 }, .small_images = true)
RESNET(resnet18, .width = 64, .blocks = { 2, 2, 2, 2 })
RESNET(resnet34, .width = 64, .blocks = { 3, 4, 6, 3 })
RESNET(resnet50, .width = 64, .blocks = { 3, 4, 6, 3 }, .bottleneck = true)
RESNET(resnet101, .width = 64, .blocks = { 3, 4, 23, 3 }, .bottleneck = true)
RESNET(resnet152, .width = 64, .blocks = { 3, 8, 36, 3 }, .bottleneck = true)
/* torchvision: width_per_group 128; 32 groups of 4 */
RESNET(wide_resnet50_2, .width = 64, .blocks = { 3, 4, 6, 3 }, .bottleneck = true,
       .group_width = 128)
RESNET(resnext50_32x4d, .width = 64, .blocks = { 3, 4, 6, 3 }, .bottleneck = true, .groups = 32,
       .group_width = 4)
