/* model_info.c: writes and reads a checkpoint's metadata about its model. */
#include "checkpoint/model_info.h"

#include "base/alloc.h"
#include "base/bump.h"
#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "io/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `resize` is larger than the side by as much as torchvision's 256 is larger than 224. */
enum { MAX_RESIZE = 2 * LS__MAX_IMAGE_SIDE };

/* Keys whose value is one of a few words, and the index of the word if a file lacks the key; -1:
 * the key is required. Older files have no decode, because there was only one mode. */
enum { STEM, SHORTCUTS, EXIF, DECODE, LOSS, RESIZE_MODE, ALPHA, N_WORDS };
static const struct {
    const char *key, *words[4];
    int missing;
} fields[N_WORDS] = {
    [STEM] = { "stem", { "auto", "small", "large" }, -1 },
    [SHORTCUTS] = { "shortcuts", { "projection", "parameter-free" }, -1 },
    [EXIF] = { "exif", { "ignored", "honoured" }, -1 },
    [DECODE] = { "decode", { "exact", "fast" }, LS_DECODE_EXACT },
    [LOSS] = { "loss", { "", "cross-entropy", "bce", "mse" }, LS_LOSS_CROSS_ENTROPY },
    [RESIZE_MODE] = { "resize_mode", { "crop", "pad", "stretch" }, LS_RESIZE_CROP },
    [ALPHA] = { "alpha", { "white", "black", "ignore" }, LS_ALPHA_IGNORE },
};

ls_status ls__model_info_check(ls_context *ctx, const char *call, const ls_model_info *info)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } members[] = { { "resize", info->resize, 1, MAX_RESIZE },
                    { "resize_mode", info->resize_mode, LS_RESIZE_CROP, LS_RESIZE_STRETCH },
                    { "alpha", info->alpha, LS_ALPHA_WHITE, LS_ALPHA_IGNORE },
                    { "depth", info->depth, info->depth ? 9 : 0, 16 },
                    { "options.stem", info->options.stem, LS_STEM_AUTO, LS_STEM_LARGE },
                    { "decode", info->decode, LS_DECODE_EXACT, LS_DECODE_FAST },
                    { "loss", info->loss, LS_LOSS_NONE, LS_LOSS_MSE } };
    if (!info->model)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: the member model of model is NULL", call);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        if (members[i].value < members[i].low || members[i].value > members[i].high)
            return ls__fail(ctx, LS_ERR_INVALID, "%s: model.%s is %lld, expected %lld to %lld",
                            call, members[i].name, (long long)members[i].value,
                            (long long)members[i].low, (long long)members[i].high);
    if (info->channels != 0 && info->channels != 1 && info->channels != 3)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: model.channels is %lld, expected 1 or 3", call,
                        (long long)info->channels);
    return LS_OK;
}

void ls__model_info_write(const ls_model_info *info, ls__info_metadata *out)
{
    LS__IN_C_LOCALE;
    snprintf(out->resize, LS__INFO_TEXT, "%lld", (long long)info->resize);
    snprintf(out->dropout, LS__INFO_TEXT, "%.9g", fabs((double)info->options.dropout));
    snprintf(out->depth, LS__INFO_TEXT, "%d", info->depth);
    /* Only where they are not what files of older versions mean. */
    const struct {
        bool differs;
        const char *key, *value;
    } others[] = {
        { ls__model_info_loss(info) != LS_LOSS_CROSS_ENTROPY, fields[LOSS].key,
          fields[LOSS].words[info->loss] },
        { info->options.dropout != 0 || signbit(info->options.dropout), "dropout", out->dropout },
        { info->resize_mode != LS_RESIZE_CROP, fields[RESIZE_MODE].key,
          fields[RESIZE_MODE].words[info->resize_mode] },
        { info->alpha != LS_ALPHA_IGNORE, fields[ALPHA].key, fields[ALPHA].words[info->alpha] },
        { info->depth != 0 && info->depth != 16, "depth", out->depth },
    };
    const char *const pairs[] = {
        "model",     info->model->name,
        "stem",      fields[STEM].words[info->options.stem],
        "shortcuts", fields[SHORTCUTS].words[info->options.parameter_free_shortcuts],
        "resize",    out->resize,
        "exif",      fields[EXIF].words[info->honour_exif],
        "decode",    fields[DECODE].words[info->decode],
    };
    memcpy(out->pairs, pairs, sizeof(pairs));
    out->n = sizeof(pairs) / sizeof(pairs[0]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (!others[i].differs) continue;
        out->pairs[out->n++] = others[i].key;
        out->pairs[out->n++] = others[i].value;
    }
}

void ls_model_info_complete(ls_model_info *info)
{
    static const float mean[] = { 0.485f, 0.456f, 0.406f }, std[] = { 0.229f, 0.224f, 0.225f };
    static const float zero[3] = { 0 }, grey_mean[3] = { 0.449f }, grey_std[3] = { 0.226f };
    const bool grey = info->channels == 1;
    if (info->image_size == 0) info->image_size = info->model->image_size;
    const int64_t size = info->image_size, width = info->image_width > 0 ? info->image_width : size;
    /* 256 / 224 of the crop, as torchvision's validation; small images are seen whole, and those
     * that are not cropped */
    const bool whole = ls__is_small_image(size, width) || info->resize_mode != LS_RESIZE_CROP;
    if (info->resize == 0) info->resize = whole ? size : (int64_t)lround((double)size * 256 / 224);
    if (memcmp(info->mean, zero, sizeof(zero)) != 0 || memcmp(info->std, zero, sizeof(zero)) != 0)
        return;
    memcpy(info->mean, grey ? grey_mean : mean, sizeof(info->mean));
    memcpy(info->std, grey ? grey_std : std, sizeof(info->std));
}

/* ---- Reading ---- */

/* The index of the value among the words of fields[i], or -1. */
static int read_word(const ls_tensor_file *file, int i)
{
    const char *word = ls_tensor_file_metadata(file, fields[i].key);
    if (!word) return fields[i].missing;
    for (int k = 0; k < 4 && fields[i].words[k]; k++)
        if (strcmp(word, fields[i].words[k]) == 0) return k;
    return -1;
}

/* "224", or "[224, 320]" for an input that is not square. */
static bool read_crop(const ls_tensor_file *file, ls_model_info *out)
{
    const char *text = ls_tensor_file_metadata(file, "crop");
    json_t *sides = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
    const bool square = json_is_integer(sides);
    bool ok = square || (json_array_size(sides) == 2 && json_is_integer(json_array_get(sides, 0)) &&
                         json_is_integer(json_array_get(sides, 1)));
    out->image_size = json_integer_value(square ? sides : json_array_get(sides, 0));
    out->image_width = square ? 0 : json_integer_value(json_array_get(sides, 1));
    ok =
        ok && ls__is_image_side(out->image_size) && (square || ls__is_image_side(out->image_width));
    json_decref(sides);
    return ok;
}

static bool read_depth(const ls_tensor_file *file, int *out)
{
    int64_t depth = 0;
    const bool ok = !ls_tensor_file_metadata(file, "depth") ||
                    (ls__metadata_count(file, "depth", &depth) && depth > 8 && depth <= 16);
    *out = (int)depth;
    return ok;
}

/* The option of the model as it was; an absent key is the default. False: not in [0,1). */
static bool read_dropout(const char *text, float *out)
{
    char *end;
    *out = 0;
    if (!text) return true;
    const float value = strtof(text, &end);
    *out = value > 0 ? value : LS_ZERO;
    return end != text && *end == '\0' && value >= 0 && value < 1;
}

/* A number for each channel, of which there are 1 or 3. */
static bool read_channels(const char *text, float out[3], int *n)
{
    json_t *array = text ? json_loads(text, 0, NULL) : NULL;
    *n = (int)json_array_size(array);
    bool ok = *n == 1 || *n == 3;
    for (size_t i = 0; ok && i < (size_t)*n; i++) {
        const json_t *number = json_array_get(array, i);
        ok = json_is_number(number);
        out[i] = (float)json_number_value(number);
    }
    json_decref(array);
    return ok;
}

static bool read_classes(ls_context *ctx, const char *text, ls_saved_model *out)
{
    out->classes = text ? json_loads(text, 0, NULL) : NULL;
    const size_t n = json_array_size(out->classes);
    const char **classes = n ? ls__bump_alloc(&out->names, n * sizeof(*classes)) : NULL;
    out->info.classes = classes;
    out->info.options.n_classes = (int64_t)n;
    for (size_t i = 0; classes && i < n; i++) {
        json_t *name = json_array_get(out->classes, i);
        if (!json_is_string(name) || !ls__json_restore(ctx, name)) return false;
        classes[i] = json_string_value(name);
    }
    return classes != NULL;
}

/* Reads how the validation data were split off, from the run's identity (identity.c). False without
 * memory. */
static bool read_split(ls_context *ctx, const char *text, ls_saved_model *out)
{
    bool ok = true;
    json_t *identity = text ? json_loads(text, 0, NULL) : NULL;
    const json_t *data = json_object_get(json_object_get(identity, "validation"), "data");
    const json_t *split = json_object_get(data, "split");
    const char *seed = ls__json_get_string(split, "seed");
    const char *digest = ls__json_get_string(data, "digest");
    const char *digest_of = ls__json_get_string(data, "digest_of");
    if (seed && digest && digest_of && strlen(digest) < LS_DIGEST_TEXT_SIZE) {
        out->split_fraction = json_real_value(json_object_get(split, "fraction"));
        out->split_seed = strtoull(seed, NULL, 10);
        out->digest_of_contents = strcmp(digest_of, "contents") == 0;
        strcpy(out->validation_digest, digest);
        json_t *pattern = json_object_get(split, "group_pattern");
        if (json_is_string(pattern)) {
            if (ls__json_restore(ctx, pattern))
                out->group_pattern = ls__bump_strdup(&out->names, json_string_value(pattern));
            ok = out->group_pattern != NULL;
        }
    }
    json_decref(identity);
    return ok;
}

/* False if a value is no text, or without memory. */
static bool read_opening(ls_context *ctx, const char *text, ls_saved_model *out)
{
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    bool ok = !text || json_is_object(json);
    for (int i = 0; i < LS__N_OPENED_BY && ok; i++) {
        json_t *value = json_object_get(json, ls__opened_by_names[i]);
        if (!value) continue;
        ok = json_is_string(value) && ls__json_restore(ctx, value);
        if (ok) out->opened_by[i] = ls__bump_strdup(&out->names, json_string_value(value));
        ok = ok && out->opened_by[i];
    }
    json_decref(json);
    return ok;
}

const char *ls__model_info_read(ls_context *ctx, const ls_tensor_file *file, ls_saved_model *saved)
{
    LS__IN_C_LOCALE;
    ls_model_info *out = &saved->info;
    const char *model = ls_tensor_file_metadata(file, "model");
    out->model = ls_model_find(model);
    if (!out->model) return "model";
    int words[N_WORDS];
    for (int i = 0; i < N_WORDS; i++) {
        words[i] = read_word(file, i);
        if (words[i] < 0) return fields[i].key;
    }
    out->options.stem = (ls_stem)words[STEM];
    out->options.parameter_free_shortcuts = words[SHORTCUTS] == 1;
    out->honour_exif = words[EXIF] == 1;
    out->decode = (ls_decode)words[DECODE];
    out->loss = (ls_loss_kind)words[LOSS];
    out->resize_mode = (ls_resize_mode)words[RESIZE_MODE];
    out->alpha = (ls_alpha)words[ALPHA];
    if (!read_depth(file, &out->depth)) return "depth";
    if (!read_dropout(ls_tensor_file_metadata(file, "dropout"), &out->options.dropout))
        return "dropout";
    if (!read_crop(file, out)) return "crop";
    if (!ls__metadata_count(file, "resize", &out->resize) || out->resize < 1 ||
        out->resize > MAX_RESIZE)
        return "resize";
    int n_std;
    if (!read_channels(ls_tensor_file_metadata(file, "mean"), out->mean, &out->channels))
        return "mean";
    if (!read_channels(ls_tensor_file_metadata(file, "std"), out->std, &n_std) ||
        n_std != out->channels)
        return "std";
    if (!read_classes(ctx, ls_tensor_file_metadata(file, "classes"), saved)) return "classes";
    if (!read_opening(ctx, ls_tensor_file_metadata(file, "opened_by"), saved)) return "opened_by";
    return read_split(ctx, ls_tensor_file_metadata(file, "identity"), saved) ? NULL : "identity";
}
