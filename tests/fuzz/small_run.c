/* small_run.c: see small_run.h. */
#include "small_run.h"

enum { N_SAMPLES = 4, SIDE = 4, N_CLASSES = 2, BATCH = 2 };

static ls_node *model(ls_graph *g, ls_node *x, const void *unused)
{
    (void)unused;
    x = ls_conv2d(g, "conv", x, 2, &(ls_conv2d_config){ .kernel = 3 });
    x = ls_relu(g, ls_batch_norm(g, "bn", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), N_CLASSES, NULL);
}

ls_training_state small_run_open(ls_context *ctx)
{
    static const uint8_t pixels[N_SAMPLES * SIDE * SIDE * 3] = { 1, 2, 3, 5, 7, 11, 13, 17 };
    static const int32_t labels[N_SAMPLES] = { 0, 1, 0, 1 };
    ls_dataset *data =
        ls_dataset_from_memory(ctx, pixels, LS_SHAPE(N_SAMPLES, SIDE, SIDE, 3), labels, N_CLASSES);
    ls_training_state out = { .loader = ls_loader_open(
                                  data, &(ls_loader_config){ .batch_size = BATCH }) };
    out.net = ls_net_build(ctx, model, NULL,
                           &(ls_net_config){ .input = ls_loader_input_spec(out.loader),
                                             .loss = { LS_LOSS_CROSS_ENTROPY } });
    out.optimizer = ls_sgd(out.net, &(ls_sgd_config){ .momentum = 0.9f });
    out.schedule = ls_schedule_open(
        ctx,
        &(ls_schedule_config){ .kind = LS_SCHEDULE_REDUCE_ON_PLATEAU, .lr = 0.1, .gamma = 0.5 });
    return out;
}
