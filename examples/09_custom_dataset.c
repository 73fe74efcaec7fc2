/* 09_custom_dataset.c: a dataset whose images a program makes, when the loader's threads request
 * them. A program that reads a database or a format of its own does the same.
 *
 *     09_custom_dataset */
#include "stripes.h"

enum { EPOCHS = 12, N_IMAGES = 600 };

static int label(void *user, int64_t sample)
{
    (void)user;
    return (int)(sample % STRIPES_CLASSES);
}

/* Several threads call it at once, so it changes nothing but the image. */
static ls_status load(void *user, int64_t sample, ls_image_writer *out)
{
    const int64_t *first = user;
    uint8_t *pixels = ls_image_writer_reserve(out, STRIPES_SIDE, STRIPES_SIDE);
    if (pixels) stripes_draw(label(NULL, sample), *first + sample, pixels);
    return LS_OK;
}

/* x [N,24,24,3] -> [N,3] */
static ls_node *tiny(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 16, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), STRIPES_CLASSES, NULL);
}

static ls_status train(ls_context *ctx, ls_averages *result)
{
    int64_t first = 0;
    ls_dataset *all =
        ls_dataset_from_callbacks(ctx, &(ls_dataset_callbacks){ .sample_count = N_IMAGES,
                                                                .n_classes = STRIPES_CLASSES,
                                                                .classes = stripes_names,
                                                                .label = label,
                                                                .load = load,
                                                                .user = &first });
    ls_dataset *train_data, *val_data;
    LS_TRY(ls_dataset_split(all, 0.2, 0, &train_data, &val_data));
    ls_loader *loader = ls_loader_open(train_data, &(ls_loader_config){ .batch_size = 32,
                                                                        .workers = 2,
                                                                        .shuffle = true,
                                                                        .flip_probability = 0.5f });
    ls_loader *val =
        ls_loader_open(val_data, &(ls_loader_config){ .batch_size = 32, .workers = 2 });
    ls_net *net = ls_net_build(ctx, tiny, NULL,
                               &(ls_net_config){ .input = ls_loader_input_spec(loader),
                                                 .loss = { LS_LOSS_CROSS_ENTROPY } });
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f });
    LS_TRY(ls_context_status(ctx)); /* all of the above went well */

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        LS_TRY(ls_loader_start(loader, epoch));
        for (ls_batch b; ls_loader_next(loader, &b);) LS_TRY(ls_net_step(net, opt, &b, 0.03));
        LS_TRY(ls_loader_status(loader));
    }
    LS_TRY(ls_evaluate(net, val, NULL, result));
    ls_loader_close(&loader); /* before `first` ends */
    ls_loader_close(&val);
    return LS_OK;
}

int main(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 42 });
    ls_averages result = { 0 };
    const ls_status status = train(ctx, &result);
    if (status == LS_OK)
        printf("%d validation images: top-1 %.3f\n", (int)result.n_images, result.top1);
    else
        fprintf(stderr, "%s: %s\n", ls_status_text(status), ls_context_message(ctx));
    ls_context_close(&ctx);
    return status != LS_OK || result.top1 < 0.9;
}
