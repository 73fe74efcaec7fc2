/* model_info.c: reads a checkpoint's metadata about its model, and rebuilds the model. */
#include "train/model_info.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include "run/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IMAGE_SIDE = 4096 };

struct ls_saved_model {
    ls__owned owned;
    char *path;
    ls_model_info info;
    json_t *classes; /* owns the names of info.classes */
};

static const char *const stem_words[] = { "auto", "small", "large" };
static const char *const exif_words[] = { "ignored", "honoured" };
static const char *const decode_words[] = { "exact", "fast" };
static const char *const shortcut_words[] = { "projection", "parameter-free" };

void ls__model_info_write(const ls_model_info *info, ls__info_metadata *out)
{
    snprintf(out->resize, LS__INFO_TEXT, "%lld", (long long)info->resize);
    const char *const pairs[LS__INFO_METADATA] = {
        "model",     info->model->name,
        "stem",      stem_words[info->options.stem],
        "shortcuts", shortcut_words[info->options.parameter_free_shortcuts],
        "resize",    out->resize,
        "exif",      exif_words[info->honour_exif],
        "decode",    decode_words[info->decode],
    };
    memcpy(out->pairs, pairs, sizeof(pairs));
}

/* ---- Reading ---- */

static int find_word(const char *word, int n, const char *const *words)
{
    for (int i = 0; word && i < n; i++)
        if (strcmp(word, words[i]) == 0) return i;
    return -1;
}

static bool read_side(const char *text, int64_t *out)
{
    char *end;
    *out = text ? strtoll(text, &end, 10) : 0;
    return text && *text && !*end && *out > 0 && *out <= MAX_IMAGE_SIDE;
}

static bool read_channels(const char *text, float out[3])
{
    json_t *array = text ? json_loads(text, 0, NULL) : NULL;
    bool good = json_array_size(array) == 3;
    for (size_t i = 0; good && i < 3; i++) {
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

/* The first key whose value cannot be used, or NULL. */
static const char *read_keys(ls_context *ctx, const ls_tensor_file *file, ls_saved_model *saved)
{
    LS__IN_C_LOCALE;
    ls_model_info *out = &saved->info;
    const char *model = ls_tensor_file_metadata(file, "model");
    out->model = ls_model_find(model);
    if (!out->model) return "model";
    const int stem = find_word(ls_tensor_file_metadata(file, "stem"), 3, stem_words);
    if (stem < 0) return "stem";
    out->options.stem = (ls_stem)stem;
    const int shortcut = find_word(ls_tensor_file_metadata(file, "shortcuts"), 2, shortcut_words);
    if (shortcut < 0) return "shortcuts";
    out->options.parameter_free_shortcuts = shortcut == 1;
    const int exif = find_word(ls_tensor_file_metadata(file, "exif"), 2, exif_words);
    if (exif < 0) return "exif";
    out->honour_exif = exif == 1;
    /* Older files lack this key, because there was one mode only. */
    const char *decode_word = ls_tensor_file_metadata(file, "decode");
    const int decode = decode_word ? find_word(decode_word, 2, decode_words) : LS_DECODE_EXACT;
    if (decode < 0) return "decode";
    out->decode = (ls_decode)decode;
    if (!read_side(ls_tensor_file_metadata(file, "crop"), &out->image_size)) return "crop";
    if (!read_side(ls_tensor_file_metadata(file, "resize"), &out->resize)) return "resize";
    if (!read_channels(ls_tensor_file_metadata(file, "mean"), out->mean)) return "mean";
    if (!read_channels(ls_tensor_file_metadata(file, "std"), out->std)) return "std";
    if (!read_classes(ctx, ls_tensor_file_metadata(file, "classes"), saved)) return "classes";
    return NULL;
}

static void close_saved(ls__owned *owned)
{
    ls_saved_model *saved = (ls_saved_model *)owned;
    ls__free(owned->ctx, (void *)saved->info.classes);
    ls__free(owned->ctx, saved->path);
    json_decref(saved->classes);
    ls__free(owned->ctx, saved);
}

static ls_status read_model(ls_context *ctx, const char *path, ls_saved_model *out)
{
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    if (!file) return ctx->error;
    const char *key = read_keys(ctx, file, out);
    const char *value = key ? ls_tensor_file_metadata(file, key) : NULL;
    if (key)
        ls__fail(ctx, LS_ERR_FORMAT,
                 "%s: %s '%s' in its metadata%s%s; checkpoints of 'lockstep train' say all that is "
                 "needed",
                 path, value ? "unusable" : "no", key, value ? ": " : "", value ? value : "");
    ls_tensor_file_close(&file);
    return key ? LS_ERR_FORMAT : LS_OK;
}

ls_saved_model *ls_saved_model_open(ls_context *ctx, const char *path)
{
    LS__ENTER_NULL(ctx);
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "ls_saved_model_open: path is NULL"), NULL;
    ls_saved_model *saved = ls__zalloc(ctx, sizeof(*saved));
    if (!saved) return ls__fail_memory(ctx, path, sizeof(*saved)), NULL;
    saved->owned.ctx = ctx;
    saved->path = ls__strdup(ctx, path);
    if (!saved->path) ls__fail_memory(ctx, path, strlen(path));
    if (saved->path && read_model(ctx, path, saved) == LS_OK) {
        ls__own(ctx, &saved->owned, close_saved);
        return saved;
    }
    close_saved(&saved->owned);
    return NULL;
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

ls_net *ls_saved_model_build(const ls_saved_model *model, int64_t batch, ls_precision precision,
                             bool with_loss)
{
    if (!model) return NULL;
    ls_context *ctx = model->owned.ctx;
    LS__ENTER_NULL(ctx);
    const ls_model_info *info = &model->info;
    ls_net_config config = {
        .input = { .image = { LS_U8, LS_SHAPE(batch, info->image_size, info->image_size, 3) },
                   .n_classes = with_loss ? (int)info->options.n_classes : 0 },
        .loss = { .kind = with_loss ? LS_CROSS_ENTROPY : LS_NO_LOSS },
        .precision = precision,
        .inference = true
    };
    memcpy(config.input.mean, info->mean, sizeof(info->mean));
    memcpy(config.input.std, info->std, sizeof(info->std));
    ls_net *net = ls_net_build(ctx, info->model->function, &info->options, &config);
    if (net && ls_checkpoint_load_weights(net, model->path) != LS_OK) ls_net_close(&net);
    return net;
}

ls_loader_config ls_model_info_loader(const ls_model_info *info, int64_t batch)
{
    ls_loader_config config = {
        .batch = batch,
        .honour_exif = info->honour_exif,
        .decode = info->decode,
        .resize = info->resize,
        .crop = info->image_size,
    };
    memcpy(config.mean, info->mean, sizeof(config.mean));
    memcpy(config.std, info->std, sizeof(config.std));
    return config;
}
