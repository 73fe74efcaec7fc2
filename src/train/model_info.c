/* model_info.c: reads a checkpoint's metadata about its model, and rebuilds the model. */
#include "train/model_info.h"

#include "base/alloc.h"
#include "base/bump.h"
#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "data/dataset/dataset.h"
#include "run/checkpoint.h"
#include "run/json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IMAGE_SIDE = 4096 };

struct ls_saved_model {
    ls__owned owned;
    char *path;
    ls_model_info info;
    json_t *classes; /* owns the names of info.classes, */
    ls__bump names;  /* or, of weights without metadata, this does */
    /* Of ls_dataset_split; the fraction is 0 if the validation data are no part of a dataset. */
    double split_fraction;
    uint64_t split_seed;
    bool digest_of_contents;
    char validation_digest[LS_DIGEST_TEXT_SIZE];
    char *group_pattern; /* of ls_dataset_group_by_pattern, in `names`; NULL = none */
};

/* Keys whose value is one of a few words, and the index of the word if a file lacks the key; -1:
 * the key is required. Older files have no decode, because there was only one mode. */
enum { STEM, SHORTCUTS, EXIF, DECODE, LOSS, N_WORDS };
static const struct {
    const char *key, *words[4];
    int missing;
} fields[N_WORDS] = {
    [STEM] = { "stem", { "auto", "small", "large" }, -1 },
    [SHORTCUTS] = { "shortcuts", { "projection", "parameter-free" }, -1 },
    [EXIF] = { "exif", { "ignored", "honoured" }, -1 },
    [DECODE] = { "decode", { "exact", "fast" }, LS_DECODE_EXACT },
    [LOSS] = { "loss", { "", "cross-entropy", "bce", "mse" }, LS_LOSS_CROSS_ENTROPY },
};

/* The loss of the model, with its default. */
static ls_loss_kind loss_of(const ls_model_info *info)
{
    return info->loss == LS_LOSS_NONE ? LS_LOSS_CROSS_ENTROPY : info->loss;
}

ls_status ls__model_info_check(ls_context *ctx, const char *call, const ls_model_info *info)
{
    const struct {
        const char *name;
        int64_t value, low, high;
    } members[] = { { "resize", info->resize, 1, MAX_IMAGE_SIDE },
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
    /* The last two only where they are not the default, as in files of older versions. */
    const bool has_loss = loss_of(info) != LS_LOSS_CROSS_ENTROPY;
    const bool has_dropout = info->options.dropout != 0 || signbit(info->options.dropout);
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
    if (has_loss) {
        out->pairs[out->n++] = fields[LOSS].key;
        out->pairs[out->n++] = fields[LOSS].words[info->loss];
    }
    if (has_dropout) {
        out->pairs[out->n++] = "dropout";
        out->pairs[out->n++] = out->dropout;
    }
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

static bool read_side(const ls_tensor_file *file, const char *key, int64_t *out)
{
    return ls__metadata_count(file, key, out) && *out > 0 && *out <= MAX_IMAGE_SIDE;
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
    bool good = *n == 1 || *n == 3;
    for (size_t i = 0; good && i < (size_t)*n; i++) {
        const json_t *number = json_array_get(array, i);
        good = json_is_number(number);
        out[i] = (float)json_number_value(number);
    }
    json_decref(array);
    return good;
}

static bool read_classes(ls_context *ctx, const char *text, ls_saved_model *out)
{
    out->classes = text ? json_loads(text, 0, NULL) : NULL;
    const size_t n = json_array_size(out->classes);
    const char **classes = n ? ls__zalloc(ctx, n * sizeof(*classes)) : NULL;
    out->info.classes = classes;
    out->info.options.n_classes = (int64_t)n;
    for (size_t i = 0; classes && i < n; i++) {
        json_t *name = json_array_get(out->classes, i);
        if (!json_is_string(name) || !ls__json_restore(ctx, name)) return false;
        classes[i] = json_string_value(name);
    }
    return classes != NULL;
}

/* Of the validation data in the run's identity (run/identity.c). */
static void read_split(ls_context *ctx, const char *text, ls_saved_model *out)
{
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
        if (json_is_string(pattern) && ls__json_restore(ctx, pattern))
            out->group_pattern = ls__bump_strdup(&out->names, json_string_value(pattern));
    }
    json_decref(identity);
}

/* The first key whose value cannot be used, or NULL. */
static const char *read_keys(ls_context *ctx, const ls_tensor_file *file, ls_saved_model *saved)
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
    if (!read_dropout(ls_tensor_file_metadata(file, "dropout"), &out->options.dropout))
        return "dropout";
    if (!read_side(file, "crop", &out->image_size)) return "crop";
    if (!read_side(file, "resize", &out->resize)) return "resize";
    int n_std;
    if (!read_channels(ls_tensor_file_metadata(file, "mean"), out->mean, &out->channels))
        return "mean";
    if (!read_channels(ls_tensor_file_metadata(file, "std"), out->std, &n_std) ||
        n_std != out->channels)
        return "std";
    if (!read_classes(ctx, ls_tensor_file_metadata(file, "classes"), saved)) return "classes";
    read_split(ctx, ls_tensor_file_metadata(file, "identity"), saved);
    return NULL;
}

static void close_saved(ls__owned *owned)
{
    ls_saved_model *saved = (ls_saved_model *)owned;
    ls__free(owned->ctx, (void *)saved->info.classes);
    ls__free(owned->ctx, saved->path);
    json_decref(saved->classes);
    ls__bump_close(&saved->names);
    ls__free(owned->ctx, saved);
}

static ls_status read_model(ls_context *ctx, const char *path, ls_saved_model *out)
{
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    if (!file) return ctx->error;
    const char *key = read_keys(ctx, file, out);
    const char *value = key ? ls_tensor_file_metadata(file, key) : NULL;
    if (key)
        ls__fail(
            ctx, LS_ERR_FORMAT,
            "%s: %s '%s' in its metadata%s%s; checkpoints of 'lockstep train' have all required "
            "keys",
            path, value ? "unusable" : "no", key, value ? ": " : "", value ? value : "");
    ls_tensor_file_close(&file);
    return key ? LS_ERR_FORMAT : LS_OK;
}

static ls_status copy_model(ls_context *ctx, const char *call, const ls_model_info *info,
                            ls_saved_model *out)
{
    LS_TRY(ls__model_info_check(ctx, call, info));
    const int64_t n = info->options.n_classes;
    if (n < 1 || !info->classes || info->image_size < 1 || info->image_size > MAX_IMAGE_SIDE)
        return ls__fail(
            ctx, LS_ERR_INVALID,
            "%s: %lld classes, image_size %lld; expected 1 or more, with names, and 1 to "
            "%d",
            call, (long long)n, (long long)info->image_size, (int)MAX_IMAGE_SIDE);
    out->info = *info;
    if (out->info.channels == 0) out->info.channels = 3;
    out->info.loss = loss_of(info);
    const char **classes = ls__zalloc(ctx, (size_t)n * sizeof(*classes));
    out->info.classes = classes;
    if (!classes) return ls__fail_memory(ctx, call, (size_t)n * sizeof(*classes));
    if (info->weights_key) {
        out->info.weights_key = ls__bump_strdup(&out->names, info->weights_key);
        if (!out->info.weights_key) return ls__fail_memory(ctx, call, 0);
    }
    for (int64_t i = 0; i < n; i++) {
        classes[i] = ls__bump_strdup(&out->names, info->classes[i]);
        if (!classes[i]) return ls__fail_memory(ctx, call, 0);
    }
    return LS_OK;
}

/* info NULL: from the file's metadata. */
static ls_saved_model *open_saved(ls_context *ctx, const char *call, const char *path,
                                  const ls_model_info *info)
{
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "%s: path is NULL", call), NULL;
    ls_saved_model *saved = ls__zalloc(ctx, sizeof(*saved));
    if (!saved) return ls__fail_memory(ctx, path, sizeof(*saved)), NULL;
    saved->owned.ctx = ctx;
    ls__bump_open(&saved->names, ctx);
    saved->path = ls__strdup(ctx, path);
    if (!saved->path) ls__fail_memory(ctx, path, strlen(path));
    if (saved->path &&
        (info ? copy_model(ctx, call, info, saved) : read_model(ctx, path, saved)) == LS_OK) {
        ls__own(ctx, &saved->owned, close_saved);
        return saved;
    }
    close_saved(&saved->owned);
    return NULL;
}

ls_saved_model *ls_saved_model_open(ls_context *ctx, const char *path)
{
    LS__ENTER_NULL(ctx);
    return open_saved(ctx, "ls_saved_model_open", path, NULL);
}

ls_saved_model *ls_saved_model_from_weights(ls_context *ctx, const char *path,
                                            const ls_model_info *info)
{
    static const char call[] = "ls_saved_model_from_weights";
    LS__ENTER_NULL(ctx);
    if (!info) return ls__fail(ctx, LS_ERR_INVALID, "%s: info is NULL", call), NULL;
    return open_saved(ctx, call, path, info);
}

void ls_saved_model_close(ls_saved_model **model)
{
    if (!model || !*model) return;
    ls__disown_and_close(&(*model)->owned);
    *model = NULL;
}

ls_model_info ls_saved_model_info(const ls_saved_model *model)
{
    return model ? model->info : (ls_model_info){ 0 };
}

/* ---- Use ---- */

bool ls_saved_model_has_split(const ls_saved_model *model)
{
    return model && model->split_fraction > 0;
}

ls_dataset *ls_saved_model_validation_split(const ls_saved_model *model, ls_dataset *dataset)
{
    if (!dataset || !ls_saved_model_has_split(model)) return NULL;
    ls_context *ctx = model->owned.ctx;
    LS__ENTER_NULL(ctx);
    ls_dataset *train, *validation;
    ls_digest digest;
    char text[LS_DIGEST_TEXT_SIZE];
    ls_status status = LS_OK;
    if (model->group_pattern && dataset->paths && !ls__dataset_whole(dataset)->groups)
        status = ls_dataset_group_by_pattern(dataset, model->group_pattern);
    if (status == LS_OK)
        status = ls_dataset_split(dataset, model->split_fraction, model->split_seed, &train,
                                  &validation);
    if (status == LS_ERR_DATA) ls_context_clear_error(ctx); /* other data */
    if (status != LS_OK) return NULL;
    ls_dataset_close(&train);
    status = ls_dataset_digest(validation, model->digest_of_contents, &digest);
    if (status != LS_OK || strcmp(ls_digest_text(digest, text), model->validation_digest) != 0)
        ls_dataset_close(&validation);
    return validation;
}

ls_net *ls_saved_model_build(const ls_saved_model *model, int64_t batch, ls_precision precision,
                             bool with_loss)
{
    if (!model) return NULL;
    ls_context *ctx = model->owned.ctx;
    LS__ENTER_NULL(ctx);
    const ls_model_info *info = &model->info;
    const bool has_classes = info->loss == LS_LOSS_CROSS_ENTROPY;
    ls_net_config config = {
        .input = { .image = { LS_U8,
                              LS_SHAPE(batch, info->image_size, info->image_size, info->channels) },
                   .n_classes = with_loss && has_classes ? (int)info->options.n_classes : 0,
                   .n_targets = with_loss && !has_classes ? (int)info->options.n_classes : 0 },
        .loss = { .kind = with_loss ? info->loss : LS_LOSS_NONE },
        .precision = precision,
        .inference = true
    };
    memcpy(config.input.mean, info->mean, sizeof(info->mean));
    memcpy(config.input.std, info->std, sizeof(info->std));
    ls_net *net = ls_net_build(ctx, info->model->function, &info->options, &config);
    const ls_load_weights_config weights = { .key = info->weights_key };
    if (net && ls_net_load_weights(net, model->path, &weights, NULL) != LS_OK) ls_net_close(&net);
    return net;
}

ls_loader_config ls_model_info_loader_config(const ls_model_info *info, int64_t batch)
{
    ls_loader_config config = {
        .batch_size = batch,
        .honour_exif = info->honour_exif,
        .decode = info->decode,
        .resize = info->resize,
        .crop = info->image_size,
        .grey = info->channels == 1,
    };
    memcpy(config.mean, info->mean, sizeof(config.mean));
    memcpy(config.std, info->std, sizeof(config.std));
    return config;
}
