/* small_net.h: a net of 8x8 images for tests of nets, and data for it. */
#ifndef LS_TESTS_NN_SMALL_NET_H
#define LS_TESTS_NN_SMALL_NET_H

#include "../suite.h"
#include <lockstep/lockstep.h>

static inline ls_node *small(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_relu(g, ls_conv2d(g, "conv2", x, 16, &(ls_conv2d_config){ .kernel = 3, .stride = 2 }));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), 10, NULL);
}

static inline ls_net_config small_config(int64_t batch)
{
    return (
        ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(batch, 8, 8, 3) }, .n_classes = 10 },
                        .loss = { LS_LOSS_CROSS_ENTROPY, .label_smoothing = 0.1f } };
}

typedef struct data {
    ls_tensor *images, *labels;
    ls_batch batch;
} data;

static inline data make_data(ls_context *ctx, int64_t n, int64_t size)
{
    data d = { ls_tensor_open(ctx, LS_U8, LS_SHAPE(n, size, size, 3)),
               ls_tensor_open(ctx, LS_I32, LS_SHAPE(n)),
               { 0 } };
    ck_assert_msg(d.images && d.labels, "%s", ls_context_message(ctx));
    uint8_t *pixels = ls_tensor_data(d.images);
    for (int64_t i = 0; i < ls_tensor_element_count(d.images); i++)
        pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int64_t i = 0; i < n; i++) ((int32_t *)ls_tensor_data(d.labels))[i] = (int32_t)(i % 10);
    d.batch = (ls_batch){ .images = d.images, .labels = d.labels, .n = n };
    return d;
}

#endif
