/* config.c: checks a loader's configuration and fills in defaults. */
#include "data/loader/loader.h"

#include "base/error.h"
#include "base/text.h"
#include "comm/comm.h"
#include <math.h>
#include <stdio.h>

enum { MAX_SIDE = 1 << 16, MAX_WORKERS = 1024, MAX_PREFETCH = 1024, DEFAULT_PREFETCH = 4 };
/* Of a factor's distance from 1. Beyond it images are black or white. */
enum { MAX_JITTER = 255 };
/* Of mixup and cutmix. Below the least one, nearly all lambdas are 0 or 1. */
enum { LARGEST_ALPHA = 1000 };
static const float LEAST_ALPHA = 0.001f;

const char *ls__sample_text(const ls_dataset *dataset, int64_t sample,
                            char buffer[LS__SAMPLE_TEXT_SIZE])
{
    const char *path = ls_dataset_sample_path(dataset, sample);
    if (path)
        ls__snprintf(buffer, LS__SAMPLE_TEXT_SIZE, "image '%s'", path);
    else
        snprintf(buffer, LS__SAMPLE_TEXT_SIZE, "sample %lld", (long long)sample);
    return buffer;
}

static ls_status check_ranges(ls_context *ctx, const ls_loader_config *c)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } ranges[] = {
        { "batch_size", c->batch_size, 1, 1 << 24 },
        { "workers", c->workers, 0, MAX_WORKERS },
        { "prefetch", c->prefetch, 0, MAX_PREFETCH },
        { "on_bad_image", c->on_bad_image, LS_BAD_IMAGE_FAIL, LS_BAD_IMAGE_BLANK },
        { "decode", c->decode, LS_DECODE_EXACT, LS_DECODE_FAST },
        { "sampler", c->sampler, LS_SAMPLER_ALL, LS_SAMPLER_BALANCED },
        { "seeding", c->seeding, LS_SEED_BY_SAMPLE, LS_SEED_BY_WORKER },
        { "resize", c->resize, 0, MAX_SIDE },
        { "resize_mode", c->resize_mode, LS_RESIZE_CROP, LS_RESIZE_STRETCH },
        { "crop", c->crop, 0, MAX_SIDE },
        { "crop_width", c->crop_width, 0, MAX_SIDE },
        { "crop_padding", c->crop_padding, 0, MAX_SIDE },
        { "max_pixels", c->max_pixels, 0, LS__MAX_PIXELS },
        { "alpha", c->alpha, LS_ALPHA_WHITE, LS_ALPHA_IGNORE },
        { "depth", c->depth, c->depth ? 9 : 0, 16 },
        { "auto_augment", c->auto_augment, LS_AUTO_AUGMENT_NONE, LS_AUTO_AUGMENT_RAND },
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return ls__fail(ctx, LS_ERR_INVALID,
                            "ls_loader_open: %s is %lld, expected %lld to %lld", ranges[i].name,
                            (long long)ranges[i].value, (long long)ranges[i].low,
                            (long long)ranges[i].high);
    }
    const struct {
        const char *name;
        float value, high;
    } numbers[] = {
        { "flip_probability", c->flip_probability, 1 },
        { "vertical_flip_probability", c->vertical_flip_probability, 1 },
        { "brightness", c->brightness, MAX_JITTER },
        { "contrast", c->contrast, MAX_JITTER },
        { "saturation", c->saturation, MAX_JITTER },
        { "hue", c->hue, 0.5f },
        { "random_erase", c->random_erase, 1 },
        { "mixup_alpha", c->mixup_alpha, LARGEST_ALPHA },
        { "cutmix_alpha", c->cutmix_alpha, LARGEST_ALPHA },
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!(numbers[i].value >= 0 && numbers[i].value <= numbers[i].high))
            return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: %s is %g, expected 0 to %g",
                            numbers[i].name, (double)numbers[i].value, (double)numbers[i].high);
    }
    return LS_OK;
}

/* How files are decoded can't be chosen where the samples are pixels. */
static ls_status check_decoding(const ls_loader *loader)
{
    const ls_loader_config *c = &loader->config;
    const ls_dataset *source = ls__dataset_whole(loader->dataset);
    const ls__pack *pack = source->pack;
    ls_context *ctx = loader->owned.ctx;
    const int depth = c->depth > 0 ? c->depth : 16;
    const char *pixels = source->images      ? "data in memory are"
                         : source->callbacks ? "callbacks give"
                                             : NULL;
    const char *field = c->decode == LS_DECODE_FAST  ? "decode is fast"
                        : c->alpha == LS_ALPHA_BLACK ? "alpha is black"
                        : depth != 16                ? "depth is set"
                                                     : NULL;
    if (pixels && field)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: %s, but the %s pixels, not files",
                        field, pixels);
    if (!pack || pack->form != LS__PACK_PIXELS) return LS_OK;
    if (c->decode == LS_DECODE_FAST)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: decode is fast, but the pack holds pixels, not files");
    const bool same_alpha = c->alpha == pack->alpha || !ls__dataset_may_have_alpha(source);
    if (same_alpha && depth == pack->depth) return LS_OK;
    static const char *const alphas[] = { "white", "black", "ignore" };
    return ls__fail(
        ctx, LS_ERR_INVALID,
        "ls_loader_open: alpha is %s and depth %d, but the pixels of '%.*s' were decoded "
        "with alpha %s and depth %d",
        alphas[c->alpha], depth, (int)source->root_length, source->paths[0], alphas[pack->alpha],
        pack->depth);
}

/* Fields that would have no effect, and ratios and scales that are no intervals. */
static ls_status check_effects(const ls_loader *loader)
{
    const ls_loader_config *c = &loader->config;
    const bool in_memory = ls__dataset_whole(loader->dataset)->images != NULL;
    const bool box = c->random_resized_crop;
    const bool balanced = c->sampler == LS_SAMPLER_BALANCED;
    const bool has_scale = c->scale_min != 0 || c->scale_max != 0;
    const bool has_ratio = c->ratio_min != 0 || c->ratio_max != 0;
    const bool grey = loader->dataset->channels == 1;
    const float alphas[] = { c->mixup_alpha, c->cutmix_alpha };
    const struct {
        bool applies;
        const char *text;
    } errors[] = {
        { balanced && !c->shuffle, "sampler is balanced, which requires shuffle" },
        { balanced && loader->dataset->n_classes == 0,
          "sampler is balanced, but the samples have no labels" },
        { loader->mixes && ls_dataset_target_count(loader->dataset) > 0,
          "mixup or cutmix is set, but the samples have targets of their own" },
        { loader->mixes && c->batch_size == 1,
          "mixup or cutmix is set, but a batch of one image has no other to mix it with" },
        { loader->mixes && loader->dataset->n_classes == 0,
          "mixup or cutmix is set, but the samples have no labels" },
        { c->crop_padding > 0 && c->crop == 0, "crop_padding without crop" },
        { c->crop_width > 0 && c->crop == 0, "crop_width without crop" },
        { c->resize_mode != LS_RESIZE_CROP && c->resize == 0, "resize_mode without resize" },
        { has_scale && !box, "scale without random_resized_crop" },
        { has_ratio && !box, "ratio without random_resized_crop" },
        { box && c->crop == 0, "random_resized_crop without crop" },
        { box && c->crop_padding > 0, "random_resized_crop and crop_padding exclude each other" },
        { c->max_pixels > 0 && in_memory,
          "max_pixels is set, but the data in memory are pixels, not files" },
        { c->saturation > 0 && grey, "saturation is set, but the images have one channel" },
        { c->hue > 0 && grey, "hue is set, but the images have one channel" },
    };
    ls_context *ctx = loader->owned.ctx;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].applies)
            return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: %s", errors[i].text);
    for (int i = 0; i < 2; i++)
        if (alphas[i] > 0 && alphas[i] < LEAST_ALPHA)
            return ls__fail(ctx, LS_ERR_INVALID,
                            "ls_loader_open: %s_alpha is %g, expected 0 or %g to %d",
                            i == 0 ? "mixup" : "cutmix", (double)alphas[i], (double)LEAST_ALPHA,
                            (int)LARGEST_ALPHA);
    if (has_scale && !(c->scale_min >= 0 && c->scale_max > 0 && c->scale_min <= c->scale_max &&
                       c->scale_max <= 1))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: scale is %g to %g, expected 0 <= min <= max <= 1",
                        (double)c->scale_min, (double)c->scale_max);
    if (has_ratio &&
        !(c->ratio_min > 0 && c->ratio_min <= c->ratio_max && c->ratio_max <= MAX_SIDE))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: ratio is %g to %g, expected min <= max",
                        (double)c->ratio_min, (double)c->ratio_max);
    return LS_OK;
}

/* ImageNet's values; of one channel, their average over the three. */
static ls_status complete_normalisation(ls_context *ctx, ls_loader_config *c, int channels)
{
    static const float imagenet_mean[3] = { 0.485f, 0.456f, 0.406f };
    static const float imagenet_std[3] = { 0.229f, 0.224f, 0.225f };
    bool given = false;
    for (int i = 0; i < 3; i++) given = given || c->mean[i] != 0 || c->std[i] != 0;
    for (int i = 0; i < 3 && !given; i++) {
        c->mean[i] = channels == 3 ? imagenet_mean[i] : 0.449f;
        c->std[i] = channels == 3 ? imagenet_std[i] : 0.226f;
    }
    for (int i = 0; i < channels; i++) {
        if (!isfinite(c->mean[i]) || !(c->std[i] > 0) || !isfinite(c->std[i]))
            return ls__fail(
                ctx, LS_ERR_INVALID,
                "ls_loader_open: channel %d has mean %g, std %g; expected a std above 0", i,
                (double)c->mean[i], (double)c->std[i]);
    }
    return LS_OK;
}

/* Without a crop all images have the size of the first readable one. */
static ls_status find_size(ls_loader *loader)
{
    ls_context *ctx = loader->owned.ctx;
    ls__transform *transform = &loader->transform;
    if (transform->crop > 0) {
        transform->height = transform->crop;
        transform->width = transform->crop_width;
        const int64_t box_width = transform->resize * transform->width / transform->height;
        if (transform->resize == 0 || (box_width > 0 && box_width <= MAX_SIDE)) return LS_OK;
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: resize %lld with a crop of %lld x %lld (height x width) "
                        "gives a width of %lld, expected 1 to %d",
                        (long long)transform->resize, (long long)transform->height,
                        (long long)transform->width, (long long)box_width, MAX_SIDE);
    }
    ls__decoder decoder = { .ctx = ctx,
                            .max_pixels = loader->config.max_pixels,
                            .alpha = loader->config.alpha,
                            .depth = loader->config.depth };
    ls_status status = LS_ERR_DATA;
    int64_t sample = 0;
    for (; sample < loader->dataset->n_samples; sample++) {
        status = ls__dataset_probe(loader->dataset, sample, loader->config.honour_exif, &decoder);
        if (status == LS_OK) status = ls__dataset_decode(loader->dataset, sample, NULL, &decoder);
        if (!ls__loader_is_unusable(loader, sample, status) ||
            loader->config.on_bad_image == LS_BAD_IMAGE_FAIL)
            break;
    }
    if (status == LS_OK) {
        transform->height = decoder.height;
        transform->width = decoder.width;
        ls__transformed_size(transform, &transform->height, &transform->width, &(ls__window){ 0 });
    } else if (sample == loader->dataset->n_samples) {
        ls__fail(ctx, status, "ls_loader_open: none of the %lld images can be read",
                 (long long)sample);
    } else {
        char text[LS__SAMPLE_TEXT_SIZE];
        ls__fail(ctx, status, "ls_loader_open: %s: %s",
                 ls__sample_text(loader->dataset, sample, text), decoder.reason);
    }
    ls__decoder_free(&decoder);
    return status;
}

ls_status ls__loader_configure(ls_loader *loader, const ls_loader_config *config)
{
    ls_context *ctx = loader->owned.ctx;
    if (!config) return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: no configuration");
    loader->config = *config;
    ls_loader_config *c = &loader->config;
    LS_TRY(check_ranges(ctx, c));
    if (ctx->comm && c->seeding == LS_SEED_BY_WORKER)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "ls_loader_open: seeding by worker, with %d ranks: which worker loads an "
                        "image would depend on their number",
                        ctx->comm->n_ranks);
    if (c->on_bad_image == LS_BAD_IMAGE_BLANK &&
        (loader->dataset->n_classes > 0 || ls_dataset_target_count(loader->dataset) > 0))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: LS_BAD_IMAGE_BLANK is for datasets without labels and "
                        "targets");
    loader->mixes = c->mixup_alpha > 0 || c->cutmix_alpha > 0;
    LS_TRY(check_effects(loader));
    LS_TRY(check_decoding(loader));
    loader->n_targets =
        loader->mixes ? loader->dataset->n_classes : ls_dataset_target_count(loader->dataset);
    c->grey = c->grey && loader->dataset->channels == 3;
    loader->channels = c->grey ? 1 : loader->dataset->channels;
    LS_TRY(complete_normalisation(ctx, c, loader->channels));
    const int64_t n = loader->dataset->n_samples;
    loader->n_steps = n / c->batch_size + (n % c->batch_size != 0 && !c->drop_last);
    if (loader->n_steps == 0)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: drop_last leaves no batch of %lld samples in batches of "
                        "%lld",
                        (long long)n, (long long)c->batch_size);
    if (c->prefetch == 0) c->prefetch = DEFAULT_PREFETCH;
    if (c->max_pixels == 0) c->max_pixels = LS_DEFAULT_MAX_PIXELS;
    const bool default_scale = c->scale_max == 0, default_ratio = c->ratio_max == 0;
    loader->transform = (ls__transform){
        .seed = ctx->config.seed,
        .decode = c->decode,
        .resize = c->resize,
        .resize_mode = c->resize_mode,
        .crop = c->crop,
        .crop_width = c->crop_width > 0 ? c->crop_width : c->crop,
        .padding = c->crop_padding,
        .random_resized_crop = c->random_resized_crop,
        .scale_min = default_scale ? 0.08 : (double)c->scale_min,
        .scale_max = default_scale ? 1 : (double)c->scale_max,
        .ratio_min = default_ratio ? 3.0 / 4 : (double)c->ratio_min,
        .ratio_max = default_ratio ? 4.0 / 3 : (double)c->ratio_max,
        .flip = c->flip_probability,
        .vertical_flip = c->vertical_flip_probability,
        .augment = c,
    };
    for (int i = 0; i < loader->dataset->channels; i++) {
        const float mean = c->mean[c->grey ? 0 : i]; /* grey is made of the erased colours, too */
        const double value = floor((double)mean * 255 + 0.5);
        loader->transform.fill[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
    LS_TRY(ls__loader_find_missing(loader));
    return find_size(loader);
}

void ls__loader_settings(const ls_loader *loader,
                         void (*put)(void *user, const char *name, double value), void *user)
{
    const ls_loader_config *c = &loader->config;
    const ls__transform *t = &loader->transform;
    const bool random_size = t->random_resized_crop;
    const bool by_worker = c->seeding == LS_SEED_BY_WORKER;
    /* Runs of versions that ignored alpha have neither of its settings. */
    const bool has_alpha = ls__dataset_may_have_alpha(loader->dataset);
    const struct {
        const char *name;
        double value;
    } all[] = { { "batch", (double)c->batch_size },
                { "shuffle", c->shuffle },
                { "sampler_balanced", c->sampler == LS_SAMPLER_BALANCED },
                { "drop_last", c->drop_last },
                { "honour_exif", c->honour_exif },
                { "decode_fast", c->decode == LS_DECODE_FAST },
                { "max_pixels",
                  c->max_pixels == LS_DEFAULT_MAX_PIXELS ? 0 : (double)c->max_pixels },
                { "seeding_by_worker", by_worker },
                { "workers", by_worker ? c->workers : 0 },
                { "grey", c->grey },
                { "alpha_white", has_alpha && c->alpha == LS_ALPHA_WHITE },
                { "alpha_black", has_alpha && c->alpha == LS_ALPHA_BLACK },
                { "depth", c->depth == 16 ? 0 : c->depth },
                { "resize", (double)c->resize },
                { "resize_pad", c->resize_mode == LS_RESIZE_PAD },
                { "resize_stretch", c->resize_mode == LS_RESIZE_STRETCH },
                { "height", (double)t->height },
                { "width", (double)t->width },
                { "crop_padding", (double)c->crop_padding },
                { "random_resized_crop", random_size },
                { "scale_min", random_size ? ls__shortest((float)t->scale_min) : 0 },
                { "scale_max", random_size ? ls__shortest((float)t->scale_max) : 0 },
                { "ratio_min", random_size ? ls__shortest((float)t->ratio_min) : 0 },
                { "ratio_max", random_size ? ls__shortest((float)t->ratio_max) : 0 },
                { "flip", ls__shortest(c->flip_probability) },
                { "vertical_flip", ls__shortest(c->vertical_flip_probability) },
                { "auto_augment", (double)c->auto_augment },
                { "brightness", ls__shortest(c->brightness) },
                { "contrast", ls__shortest(c->contrast) },
                { "saturation", ls__shortest(c->saturation) },
                { "hue", ls__shortest(c->hue) },
                { "random_erase", ls__shortest(c->random_erase) },
                { "mixup_alpha", ls__shortest(c->mixup_alpha) },
                { "cutmix_alpha", ls__shortest(c->cutmix_alpha) } };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].value != 0) put(user, all[i].name, all[i].value);
}
