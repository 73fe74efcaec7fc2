/* config.c: checks a loader's configuration and fills in defaults. A field without effect is an
 * error. */
#include "data/loader/loader.h"

#include "base/error.h"
#include <math.h>
#include <stdio.h>

enum { MAX_SIDE = 1 << 16, MAX_WORKERS = 1024, MAX_PREFETCH = 1024, DEFAULT_PREFETCH = 4 };

static const float imagenet_mean[3] = { 0.485f, 0.456f, 0.406f };
static const float imagenet_std[3] = { 0.229f, 0.224f, 0.225f };

const char *ls__sample_text(const ls_dataset *dataset, int64_t sample,
                            char buffer[LS__SAMPLE_TEXT_SIZE])
{
    const char *path = ls_dataset_sample_path(dataset, sample);
    if (path)
        snprintf(buffer, LS__SAMPLE_TEXT_SIZE, "image '%s'", path);
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
        { "batch", c->batch, 1, 1 << 24 },
        { "workers", c->workers, 0, MAX_WORKERS },
        { "prefetch", c->prefetch, 0, MAX_PREFETCH },
        { "on_bad_image", c->on_bad_image, LS_BAD_IMAGE_FAIL, LS_BAD_IMAGE_SKIP },
        { "decode", c->decode, LS_DECODE_EXACT, LS_DECODE_FAST },
        { "seeding", c->seeding, LS_SEED_BY_SAMPLE, LS_SEED_BY_WORKER },
        { "resize", c->resize, 0, MAX_SIDE },
        { "crop", c->crop, 0, MAX_SIDE },
        { "crop_padding", c->crop_padding, 0, MAX_SIDE },
        { "max_pixels", c->max_pixels, 0, LS__MAX_PIXELS },
    };
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        if (ranges[i].value < ranges[i].low || ranges[i].value > ranges[i].high)
            return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: %s is %lld, wanted %lld to %lld",
                            ranges[i].name, (long long)ranges[i].value, (long long)ranges[i].low,
                            (long long)ranges[i].high);
    }
    if (!(c->flip >= 0 && c->flip <= 1))
        return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: flip is %g, wanted 0 to 1",
                        (double)c->flip);
    return LS_OK;
}

static ls_status check_geometry(ls_context *ctx, const ls_loader_config *c)
{
    const bool has_scale = c->scale_min != 0 || c->scale_max != 0;
    const bool has_ratio = c->ratio_min != 0 || c->ratio_max != 0;
    if (c->crop_padding > 0 && c->crop == 0)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: crop_padding without crop");
    if (!c->random_resized_crop) {
        if (has_scale || has_ratio)
            return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: %s without random_resized_crop",
                            has_scale ? "scale" : "ratio");
        return LS_OK;
    }
    if (c->crop == 0)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: random_resized_crop without crop");
    if (c->crop_padding > 0)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: random_resized_crop and crop_padding exclude each other");
    if (has_scale && !(c->scale_min >= 0 && c->scale_max > 0 && c->scale_min <= c->scale_max &&
                       c->scale_max <= 1))
        return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: scale is %g to %g, wanted parts of 1",
                        (double)c->scale_min, (double)c->scale_max);
    if (has_ratio &&
        !(c->ratio_min > 0 && c->ratio_min <= c->ratio_max && c->ratio_max <= MAX_SIDE))
        return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: ratio is %g to %g, wanted min <= max",
                        (double)c->ratio_min, (double)c->ratio_max);
    return LS_OK;
}

/* ImageNet's values; of one channel, their average over the three. */
static ls_status complete_normalisation(ls_context *ctx, ls_loader_config *c, int channels)
{
    bool given = false;
    for (int i = 0; i < 3; i++) given = given || c->mean[i] != 0 || c->std[i] != 0;
    for (int i = 0; i < 3 && !given; i++) {
        c->mean[i] = channels == 3 ? imagenet_mean[i] : 0.449f;
        c->std[i] = channels == 3 ? imagenet_std[i] : 0.226f;
    }
    for (int i = 0; i < channels; i++) {
        if (!isfinite(c->mean[i]) || !(c->std[i] > 0) || !isfinite(c->std[i]))
            return ls__fail(ctx, LS_ERR_INVALID,
                            "ls_loader_open: channel %d has mean %g, std %g; wanted a "
                            "std above 0",
                            i, (double)c->mean[i], (double)c->std[i]);
    }
    return LS_OK;
}

/* Without a crop the first image that can be read decides the size of all. */
static ls_status find_size(ls_loader *loader)
{
    ls_context *ctx = loader->owned.ctx;
    ls__transform *transform = &loader->transform;
    if (transform->crop > 0) {
        transform->height = transform->width = transform->crop;
        return LS_OK;
    }
    ls__decoder decoder = { .ctx = ctx, .max_pixels = loader->config.max_pixels };
    ls_status status = LS_ERR_DATA;
    int64_t sample = 0;
    for (; sample < loader->dataset->n_samples; sample++) {
        status = ls__dataset_probe(loader->dataset, sample, loader->config.honour_exif, &decoder);
        if (status == LS_OK) status = ls__dataset_decode(loader->dataset, sample, NULL, &decoder);
        if (!ls__is_bad_image(status) || loader->config.on_bad_image == LS_BAD_IMAGE_FAIL) break;
    }
    if (status == LS_OK) {
        transform->height = decoder.height;
        transform->width = decoder.width;
        ls__resized_size(transform->resize, &transform->height, &transform->width);
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

static ls_status count_steps(ls_loader *loader)
{
    const int64_t n = loader->dataset->n_samples, batch = loader->config.batch;
    loader->n_steps = n / batch + (n % batch != 0 && !loader->config.drop_last);
    if (loader->n_steps > 0) return LS_OK;
    return ls__fail(loader->owned.ctx, LS_ERR_INVALID,
                    "ls_loader_open: drop_last leaves no batch of %lld samples in batches of %lld",
                    (long long)n, (long long)batch);
}

ls_status ls__loader_configure(ls_loader *loader, const ls_loader_config *config)
{
    ls_context *ctx = loader->owned.ctx;
    if (!config) return ls__fail(ctx, LS_ERR_INVALID, "ls_loader_open: no configuration");
    loader->config = *config;
    ls_loader_config *c = &loader->config;
    LS_TRY(check_ranges(ctx, c));
    LS_TRY(check_geometry(ctx, c));
    const ls__pack *pack = loader->dataset->pack;
    const bool in_pack = pack && pack->form == LS__PACK_PIXELS;
    if (c->decode == LS_DECODE_FAST && (in_pack || loader->dataset->images))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: decode is fast, but the %s pixels, not files",
                        in_pack ? "pack holds" : "data in memory are");
    if (c->max_pixels > 0 && loader->dataset->images)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_loader_open: max_pixels is set, but the data in memory are pixels, not "
                        "files");
    LS_TRY(complete_normalisation(ctx, c, loader->dataset->channels));
    LS_TRY(count_steps(loader));
    if (c->prefetch == 0) c->prefetch = DEFAULT_PREFETCH;
    if (c->max_pixels == 0) c->max_pixels = LS_DEFAULT_MAX_PIXELS;
    const bool default_scale = c->scale_max == 0, default_ratio = c->ratio_max == 0;
    loader->transform = (ls__transform){
        .seed = ctx->config.seed,
        .decode = c->decode,
        .resize = c->resize,
        .crop = c->crop,
        .padding = c->crop_padding,
        .random_resized_crop = c->random_resized_crop,
        .scale_min = default_scale ? 0.08 : (double)c->scale_min,
        .scale_max = default_scale ? 1 : (double)c->scale_max,
        .ratio_min = default_ratio ? 3.0 / 4 : (double)c->ratio_min,
        .ratio_max = default_ratio ? 4.0 / 3 : (double)c->ratio_max,
        .flip = c->flip,
    };
    return find_size(loader);
}
