/* saved_model.c: opens a checkpoint whose model can be rebuilt, and rebuilds it. */
#include "checkpoint/model_info.h"

#include "base/alloc.h"
#include "base/error.h"
#include "data/dataset/dataset.h"
#include "data/dataset/groups.h"
#include <string.h>

static void close_saved(ls__owned *owned)
{
    ls_saved_model *saved = (ls_saved_model *)owned;
    json_decref(saved->classes);
    ls__bump_close(&saved->names);
    ls__free(owned->ctx, saved);
}

/* value: the name in the file, or NULL. */
static void hint_model(ls_context *ctx, const ls_tensor_file *file, const char *value)
{
    if (value)
        ls__error_hint(ctx, "no bundled model has this name: if it is a program's own, that "
                            "program alone can build the net");
    else if (ls_tensor_file_metadata(file, "identity"))
        ls__error_hint(ctx, "the checkpoint is of another program, which did not store how to "
                            "build its net, so that only that program can use it "
                            "(docs/training.md, 'Runs of programs')");
    else
        ls__error_hint(ctx, "--model NAME reads weights that do not store their model");
}

static ls_status read_model(ls_context *ctx, const char *path, ls_saved_model *out)
{
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    if (!file) return ctx->error;
    const char *key = ls__model_info_read(ctx, file, out);
    const char *value = key ? ls_tensor_file_metadata(file, key) : NULL;
    if (key)
        ls__fail(
            ctx, LS_ERR_FORMAT,
            "%s: %s '%s' in its metadata%s%s; checkpoints of 'lockstep train' have all required "
            "keys",
            path, value ? "unusable" : "no", key, value ? ": " : "", value ? value : "");
    if (key && strcmp(key, "model") == 0) hint_model(ctx, file, value);
    ls_tensor_file_close(&file);
    return key ? LS_ERR_FORMAT : LS_OK;
}

static ls_status copy_model(ls_context *ctx, const char *call, const ls_model_info *info,
                            ls_saved_model *out)
{
    LS_TRY(ls__model_info_check(ctx, call, info));
    const int64_t n = info->options.n_classes;
    if (n < 1 || !info->classes || !ls__is_image_side(info->image_size) ||
        (info->image_width != 0 && !ls__is_image_side(info->image_width)))
        return ls__fail(
            ctx, LS_ERR_INVALID,
            "%s: %lld classes, image_size %lld, image_width %lld; expected 1 or more, with names, "
            "and 1 to %d",
            call, (long long)n, (long long)info->image_size, (long long)info->image_width,
            (int)LS__MAX_IMAGE_SIDE);
    out->info = *info;
    if (out->info.image_width == info->image_size) out->info.image_width = 0;
    if (out->info.channels == 0) out->info.channels = 3;
    out->info.loss = ls__model_info_loss(info);
    const char **classes = ls__bump_alloc(&out->names, (size_t)n * sizeof(*classes));
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
    ls_saved_model *saved = ls__open_owned(ctx, path, sizeof(*saved), close_saved);
    if (!saved) return NULL;
    ls__bump_open(&saved->names, ctx);
    saved->path = ls__bump_strdup(&saved->names, path);
    if (!saved->path) ls__fail_memory(ctx, path, strlen(path));
    if (!saved->path ||
        (info ? copy_model(ctx, call, info, saved) : read_model(ctx, path, saved)) != LS_OK)
        ls_saved_model_close(&saved);
    return saved;
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
    LS__CLOSE_OWNED(model);
}

ls_model_info ls_saved_model_info(const ls_saved_model *model)
{
    return model ? model->info : (ls_model_info){ 0 };
}

ls_csv_config ls_saved_model_csv_config(const ls_saved_model *model)
{
    if (!model) return (ls_csv_config){ 0 };
    return (ls_csv_config){ .n_classes = (int)model->info.options.n_classes,
                            .classes = model->info.classes,
                            .path_column = model->opened_by[LS__BY_PATH_COLUMN],
                            .label_column = model->opened_by[LS__BY_LABEL_COLUMN],
                            .split_column = model->opened_by[LS__BY_SPLIT_COLUMN],
                            .group_column = model->opened_by[LS__BY_GROUP_COLUMN] };
}

const char *ls_saved_model_label_pattern(const ls_saved_model *model)
{
    return model ? model->opened_by[LS__BY_LABEL_PATTERN] : NULL;
}

/* ---- Use ---- */

void ls__hint_weights(ls_context *ctx, const ls_weight_report *report, const char *new_head)
{
    static const ls_weight_state states[] = { LS_WEIGHT_MISMATCHED, LS_WEIGHT_MISSING };
    bool only_head = ls_weight_report_count(report, LS_WEIGHT_UNEXPECTED) == 0, stem = false;
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < ls_weight_report_count(report, states[k]); i++) {
            const ls_weight_info info = ls_weight_report_at(report, states[k], i);
            only_head = only_head && info.head;
            stem = stem || (k == 0 && strcmp(info.name, "conv1.weight") == 0);
        }
    if (only_head)
        ls__error_hint(ctx, "only the last layer differs: %s trains a new one for these classes",
                       new_head);
    else
        ls__error_hint(ctx,
                       "%s--model, --stem, --image-size and --grey must be those of the weights",
                       stem ? "the first layer differs: --stem large has a 7x7 convolution, "
                              "--stem small a 3x3 convolution; "
                            : "");
}

bool ls_saved_model_has_split(const ls_saved_model *model)
{
    return model && model->split_fraction > 0;
}

ls_dataset *ls_saved_model_validation_split(const ls_saved_model *model, ls_dataset *dataset)
{
    if (!model) return NULL;
    ls_context *ctx = model->owned.ctx;
    LS__ENTER_NULL(ctx);
    if (!dataset) {
        ls__fail_null(ctx, "ls_saved_model_validation_split", "dataset");
        return NULL;
    }
    if (!ls_saved_model_has_split(model)) return NULL;
    ls_dataset *train = NULL, *validation = NULL;
    ls_digest digest;
    char text[LS_DIGEST_TEXT_SIZE];
    ls_status status = LS_OK;
    const bool groups =
        model->group_pattern && dataset->paths && !ls__dataset_whole(dataset)->groups;
    if (groups) status = ls_dataset_group_by_pattern(dataset, model->group_pattern);
    if (status == LS_OK)
        status = ls_dataset_split(dataset, model->split_fraction, model->split_seed, &train,
                                  &validation);
    if (status == LS_ERR_DATA) ls_context_clear_error(ctx); /* other data */
    if (status == LS_OK) {
        ls_dataset_close(&train);
        status = ls_dataset_digest(validation, model->digest_of_contents, &digest);
        if (status != LS_OK || strcmp(ls_digest_text(digest, text), model->validation_digest) != 0)
            ls_dataset_close(&validation);
    }
    if (groups && !validation) ls__remove_groups(dataset); /* as the caller gave it */
    return validation;
}

/* Adds what to do where weights that do not describe their model do not fit it, or the classes of
 * the images that it is evaluated on. */
static void hint_load(ls_context *ctx, const ls_weight_report *report)
{
    const ls_status status = ls_context_status(ctx);
    if (report && (status == LS_ERR_SHAPE || status == LS_ERR_MISMATCH))
        ls__hint_weights(ctx, report, "'lockstep train --weights FILE --new-head'");
    else if (status == LS_ERR_MISMATCH)
        ls__error_hint(ctx, "--weights-key KEY names the weights in a file");
}

ls_net *ls_saved_model_build(const ls_saved_model *model, int64_t batch, ls_precision precision,
                             bool with_loss)
{
    if (!model) return NULL;
    ls_context *ctx = model->owned.ctx;
    LS__ENTER_NULL(ctx);
    const ls_model_info *info = &model->info;
    const bool has_classes = info->loss == LS_LOSS_CROSS_ENTROPY;
    const int64_t width = info->image_width > 0 ? info->image_width : info->image_size;
    ls_net_config config = {
        .input = { .image = { LS_U8, LS_SHAPE(batch, info->image_size, width, info->channels) },
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
    ls_weight_report *report = NULL;
    if (net && ls_net_load_weights(net, model->path, &weights, &report) != LS_OK) {
        if (with_loss && !model->classes) hint_load(ctx, report);
        ls_net_close(&net);
    }
    ls_weight_report_close(&report);
    return net;
}

ls_loader_config ls_model_info_loader_config(const ls_model_info *info, int64_t batch)
{
    ls_loader_config config = {
        .batch_size = batch,
        .honour_exif = info->honour_exif,
        .decode = info->decode,
        .resize = info->resize,
        .resize_mode = info->resize_mode,
        .crop = info->image_size,
        .crop_width = info->image_width,
        .alpha = info->alpha,
        .depth = info->depth,
        .grey = info->channels == 1,
    };
    memcpy(config.mean, info->mean, sizeof(config.mean));
    memcpy(config.std, info->std, sizeof(config.std));
    return config;
}
