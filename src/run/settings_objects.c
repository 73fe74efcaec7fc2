/* settings_objects.c: loaders, optimizer and schedule made from the settings. */
#include "checkpoint/model_info.h"
#include "run/settings.h"
#include <math.h>

/* For ls_model_options; 0 for the model's default, which checkpoints do not store. */
static float dropout_of(const ls__run_settings *r, const ls_model *model)
{
    const double of_model = model->dropout;
    if (of_model < 0 || r->dropout == of_model) return 0;
    return r->dropout > 0 ? (float)r->dropout : LS_ZERO;
}

ls_model_info ls__run_model_info(const ls__run_settings *r, const ls_model *model)
{
    ls_model_info info = {
        .model = model,
        .options = { .dropout = dropout_of(r, model),
                     .stem = (ls_stem)r->stem,
                     .zero_init_residual = r->zero_init_residual,
                     .parameter_free_shortcuts = r->parameter_free_shortcuts },
        .image_size = r->image_size.height,
        .image_width = r->image_size.width,
        .resize_mode = (ls_resize_mode)r->resize_mode,
        .alpha = (ls_alpha)r->alpha,
        .depth = (int)r->depth,
        .honour_exif = r->exif,
        .decode = (ls_decode)r->decode,
        .loss = ls__run_loss(r),
    };
    ls_model_info_complete(&info);
    return info;
}

/* The size before the crop. A padded or stretched image is so large that few random crops are
 * enlarged: the smallest one has the area scale_min. */
static int64_t train_resize(const ls__run_settings *r)
{
    enum { MAX_ENLARGED = 2 };
    const bool small = ls__run_is_small(r);
    const int64_t size = r->image_size.height;
    if (small || r->resize_mode == LS_RESIZE_CROP) return small ? size : 0;
    return (int64_t)lround((double)size * fmin(1 / sqrt(r->scale_min), MAX_ENLARGED));
}

ls_loader_config ls__run_train_loader_config(const ls__run_settings *r)
{
    const bool small = ls__run_is_small(r);
    ls_loader_config config = {
        .batch_size = r->batch,
        .workers = (int)r->workers,
        .shuffle = true,
        .sampler = (ls_sampler)r->sampler,
        .drop_last = true,
        .honour_exif = r->exif,
        .decode = (ls_decode)r->decode,
        .on_bad_image = (ls_bad_image)r->on_bad_image,
        .max_pixels = r->max_pixels,
        .grey = r->grey,
        .seeding = (ls_seeding)r->seeding,
        .alpha = (ls_alpha)r->alpha,
        .depth = (int)r->depth,
        .resize = train_resize(r),
        .resize_mode = (ls_resize_mode)r->resize_mode,
        .crop = r->image_size.height,
        .crop_width = r->image_size.width,
        .crop_padding = r->crop_padding,
        .random_resized_crop = !small,
        .scale_min = (float)r->scale_min,
        .scale_max = small ? 0 : 1,
        .flip_probability = (float)r->flip,
        .vertical_flip_probability = (float)r->vertical_flip,
        .auto_augment = (ls_auto_augment)r->auto_augment,
    };
#define COPY_NUMBER(name) config.name = (float)r->name;
    LS__LOADER_NUMBERS(COPY_NUMBER)
#undef COPY_NUMBER
    return config;
}

ls_loader_config ls__run_val_loader_config(const ls__run_settings *r, const ls_model_info *info)
{
    ls_loader_config config = ls_model_info_loader_config(info, r->batch);
    config.workers = (int)r->workers;
    config.on_bad_image = (ls_bad_image)r->on_bad_image;
    config.max_pixels = r->max_pixels;
    return config;
}

/* The fields that the configs of all optimizers have. */
#define COMMON_FIELDS(r, list)                                                                     \
    .weight_decay_scope = LS_WEIGHT_DECAY_WEIGHTS, .groups = (list)->n > 0 ? (list)->items : NULL, \
    .n_groups = (list)->n, .clip_norm = (float)(r)->clip_norm,                                     \
    .clip_value = (float)(r)->clip_value, .ema_decay = (float)(r)->ema_decay,                      \
    .accumulate = (r)->accumulate

const char *ls__run_metric_name(int metric)
{
#define NAME(NAME, word) word,
    static const char *const names[] = { LS__METRICS(NAME) };
#undef NAME
    return names[metric];
}

const char *ls__run_chosen_metric(const ls__run_settings *r)
{
    const bool is_default = r->loss != LS__LOSS_CROSS_ENTROPY || r->metric == LS__METRIC_TOP1;
    return is_default ? NULL : ls__run_metric_name(r->metric);
}

ls_optimizer *ls__run_open_optimizer(const ls__run_settings *r, ls_net *net)
{
    const float momentum = (float)r->momentum, weight_decay = (float)r->weight_decay;
    ls__parameter_groups groups;
    if (!ls__parameter_groups_read(ls_net_context(net), r->groups, &groups)) return NULL;
    const ls_sgd_config sgd = { .momentum = momentum,
                                .nesterov = r->nesterov,
                                .weight_decay = weight_decay,
                                COMMON_FIELDS(r, &groups) };
    const ls_adam_config adam = { .weight_decay = weight_decay > 0 ? weight_decay : LS_ZERO,
                                  COMMON_FIELDS(r, &groups) };
    const ls_rmsprop_config rmsprop = { .momentum = momentum,
                                        .weight_decay = weight_decay,
                                        COMMON_FIELDS(r, &groups) };
    switch ((ls__run_optimizer)r->optimizer) {
    case LS__OPT_SGD: return ls_sgd(net, &sgd);
    case LS__OPT_ADAM: return ls_adam(net, &adam);
    case LS__OPT_ADAMW: return ls_adamw(net, &adam);
    case LS__OPT_RMSPROP: return ls_rmsprop(net, &rmsprop);
    }
    return NULL;
}

ls_schedule *ls__run_open_schedule(const ls__run_settings *r, ls_context *ctx,
                                   int64_t steps_per_epoch)
{
    const bool plateau = r->schedule == LS_SCHEDULE_REDUCE_ON_PLATEAU;
    const bool step = r->schedule == LS_SCHEDULE_STEP;
    const bool multi_step = r->schedule == LS_SCHEDULE_MULTI_STEP;
    const bool restarts = r->schedule == LS_SCHEDULE_COSINE_RESTARTS;
    const bool has_gamma = step || multi_step || plateau || r->schedule == LS_SCHEDULE_EXPONENTIAL;
    const int64_t updates =
        (steps_per_epoch + ls__run_batches_per_update(r) - 1) / ls__run_batches_per_update(r);
    int milestones[LS__MAX_MILESTONES];
    const int n_milestones = multi_step ? ls__run_milestones(ctx, r->milestones, milestones) : 0;
    const ls_schedule_config config = {
        .kind = (ls_schedule_kind)r->schedule,
        .lr = r->lr,
        .min_lr = r->min_lr,
        .gamma = has_gamma ? r->gamma : 0,
        .step_size = step ? r->step_size : 0,
        .milestones = n_milestones > 0 ? milestones : NULL,
        .n_milestones = n_milestones,
        .t_0 = restarts ? r->restart_epochs : 0,
        .t_mult = restarts ? r->restart_mult : 0,
        .power = r->schedule == LS_SCHEDULE_POLYNOMIAL ? r->power : 0,
        .epochs = ls__run_can_be_extended(r) ? 0 : r->epochs,
        .maximize = plateau && !r->plateau_loss,
        .steps_per_epoch = updates,
        .warmup_epochs = r->warmup_epochs,
    };
    return ls_schedule_open(ctx, &config);
}
