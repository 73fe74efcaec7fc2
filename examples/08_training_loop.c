/* 08_training_loop.c: the training loop written by hand, for programs that do more in a step than
 * ls_trainer_run does.
 *
 *     08_training_loop           makes itself a folder of striped images
 *     08_training_loop DIR       DIR/<class>/<image>, images of at least 24x24 */
#include "stripes.h"

enum { EPOCHS = 10 };

/* A model is a C function from node to node. x [N,24,24,3] -> [N,classes] */
static ls_node *tiny(ls_graph *g, ls_node *x, const void *options)
{
    const int *n_classes = options;
    x = ls_conv2d(g, "conv1", x, 16, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_global_avg_pool(g, x);
    return ls_linear(g, "fc", x, *n_classes, NULL);
}

static ls_status train(ls_context *ctx, const char *dir, double *top1)
{
    ls_dataset *data = ls_image_folder_open(ctx, dir);
    const int n_classes = ls_dataset_class_count(data);
    const ls_loader_config loading = { .batch_size = 32,
                                       .workers = 2,
                                       .shuffle = true,
                                       .crop = 24,
                                       .crop_padding = 2,
                                       .flip_probability = 0.5f };
    ls_loader *loader = ls_loader_open(data, &loading);
    const ls_net_config training = { .input = ls_loader_input_spec(loader),
                                     .loss = { LS_LOSS_CROSS_ENTROPY, .label_smoothing = 0.05f } };
    ls_net *net = ls_net_build(ctx, tiny, &n_classes, &training);
    const ls_sgd_config descent = { .momentum = 0.9f, .weight_decay = 5e-4f };
    ls_optimizer *opt = ls_sgd(net, &descent);
    const ls_schedule_config cosine = { .kind = LS_SCHEDULE_COSINE,
                                        .lr = 0.1,
                                        .epochs = EPOCHS,
                                        .warmup_epochs = 1,
                                        .steps_per_epoch = ls_loader_step_count(loader) };
    ls_schedule *lr = ls_schedule_open(ctx, &cosine);
    LS_TRY(ls_context_status(ctx)); /* all of the above went well */

    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        double right = 0;
        int64_t n = 0;
        LS_TRY(ls_loader_start(loader, epoch));
        for (ls_batch b; ls_loader_next(loader, &b);) { /* b is borrowed until the next call */
            LS_TRY(ls_net_step(net, opt, &b, ls_schedule_lr(lr, epoch, b.step)));
            LS_TRY(ls_net_metric(net, "top1", top1));
            right += *top1 * (double)b.n;
            n += b.n;
        }
        LS_TRY(ls_loader_status(loader));
        *top1 = right / (double)n;
        printf("epoch %d: top-1 %.3f\n", epoch + 1, *top1);
    }
    return ls_checkpoint_save(&(ls_training_state){ net, opt, lr, loader, .epoch = EPOCHS },
                              "08_training_loop");
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "08_training_loop_images";
    if (argc < 2 && !stripes_folder(dir, 0, 160)) return 1;

    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 42 });
    double top1 = 0;
    const ls_status status = train(ctx, dir, &top1);
    if (status != LS_OK)
        fprintf(stderr, "%s: %s\n", ls_status_text(status), ls_context_message(ctx));
    ls_context_close(&ctx); /* closes everything that was opened through it */
    return status != LS_OK || (argc < 2 && top1 < 0.9);
}
