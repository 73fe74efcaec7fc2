/* bottlenecks.h: a small net with all that fusing batch norms with convolutions is about: of its
 * eight norms, each after a convolution, four are applied by the convolution after them. All
 * channels but the images' are multiples of 8, which cuDNN wants. */
#ifndef LS_TESTS_NN_BOTTLENECKS_H
#define LS_TESTS_NN_BOTTLENECKS_H

#include <lockstep/lockstep.h>

enum { BOTTLENECK_BATCH = 4, BOTTLENECK_SIDE = 6, BOTTLENECK_CLASSES = 4 };
static const ls_spec bottleneck_images = {
    LS_F32, { 4, { BOTTLENECK_BATCH, BOTTLENECK_SIDE, BOTTLENECK_SIDE, 3 } }
};

static const ls_conv2d_config kernel3 = { .kernel = 3, .padding = 1 },
                              kernel3_by2 = { .kernel = 3, .padding = 1, .stride = 2 },
                              kernel1_by2 = { .kernel = 1, .stride = 2 };

/* "i.conv", "i.bn" */
static inline ls_node *conv_norm(ls_graph *g, int i, ls_node *x, int64_t channels,
                                 const ls_conv2d_config *config)
{
    ls_scope_begin(g, "%d", i);
    x = ls_batch_norm(g, "bn", ls_conv2d(g, "conv", x, channels, config), NULL);
    ls_scope_end(g);
    return x;
}

/* options: the narrow channels, an int64_t; NULL: 8. */
static inline ls_node *bottlenecks(ls_graph *g, ls_node *x, const void *options)
{
    const int64_t narrow = options ? *(const int64_t *)options : 8, wide = 2 * narrow;
    x = ls_relu(g, conv_norm(g, 0, x, narrow, &kernel3));
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2 });
    for (int i = 1; i < 6; i += 4) {
        ls_node *y = ls_relu(g, conv_norm(g, i, x, narrow, NULL));
        y = ls_relu(g, conv_norm(g, i + 1, y, narrow, i == 1 ? &kernel3_by2 : &kernel3));
        y = conv_norm(g, i + 2, y, wide, NULL);
        x = ls_relu(g, ls_add(g, y, i == 1 ? conv_norm(g, i + 3, x, wide, &kernel1_by2) : x));
    }
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), BOTTLENECK_CLASSES, NULL);
}

/* Returns a batch in ctx, which owns its tensors. */
static inline ls_batch bottleneck_batch(ls_context *ctx)
{
    static const int32_t labels[BOTTLENECK_BATCH] = { 2, 0, 3, 1 };
    static float pixels[BOTTLENECK_BATCH * BOTTLENECK_SIDE * BOTTLENECK_SIDE * 3];
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        pixels[i] = (float)(i * 2654435761u % 1024) / 256 - 2;
    return (ls_batch){ .images = ls_tensor_from_data(ctx, LS_F32, bottleneck_images.shape, pixels),
                       .labels =
                           ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(BOTTLENECK_BATCH), labels),
                       .n = BOTTLENECK_BATCH };
}

#endif
