/* 04_resnet.c: a bundled ResNet on a folder of images, with validation, the best weights kept, and
 * AdamW in place of SGD.
 *
 *     04_resnet                     makes itself folders of striped images
 *     04_resnet TRAIN VAL EPOCHS    TRAIN/<class>/<image>, VAL/<class>/<image> */
#include "stripes.h"
#include <lockstep/models.h>
#include <stdlib.h>

enum { SIDE = 24, BATCH = 32 };

/* Share of the images that the net names rightly. */
static ls_status validate(ls_net *net, ls_loader *loader, double *top1)
{
    double right = 0, lr;
    int64_t n = 0;
    LS_TRY(ls_loader_start(loader, 0));
    for (ls_batch b; ls_loader_next(loader, &b);) {
        LS_TRY(ls_net_evaluate(net, &b));
        LS_TRY(ls_net_metric(net, "top1", &lr));
        right += lr * (double)b.n;
        n += b.n;
    }
    *top1 = right / (double)n;
    return ls_loader_status(loader);
}

static ls_status train(ls_context *ctx, const char *train_dir, const char *val_dir, int epochs,
                       double *best)
{
    ls_dataset *data = ls_image_folder_open(ctx, train_dir);
    const int n_classes = ls_dataset_class_count(data);
    const char *names[1000] = { NULL }; /* validation has to number classes as training does */
    const int n_names = n_classes < 1000 ? n_classes : 1000;
    for (int i = 0; i < n_names; i++) names[i] = ls_dataset_class_name(data, i);
    ls_dataset *val_data = ls_image_folder_open_classes(ctx, val_dir, n_names, names);

    const ls_loader_config augmented = { .batch_size = BATCH,
                                         .workers = 2,
                                         .shuffle = true,
                                         .drop_last = true,
                                         .crop = SIDE,
                                         .random_resized_crop = true,
                                         .scale_min = 0.5f,
                                         .scale_max = 1 };
    ls_loader *loader = ls_loader_open(data, &augmented);
    const ls_loader_config plain = {
        .batch_size = BATCH, .workers = 2, .resize = SIDE, .crop = SIDE
    };
    ls_loader *val = ls_loader_open(val_data, &plain);

    const ls_model_options options = { .n_classes = n_classes };
    const ls_net_config training = { .input = ls_loader_input_spec(loader),
                                     .loss = { LS_LOSS_CROSS_ENTROPY } };
    ls_net *net = ls_net_build(ctx, ls_resnet20, &options, &training);
    ls_optimizer *opt = ls_adamw(net, &(ls_adam_config){ .weight_decay = 0.05f });
    const ls_schedule_config cycle = { .kind = LS_SCHEDULE_ONE_CYCLE,
                                       .lr = 3e-3,
                                       .epochs = epochs,
                                       .steps_per_epoch = ls_loader_step_count(loader) };
    ls_schedule *lr = ls_schedule_open(ctx, &cycle);
    LS_TRY(ls_context_status(ctx));
    for (int64_t i = 0; i < ls_context_warning_count(ctx); i++)
        fprintf(stderr, "warning: %s\n", ls_context_warning(ctx, i));
    printf("%lld parameters on %s\n", (long long)ls_net_parameter_element_count(net),
           ls_context_device(ctx));

    for (int epoch = 0; epoch < epochs; epoch++) {
        double top1 = 0;
        LS_TRY(ls_loader_start(loader, epoch));
        for (ls_batch b; ls_loader_next(loader, &b);)
            LS_TRY(ls_net_step(net, opt, &b, ls_schedule_lr(lr, epoch, b.step)));
        LS_TRY(ls_loader_status(loader));
        LS_TRY(validate(net, val, &top1));
        printf("epoch %d: validation top-1 %.3f\n", epoch + 1, top1);
        if (top1 <= *best) continue;
        *best = top1;
        LS_TRY(ls_checkpoint_save(&(ls_training_state){ .net = net, .loader = loader },
                                  "04_resnet_best"));
    }
    return LS_OK;
}

int main(int argc, char **argv)
{
    const bool own = argc == 4;
    const char *train_dir = own ? argv[1] : "04_resnet_train",
               *val_dir = own ? argv[2] : "04_resnet_val";
    if (!own && (!stripes_folder(train_dir, 0, 96) || !stripes_folder(val_dir, 1000, 16))) return 1;

    ls_context *ctx = ls_context_open(NULL);
    double best = 0;
    const ls_status status = train(ctx, train_dir, val_dir, own ? atoi(argv[3]) : 8, &best);
    if (status != LS_OK)
        fprintf(stderr, "%s: %s\n", ls_status_text(status), ls_context_message(ctx));
    ls_context_close(&ctx);
    return status != LS_OK || (!own && best < 0.9);
}
