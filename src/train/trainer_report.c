/* trainer_report.c: the row of metrics of an epoch, the report of a run, and the files that it is
 * made of; see trainer.h. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "comm/comm.h"
#include "data/decode/jpeg_write.h"
#include "data/loader/loader.h"
#include "data/transform/resize.h"
#include "nn/net/net.h"
#include "io/json.h"
#include "train/evaluation.h"
#include <lockstep/report.h>
#include <string.h>

ls_status ls__trainer_open_evaluation(ls_trainer *t)
{
    const bool reports = t->dir && !t->config.no_report && t->has_top1 && t->config.validation;
    if (!reports && t->metric.source != LS__METRIC_OF_EVALUATION) return LS_OK;
    const ls_dataset *data = t->config.validation->dataset;
    if (data->n_classes == 0) return LS_OK;
    t->evaluation = ls_evaluation_open(
        t->owned.ctx, &(ls_evaluation_config){ .n_classes = data->n_classes,
                                               .classes = (const char *const *)data->class_names,
                                               .auc = t->metric.reads_auc });
    return t->evaluation ? LS_OK : LS_ERR_EARLIER;
}

/* The path of a file of the run, which the caller frees; NULL and an error without memory. */
static char *path_in(const ls_trainer *t, const char *name)
{
    char *path = ls__format(t->owned.ctx, "%s/%s", t->dir, name);
    if (!path) ls__fail_memory(t->owned.ctx, t->dir, strlen(t->dir));
    return path;
}

/* ---- The row of an epoch ---- */

/* Adds a value, null unless `is_there`, under PREFIX and NAME. A net's own metric may have the name
 * of another column, which precedes it. */
static void put_value(ls__json_builder *row, ls_context *ctx, const char *prefix, const char *name,
                      bool is_there, double value)
{
    char *text = ls__format(ctx, "%s%s", prefix, name);
    json_t *key = text ? ls__json_text(ctx, text) : NULL;
    ls__free(ctx, text);
    if (!key)
        row->failed = true;
    else if (!json_object_get(row->json, json_string_value(key)))
        ls__json_put(row, json_string_value(key), is_there ? ls__json_number(value) : json_null());
    json_decref(key);
}

/* Of training or validation; all null if `averages` is NULL. An own metric with the name of the one
 * that decides has no columns, because "val_NAME" is the value that decides. */
static void put_averages(ls__json_builder *row, const ls_trainer *t, const char *prefix,
                         const ls_averages *averages)
{
    static const ls_averages none = { 0 };
    ls_context *ctx = t->owned.ctx;
    const ls_averages *a = averages ? averages : &none;
    const char *own[LS_MAX_METRICS];
    const int n_own = ls__net_own_metrics(t->net, own);
    put_value(row, ctx, prefix, "loss", averages != NULL, a->loss);
    if (t->has_top1) put_value(row, ctx, prefix, "top1", averages != NULL, a->top1);
    if (ls__net_has_metric(t->net, "top5"))
        put_value(row, ctx, prefix, "top5", averages != NULL, a->top5);
    for (int i = 0; i < n_own; i++)
        if (t->metric.source != LS__METRIC_OF_EVALUATION || strcmp(own[i], t->metric.name) != 0)
            put_value(row, ctx, prefix, own[i], i < a->n_metrics, a->metrics[i].value);
}

json_t *ls__trainer_row(const ls_trainer *t, const ls_event *e, double lr, int64_t n_bad)
{
    ls__json_builder row = { json_object(), false };
    ls__json_put(&row, "epoch", json_integer(t->epoch + 1));
    ls__json_put(&row, "lr", ls__json_number(lr));
    put_averages(&row, t, "train_", &e->averages);
    put_averages(&row, t, "val_", t->config.validation ? &e->validation_averages : NULL);
    if (t->metric.source == LS__METRIC_OF_EVALUATION)
        put_value(&row, t->owned.ctx, "val_", t->metric.name, true, e->metric_value);
    if (*t->metric.identity)
        ls__json_put(&row, "best_epoch",
                     json_integer(e->is_best ? t->epoch + 1 : t->progress.best_epoch));
    ls__json_put(&row, "images_per_second",
                 ls__json_number((double)e->averages.n_images / e->seconds));
    ls__json_put(&row, "data_wait", ls__json_number(e->wait_seconds / e->seconds));
    ls__json_put(&row, "seconds", ls__json_number(e->seconds + e->validation_seconds));
    double scale;
    int64_t skipped;
    if (ls__net_activations(t->net) == LS_F16 &&
        ls_net_loss_scale(t->net, &scale, &skipped) == LS_OK) {
        ls__json_put(&row, "loss_scale", ls__json_number(scale));
        ls__json_put(&row, "skipped_updates", json_integer(skipped));
    }
    ls__json_put(&row, "bad_images", json_integer(n_bad));
    return ls__json_finish(&row);
}

/* ---- The first batch ---- */

enum { MAX_IMAGES = 32, COLUMNS = 8, MAX_SIDE = 96, GAP = 2 };

/* Resizes an image to height x width, and copies it to its place in the grid. */
static bool put_image(const ls_context *ctx, const ls__image_view *image, int place,
                      const ls__image *grid, int64_t height, int64_t width)
{
    ls__resizer resizer = { .ctx = ctx };
    ls__image cell = { 0 };
    const ls__source source = ls__source_of_all(image);
    const int64_t top = place / COLUMNS * (height + GAP), left = place % COLUMNS * (width + GAP);
    const bool ok = ls__resize_image(&resizer, &source, height, width, &cell);
    for (int64_t y = 0; ok && y < height; y++)
        memcpy(grid->pixels + ((top + y) * grid->width + left) * grid->channels,
               cell.pixels + y * width * cell.channels, (size_t)(width * cell.channels));
    ls__buffer_free(ctx, &resizer.memory);
    ls__image_free(ctx, &cell);
    return ok;
}

/* The batch's first images that this rank has. */
static int64_t count_images(const ls_batch *batch)
{
    int64_t n = 0;
    while (n < MAX_IMAGES && n < batch->n && batch->samples[n] >= 0) n++;
    return n;
}

/* Of an image in the grid. dims: [n,height,width,channels]. */
static void cell_size(const int64_t *dims, int64_t *height, int64_t *width)
{
    const int64_t longer = dims[1] > dims[2] ? dims[1] : dims[2];
    const int64_t side = longer < MAX_SIDE ? longer : MAX_SIDE;
    *height = dims[1] * side / longer > 0 ? dims[1] * side / longer : 1;
    *width = dims[2] * side / longer > 0 ? dims[2] * side / longer : 1;
}

/* A grid of the batch's first images that this rank has, on white. */
static bool draw_grid(const ls_context *ctx, const ls_batch *batch, const uint8_t *pixels,
                      ls__image *grid)
{
    const int64_t *dims = ls_tensor_shape(batch->images)->dims;
    int64_t height, width;
    cell_size(dims, &height, &width);
    const int64_t n = count_images(batch);
    const int64_t columns = n < COLUMNS ? n : COLUMNS, rows = (n + COLUMNS - 1) / COLUMNS;
    if (!ls__image_reserve(ctx, grid, rows * (height + GAP) - GAP, columns * (width + GAP) - GAP,
                           (int)dims[3]))
        return false;
    memset(grid->pixels, 255, (size_t)(grid->height * grid->width * grid->channels));
    for (int64_t i = 0; i < n; i++) {
        const ls__image_view image = { pixels + i * dims[1] * dims[2] * dims[3], dims[2] * dims[3],
                                       dims[1], dims[2], (int)dims[3] };
        if (!put_image(ctx, &image, (int)i, grid, height, width)) return false;
    }
    return true;
}

static ls_status save_batch(ls_trainer *t, const ls_batch *batch, const char *path)
{
    ls_context *ctx = t->owned.ctx;
    const size_t n_bytes = ls_tensor_bytes(batch->images);
    uint8_t *pixels = ls__alloc(ctx, n_bytes), *jpeg = NULL;
    size_t size;
    ls__image grid = { 0 };
    ls_status status = pixels ? ls_tensor_read(batch->images, pixels, n_bytes)
                              : ls__fail_memory(ctx, path, n_bytes);
    if (status == LS_OK) {
        const bool drawn = draw_grid(ctx, batch, pixels, &grid);
        const ls__source source = ls__source_of_image(&grid);
        status = drawn && ls__jpeg_write(ctx, &source.view, &jpeg, &size)
                     ? ls__file_replace(ctx, path, jpeg, size)
                     : ls__fail_memory(ctx, path, 0);
    }
    ls__free(ctx, jpeg);
    ls__free(ctx, pixels);
    ls__image_free(ctx, &grid);
    return status;
}

#define MIN_SHARE 0.005 /* smaller ones would be shown as 0.00 */

/* "dog", or with mixup or cutmix "dog 0.70, cat 0.30". NULL without memory. */
static json_t *describe_label(ls_context *ctx, const ls_dataset *data, int32_t label,
                              const float *shares)
{
    char text[512];
    ls__text out = { text, sizeof text, 0 };
    if (label < 0 || label >= data->n_classes) return json_string("");
    ls__text_put(&out, "%s", data->class_names[label]);
    const double share = shares ? (double)shares[label] : 1;
    if (share < 1 - MIN_SHARE) ls__text_put(&out, " %.2f", share);
    for (int k = 0; shares && k < data->n_classes; k++)
        if (k != label && (double)shares[k] >= MIN_SHARE)
            ls__text_put(&out, ", %s %.2f", data->class_names[k], (double)shares[k]);
    return ls__json_text(ctx, text);
}

/* The labels of the grid's images, and where the images are in it. */
static json_t *describe_batch(ls_trainer *t, const ls_batch *batch)
{
    const ls_dataset *data = t->loader->dataset;
    const int64_t *dims = ls_tensor_shape(batch->images)->dims;
    int64_t height, width;
    cell_size(dims, &height, &width);
    const size_t bytes = ls_tensor_bytes(batch->labels);
    const bool is_mixed = batch->targets && ls_dataset_target_count(data) == 0;
    const size_t n_shares = is_mixed ? ls_tensor_bytes(batch->targets) : 0;
    ls_context *ctx = t->owned.ctx;
    int32_t *labels = ls__alloc(ctx, bytes);
    float *shares = n_shares ? ls__alloc(ctx, n_shares) : NULL;
    ls__json_builder list = { json_array(), false };
    if (!labels || (n_shares && !shares))
        ls__fail_memory(ctx, t->dir, bytes + n_shares);
    else if (ls_tensor_read(batch->labels, labels, bytes) == LS_OK &&
             (!shares || ls_tensor_read(batch->targets, shares, n_shares) == LS_OK))
        for (int64_t i = 0; i < count_images(batch); i++)
            ls__json_append(&list, describe_label(ctx, data, labels[i],
                                                  shares ? shares + i * data->n_classes : NULL));
    ls__free(ctx, labels);
    ls__free(ctx, shares);
    return json_pack("{s:i, s:I, s:I, s:i, s:o}", "columns", (int)COLUMNS, "height",
                     (json_int_t)height, "width", (json_int_t)width, "gap", (int)GAP, "labels",
                     ls__json_finish(&list));
}

static ls_status save_labels(ls_trainer *t, const ls_batch *batch)
{
    if (t->loader->dataset->n_classes == 0) return LS_OK;
    char *path = path_in(t, "first_batch.json");
    json_t *json = describe_batch(t, batch);
    ls_status status = t->owned.ctx->error;
    if (status == LS_OK) status = ls__json_save(t->owned.ctx, path, json);
    json_decref(json);
    ls__free(t->owned.ctx, path);
    return status;
}

static bool writes(const ls_trainer *t)
{
    return t->dir && !t->config.no_report && ls__is_first_rank(t->owned.ctx);
}

ls_status ls__trainer_report_batch(ls_trainer *t, const ls_batch *batch)
{
    if (!writes(t) || batch->epoch > 0 || batch->step > 0 || batch->samples[0] < 0) return LS_OK;
    char *path = path_in(t, "first_batch.jpg");
    const ls_status status = path ? save_batch(t, batch, path) : LS_ERR_MEMORY;
    ls__free(t->owned.ctx, path);
    return status == LS_OK ? save_labels(t, batch) : status;
}

/* ---- After an epoch ---- */

static ls_status save_evaluation(ls_trainer *t, const char *path)
{
    ls_context *ctx = t->owned.ctx;
    const ls_loader *loader = t->config.validation;
    json_t *json = ls__evaluation_describe(t->evaluation, loader->dataset, &loader->config);
    /* The default is not stored, as in the rows of metrics.jsonl. */
    json_t *metric = *t->metric.identity ? ls__json_text(ctx, t->metric.name) : json_null();
    char *text = NULL;
    size_t size;
    ls_status status;
    if (ctx->error != LS_OK)
        status = ctx->error;
    else if (!json || json_object_set_new(json, "epoch", json_integer(t->epoch + 1)) != 0 ||
             !metric || (json_is_string(metric) && json_object_set(json, "metric", metric) != 0) ||
             !ls__json_dump(ctx, json, ls__json_exact(json), &text, &size))
        status = ls__fail_memory(ctx, path, 0);
    else
        status = ls__file_replace(ctx, path, text, size);
    ls__free(ctx, text);
    json_decref(metric);
    json_decref(json);
    return status;
}

ls_status ls__trainer_report_epoch(ls_trainer *t)
{
    ls_context *ctx = t->owned.ctx;
    if (!writes(t)) return LS_OK;
    char *path = path_in(t, "evaluation.json");
    if (!path) return LS_ERR_MEMORY;
    ls_status status = t->evaluation ? save_evaluation(t, path) : LS_OK;
    ls__free(ctx, path);
#ifndef LOCKSTEP_MINIMAL
    const char *dir = t->dir;
    if (status == LS_OK) status = ls_report_write(ctx, 1, &dir, NULL);
#endif
    return status;
}
