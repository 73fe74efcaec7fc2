/* dataset.c: what all datasets share, such as the way from a sample to its decoder, and datasets in
 * memory. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

static void close_dataset(ls__owned *self)
{
    ls_dataset *dataset = (ls_dataset *)self;
    const ls_context *ctx = dataset->owned.ctx;
    ls__bump_close(&dataset->bump);
    ls__free(ctx, dataset->path_text);
    ls__free(ctx, dataset->groups);
    ls__free(ctx, dataset->group_text);
    ls__free(ctx, dataset->ignored_example);
    ls__free(ctx, dataset->images);
    if (dataset->pack) ls__pack_close(dataset->pack);
    ls__free(ctx, dataset->pack);
    ls__release(dataset->whole);
    ls__free(ctx, dataset);
}

ls_dataset *ls__dataset_open(ls_context *ctx, const char *what)
{
    ls_dataset *dataset = ls__open_owned(ctx, what, sizeof(*dataset), close_dataset);
    if (dataset) ls__bump_open(&dataset->bump, ctx);
    return dataset;
}

const char *const ls__opened_by_names[LS__N_OPENED_BY] = {
    [LS__BY_PATH_COLUMN] = "path_column",     [LS__BY_LABEL_COLUMN] = "label_column",
    [LS__BY_SPLIT_COLUMN] = "split_column",   [LS__BY_GROUP_COLUMN] = "group_column",
    [LS__BY_LABEL_PATTERN] = "label_pattern",
};

ls_status ls__dataset_note_opening(ls_dataset *dataset, const char *what,
                                   const char *const values[LS__N_OPENED_BY])
{
    ls_context *ctx = dataset->owned.ctx;
    for (int i = 0; i < LS__N_OPENED_BY; i++) {
        if (!values[i]) continue;
        dataset->opened_by[i] = ls__bump_strdup(&dataset->bump, values[i]);
        if (!dataset->opened_by[i]) return ls__fail_memory(ctx, what, strlen(values[i]));
    }
    return LS_OK;
}

char **ls__dataset_copy_names(ls__bump *bump, int n, const char *const *names)
{
    char **out = ls__bump_alloc(bump, (size_t)n * sizeof(*out));
    for (int i = 0; out && i < n; i++) {
        out[i] = names ? ls__bump_strdup(bump, names[i]) : ls__bump_format(bump, "%d", i);
        if (!out[i]) return NULL;
    }
    return out;
}

bool ls__dataset_name_classes(ls_dataset *dataset, int n_classes, const char *const *names)
{
    dataset->class_names = ls__dataset_copy_names(&dataset->bump, n_classes, names);
    dataset->n_classes = dataset->class_names ? n_classes : 0;
    dataset->has_names = names != NULL;
    return dataset->class_names != NULL;
}

bool ls__dataset_take_paths(ls_dataset *dataset, ls__text_list *paths)
{
    dataset->n_samples = paths->n;
    dataset->channels = 3;
    dataset->paths = ls__bump_alloc(&dataset->bump, (size_t)paths->n * sizeof(char *));
    dataset->labels = ls__bump_alloc(&dataset->bump, (size_t)paths->n * sizeof(int32_t));
    if (!dataset->paths || !dataset->labels) return false;
    ls__text_list_get(paths, dataset->paths);
    dataset->path_text = paths->text;
    paths->text = NULL;
    return true;
}

void ls_dataset_close(ls_dataset **dataset)
{
    LS__CLOSE_OWNED(dataset);
}

/* A sample's data are checked when they are first read. Two threads may do so at once. */
static ls_status probe_packed(const ls_dataset *dataset, int64_t i, bool honour_exif,
                              ls__decoder *decoder)
{
    bool sound = atomic_load_explicit(&dataset->packed_sound[i], memory_order_relaxed);
    const ls_status status =
        ls__pack_probe(dataset->pack, ls__dataset_packed(dataset, i), honour_exif, &sound, decoder);
    if (sound) atomic_store_explicit(&dataset->packed_sound[i], true, memory_order_relaxed);
    return status;
}

ls_status ls__dataset_probe(const ls_dataset *dataset, int64_t sample, bool honour_exif,
                            ls__decoder *decoder)
{
    dataset = ls__dataset_source(dataset, &sample);
    if (dataset->pack) return probe_packed(dataset, sample, honour_exif, decoder);
    if (dataset->callbacks) return ls__callbacks_probe(dataset, sample, decoder);
    if (dataset->paths) return ls__decoder_probe(decoder, dataset->paths[sample], honour_exif);
    decoder->height = dataset->height;
    decoder->width = dataset->width;
    return LS_OK;
}

ls_status ls__dataset_decode(const ls_dataset *dataset, int64_t i, const ls__region *region,
                             ls__decoder *decoder)
{
    dataset = ls__dataset_source(dataset, &i);
    if (dataset->pack)
        return ls__pack_decode(dataset->pack, ls__dataset_packed(dataset, i), region, decoder);
    if (dataset->paths) return ls__decode_region(decoder, region);
    if (dataset->callbacks) {
        decoder->source = ls__source_of_image(&decoder->image);
        return LS_OK;
    }
    const int64_t height = dataset->height, row_bytes = dataset->width * dataset->channels;
    const ls__image_view view = { dataset->images + i * height * row_bytes, row_bytes, height,
                                  dataset->width, dataset->channels };
    decoder->source = ls__source_of_all(&view);
    return LS_OK;
}

bool ls__dataset_may_have_alpha(const ls_dataset *dataset)
{
    static const char *const opaque[] = { ".jpg", ".jpeg", ".ppm", ".pgm" };
    enum { N_OPAQUE = sizeof(opaque) / sizeof(opaque[0]) };
    const ls_dataset *whole = ls__dataset_whole(dataset);
    for (int64_t i = 0; whole->paths && i < whole->n_samples; i++) {
        const char *dot = strrchr(whole->paths[i], '.');
        int k = 0;
        while (dot && k < N_OPAQUE && strcasecmp(dot, opaque[k]) != 0) k++;
        if (!dot || k == N_OPAQUE) return true;
    }
    return false;
}

const char *ls__dataset_decoders(const ls_dataset *dataset, char buffer[LS__DECODERS_SIZE])
{
    const ls_dataset *whole = ls__dataset_whole(dataset);
    const ls__pack *pack = whole->pack;
    int64_t i = 0;
    while (whole->paths && i < whole->n_samples && !ls__is_webp_name(whole->paths[i])) i++;
    const bool has_webp = whole->paths && i < whole->n_samples;
    if (pack && pack->form == LS__PACK_PIXELS) {
        /* A pack lists the decoders of all its splits. */
        const char *end = has_webp ? NULL : strstr(pack->decoders, LS__WEBP_DECODER);
        if (!end) return pack->decoders;
        snprintf(buffer, LS__DECODERS_SIZE, "%.*s", (int)(end - pack->decoders), pack->decoders);
        return buffer;
    }
    return ls__decoders(has_webp, buffer);
}

int64_t ls_dataset_sample_count(const ls_dataset *dataset)
{
    return dataset ? dataset->n_samples : 0;
}

int ls_dataset_class_count(const ls_dataset *dataset)
{
    return dataset ? dataset->n_classes : 0;
}

int ls_dataset_channel_count(const ls_dataset *dataset)
{
    return dataset ? dataset->channels : 0;
}

const char *ls_dataset_class_name(const ls_dataset *dataset, int label)
{
    if (!dataset || label < 0 || label >= dataset->n_classes) return NULL;
    return dataset->class_names[label];
}

const char *ls_dataset_sample_path(const ls_dataset *dataset, int64_t sample)
{
    if (!dataset || !dataset->paths || sample < 0 || sample >= dataset->n_samples) return NULL;
    return dataset->paths[sample];
}

int ls_dataset_label(const ls_dataset *dataset, int64_t sample)
{
    if (!dataset || sample < 0 || sample >= dataset->n_samples) return -1;
    return dataset->labels[sample];
}

/* Whether the probed image has one colour. JPEG files are left out, because decoding them takes
 * time. */
static bool is_uniform(const ls_dataset *dataset, int64_t sample, ls__decoder *decoder)
{
    return !decoder->jpeg && ls__dataset_decode(dataset, sample, NULL, decoder) == LS_OK &&
           ls__view_is_uniform(&decoder->source.view);
}

/* Opaque pixels are the same with all values of alpha. */
static void find_uniform(const ls_dataset *dataset, int64_t sample, ls__decoder *decoder,
                         ls_image_info *out)
{
    const int first = (int)decoder->alpha;
    const bool uniform = is_uniform(dataset, sample, decoder);
    for (int i = 0; i < 3; i++) out->uniform[i] = uniform && (i == first || !out->transparent);
    for (int i = 0; i < 3 && out->transparent; i++) {
        decoder->alpha = (ls_alpha)i;
        if (i != first && ls__dataset_probe(dataset, sample, true, decoder) == LS_OK)
            out->uniform[i] = is_uniform(dataset, sample, decoder);
    }
}

ls_status ls_dataset_image_info(const ls_dataset *dataset, int64_t sample, ls_image_info *out)
{
    ls_context *ctx = dataset ? dataset->owned.ctx : NULL;
    LS__ENTER(ctx);
    if (!out || sample < 0 || sample >= dataset->n_samples)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_dataset_image_info: sample %lld of %lld%s",
                        (long long)sample, (long long)dataset->n_samples,
                        out ? "" : ", out is NULL");
    ls__decoder decoder = { .ctx = ctx, .max_pixels = LS_LARGEST_MAX_PIXELS, .orientation = 1 };
    const ls_status status = ls__dataset_probe(dataset, sample, true, &decoder);
    *out = (ls_image_info){ .height = decoder.height,
                            .width = decoder.width,
                            .orientation = decoder.orientation,
                            .transparent = decoder.transparent,
                            .min_sample = (int)decoder.min_sample,
                            .max_sample = (int)decoder.max_sample };
    if (status == LS_OK) find_uniform(dataset, sample, &decoder, out);
    if (status != LS_OK && dataset->paths)
        ls__fail(ctx, status, "image '%s': %s", dataset->paths[sample], decoder.reason);
    else if (status != LS_OK)
        ls__fail(ctx, status, "sample %lld: %s", (long long)sample, decoder.reason);
    ls__decoder_free(&decoder);
    return status;
}

ls_status ls_dataset_class_sizes(const ls_dataset *dataset, int64_t *counts)
{
    ls_context *ctx = dataset ? dataset->owned.ctx : NULL;
    LS__ENTER(ctx);
    if (dataset->n_classes == 0 || !counts)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_dataset_class_sizes: %s",
                        counts ? "the samples have no labels" : "counts is NULL");
    memset(counts, 0, (size_t)dataset->n_classes * sizeof(*counts));
    for (int64_t i = 0; i < dataset->n_samples; i++) counts[dataset->labels[i]]++;
    return LS_OK;
}

ls_status ls_dataset_balanced_weights(const ls_dataset *dataset, float *weights)
{
    ls_context *ctx = dataset ? dataset->owned.ctx : NULL;
    LS__ENTER(ctx);
    if (dataset->n_classes == 0 || !weights)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_dataset_balanced_weights: %s",
                        weights ? "the samples have no labels" : "weights is NULL");
    const size_t bytes = (size_t)dataset->n_classes * sizeof(int64_t);
    int64_t *counts = ls__alloc(ctx, bytes);
    if (!counts) return ls__fail_memory(ctx, "ls_dataset_balanced_weights", bytes);
    ls_status status = ls_dataset_class_sizes(dataset, counts);
    for (int c = 0; c < dataset->n_classes && status == LS_OK; c++) {
        if (counts[c] == 0)
            status =
                ls__fail(ctx, LS_ERR_DATA, "ls_dataset_balanced_weights: class '%s' has no samples",
                         dataset->class_names[c]);
        else
            weights[c] = (float)((double)dataset->n_samples /
                                 ((double)dataset->n_classes * (double)counts[c]));
    }
    ls__free(ctx, counts);
    return status;
}

int64_t ls_dataset_ignored_count(const ls_dataset *dataset, const char **example)
{
    if (example) *example = dataset && dataset->ignored_example ? dataset->ignored_example : "";
    return dataset ? dataset->n_ignored : 0;
}

/* ---- Targets: the numbers that a loss compares a model's output with. A split reads those of its
 * whole dataset. ---- */

ls_status ls__dataset_open_targets(ls_dataset *dataset, const char *what, int n,
                                   const char *const *names)
{
    size_t bytes = 0;
    if (ls__mul_size((size_t)dataset->n_samples, (size_t)n * sizeof(float), &bytes))
        dataset->targets = ls__bump_alloc(&dataset->bump, bytes);
    dataset->target_names = ls__dataset_copy_names(&dataset->bump, n, names);
    if (dataset->target_names) dataset->n_targets = n;
    dataset->has_names = names != NULL;
    if (dataset->targets && dataset->target_names) return LS_OK;
    return ls__fail_memory(dataset->owned.ctx, what, bytes);
}

int ls_dataset_target_count(const ls_dataset *dataset)
{
    return dataset ? ls__dataset_whole(dataset)->n_targets : 0;
}

const char *ls_dataset_target_name(const ls_dataset *dataset, int i)
{
    if (i < 0 || i >= ls_dataset_target_count(dataset)) return NULL;
    return ls__dataset_whole(dataset)->target_names[i];
}

bool ls_dataset_targets_are_labels(const ls_dataset *dataset)
{
    return dataset && ls__dataset_whole(dataset)->targets_are_labels;
}

const float *ls_dataset_targets(const ls_dataset *dataset, int64_t sample)
{
    const int64_t n = ls_dataset_target_count(dataset);
    if (n == 0 || sample < 0 || sample >= dataset->n_samples) return NULL;
    dataset = ls__dataset_source(dataset, &sample);
    return dataset->targets + sample * n;
}

/* ---- In memory. ---- */

static ls_status check_memory(ls_context *ctx, const uint8_t *images, const ls_shape *shape,
                              const int32_t *labels, int n_classes)
{
    static const char what[] = "ls_dataset_from_memory";
    char text[LS_SHAPE_TEXT_SIZE];
    if (!images || !labels)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: no %s", what, images ? "labels" : "images");
    if (shape->n_dims != 4 || ls_shape_element_count(shape) <= 0 ||
        (shape->dims[3] != 1 && shape->dims[3] != 3))
        return ls__fail(ctx, LS_ERR_SHAPE, "%s: images %s, expected [N,H,W,C] with C 1 or 3", what,
                        ls_shape_text(shape, text, sizeof(text)));
    if (shape->dims[1] > LS__MAX_PIXELS / shape->dims[2])
        return ls__fail(ctx, LS_ERR_SHAPE, "%s: images %s, the limit is %d pixels in each", what,
                        ls_shape_text(shape, text, sizeof(text)), LS__MAX_PIXELS);
    if (n_classes < 1)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %d classes, expected 1 or more", what, n_classes);
    for (int64_t i = 0; i < shape->dims[0]; i++) {
        if (labels[i] < 0 || labels[i] >= n_classes)
            return ls__fail(ctx, LS_ERR_DATA, "%s: sample %lld has label %d, expected 0 to %d",
                            what, (long long)i, labels[i], n_classes - 1);
    }
    return LS_OK;
}

static bool copy_memory(ls_dataset *dataset, const uint8_t *images, const ls_shape *shape,
                        const int32_t *labels, int n_classes)
{
    const ls_context *ctx = dataset->owned.ctx;
    const size_t label_bytes = (size_t)shape->dims[0] * sizeof(int32_t);
    const size_t image_bytes = (size_t)ls_shape_element_count(shape);
    dataset->n_samples = shape->dims[0];
    dataset->height = shape->dims[1];
    dataset->width = shape->dims[2];
    dataset->channels = (int)shape->dims[3];
    dataset->images = ls__alloc(ctx, image_bytes);
    dataset->labels = ls__bump_alloc(&dataset->bump, label_bytes);
    if (!dataset->images || !dataset->labels) return false;
    memcpy(dataset->images, images, image_bytes);
    memcpy(dataset->labels, labels, label_bytes);
    return ls__dataset_name_classes(dataset, n_classes, NULL);
}

ls_dataset *ls_dataset_from_memory(ls_context *ctx, const uint8_t *images, ls_shape shape,
                                   const int32_t *labels, int n_classes)
{
    LS__ENTER_NULL(ctx);
    if (check_memory(ctx, images, &shape, labels, n_classes) != LS_OK) return NULL;
    ls_dataset *dataset = ls__dataset_open(ctx, "ls_dataset_from_memory");
    if (dataset && !copy_memory(dataset, images, &shape, labels, n_classes)) {
        ls__fail_memory(ctx, "ls_dataset_from_memory", (size_t)ls_shape_element_count(&shape));
        ls_dataset_close(&dataset);
    }
    return dataset;
}
