/* 02_train.c: a whole training program: a folder of images, a small network, SGD with a cosine
 * schedule, and a run's folder with metrics and checkpoints. Ctrl-C saves and stops; the same
 * command then resumes.
 *
 *     02_train           makes itself a folder of striped images
 *     02_train DIR       DIR/<class>/<image>, images of at least 24x24 */
#include "stripes.h"

#include <signal.h>

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

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    stopped = number;
}

static ls_status print_epoch(void *user, const ls_event *event)
{
    (void)user;
    if (event->kind == LS_EVENT_EPOCH)
        printf("epoch %d: loss %.3f, top-1 %.3f\n", (int)event->epoch + 1, event->averages.loss,
               event->averages.top1);
    return LS_OK;
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
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .weight_decay = 5e-4f });
    const ls_schedule_config cosine = { .kind = LS_SCHEDULE_COSINE,
                                        .lr = 0.1,
                                        .epochs = EPOCHS,
                                        .warmup_epochs = 1,
                                        .steps_per_epoch = ls_loader_step_count(loader) };
    ls_schedule *lr = ls_schedule_open(ctx, &cosine);

    struct stat there;
    const ls_trainer_config config = { .epochs = EPOCHS,
                                       .dir = "02_train_run",
                                       .resume = stat("02_train_run/last.safetensors", &there) == 0,
                                       .stop = &stopped,
                                       .on_event = print_epoch };
    ls_trainer *trainer = ls_trainer_open(net, opt, lr, loader, &config);
    LS_TRY(ls_context_status(ctx)); /* all of the above went well */
    LS_TRY(ls_trainer_run(trainer, NULL));
    *top1 = ls_trainer_get_state(trainer).best;
    return LS_OK;
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "02_train_images";
    if (argc < 2 && !stripes_folder(dir, 0, 160)) return 1;

    signal(SIGINT, stop);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 42 });
    double top1 = 0;
    const ls_status status = train(ctx, dir, &top1);
    if (status != LS_OK)
        fprintf(stderr, "%s: %s\n", ls_status_text(status), ls_context_message(ctx));
    ls_context_close(&ctx); /* closes everything that was opened through it */
    return status != LS_OK || (argc < 2 && !stopped && top1 < 0.9);
}
