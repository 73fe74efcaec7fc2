/* event_log.c: a run's curves, images and histograms as event files; see trainer.h. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "io/event_file.h"
#include "nn/net/net.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_IMAGES = 16, TAG_SIZE = 512 };

struct ls__event_log {
    ls_context *ctx;
    char *dir;
    ls__event_file *file; /* NULL before the first event */
    ls__event_clock clock;
    int64_t first_step; /* of this process, counted from 1 */
    int64_t every;      /* steps between two events of steps */
    bool draws;         /* images and histograms */
    double begun; /* the clock at the last event of a step, or at an epoch's first step; 0 = none */
    int64_t n_images; /* since then */
};

static double wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- The file ---- */

/* The first unused name of this number. */
static char *free_path(const ls__event_log *log, int64_t number)
{
    char *path = NULL;
    for (int i = 0; i == 0 || (path && access(path, F_OK) == 0); i++) {
        ls__free(log->ctx, path);
        path =
            ls__format(log->ctx, "%s/events.out.tfevents.%010" PRId64 ".%d", log->dir, number, i);
    }
    return path;
}

static double event_time(ls__event_log *log)
{
    return ls__event_clock_next(&log->clock, wall_time(), ls__now_seconds());
}

static ls_status create_file(ls__event_log *log)
{
    double last;
    char *path = free_path(log, ls__event_folder_scan(log->dir, wall_time(), &last));
    if (last > log->clock.last) log->clock = (ls__event_clock){ .last = last };
    const double now = event_time(log);
    ls_status status = path ? ls__event_file_create(log->ctx, path, now, &log->file)
                            : ls__fail_memory(log->ctx, log->dir, strlen(log->dir));
    ls__free(log->ctx, path);
    if (status != LS_OK) return status;
    ls__event_begin(log->file, now, log->first_step);
    ls__event_add_session_start(log->file);
    status = ls__event_commit(log->file);
    if (status != LS_OK) ls__event_file_close(&log->file);
    return status;
}

static ls_status begin(ls__event_log *log, int64_t step)
{
    if (!log->file) LS_TRY(create_file(log));
    ls__event_begin(log->file, event_time(log), step);
    return LS_OK;
}

/* ---- Events ---- */

ls_status ls__event_log_step(ls__event_log *log, int64_t steps_done, const ls_results *r, double lr)
{
    char tag[TAG_SIZE];
    if (!log) return LS_OK;
    const double now = ls__now_seconds();
    if (log->begun > 0)
        log->n_images += r->n;
    else
        log->begun = now;
    if (steps_done % log->every != 0) return LS_OK;
    LS_TRY(begin(log, steps_done));
    ls__event_add_scalar(log->file, "step/loss", r->loss);
    for (int i = 0; i < r->n_metrics; i++) {
        ls__snprintf(tag, sizeof(tag), "step/%s", r->metrics[i].name);
        ls__event_add_scalar(log->file, tag, r->metrics[i].value);
    }
    ls__event_add_scalar(log->file, "step/lr", lr);
    if (log->n_images > 0)
        ls__event_add_scalar(log->file, "step/images_per_second",
                             (double)log->n_images / (now - log->begun));
    log->begun = now;
    log->n_images = 0;
    return ls__event_commit(log->file);
}

ls_status ls__event_log_batch(ls__event_log *log, const ls_batch *batch)
{
    if (!log || !log->draws) return LS_OK;
    const int64_t *dims = ls_tensor_shape(batch->images)->dims;
    const size_t bytes = ls_tensor_bytes(batch->images);
    const int64_t n = batch->n < MAX_IMAGES ? batch->n : MAX_IMAGES;
    unsigned char *pixels = ls__alloc(log->ctx, bytes);
    if (!pixels) return ls__fail_memory(log->ctx, "the first batch's images", bytes);
    ls_status status = ls_tensor_read(batch->images, pixels, bytes);
    if (status == LS_OK) status = begin(log, 0);
    for (int64_t i = 0; i < n && status == LS_OK; i++) {
        char tag[TAG_SIZE];
        if (batch->samples[i] < 0) continue; /* another rank's */
        snprintf(tag, sizeof(tag), "first_batch/image/%" PRId64, i);
        ls__event_add_image(log->file, tag, dims[1], dims[2], dims[3],
                            pixels + i * dims[1] * dims[2] * dims[3]);
    }
    if (status == LS_OK) status = ls__event_commit(log->file);
    ls__free(log->ctx, pixels);
    return status;
}

static ls_status add_histogram(ls__event_log *log, const char *kind, const char *name,
                               const ls_tensor *tensor)
{
    char tag[TAG_SIZE];
    if (!tensor || ls_tensor_dtype(tensor) != LS_F32) return LS_OK;
    const size_t bytes = ls_tensor_bytes(tensor);
    float *values = ls__alloc(log->ctx, bytes);
    if (!values) return ls__fail_memory(log->ctx, name, bytes);
    const ls_status status = ls_tensor_read(tensor, values, bytes);
    ls__snprintf(tag, sizeof(tag), "%s/%s", kind, name);
    if (status == LS_OK)
        ls__event_add_histogram(log->file, tag, ls_tensor_element_count(tensor), values);
    ls__free(log->ctx, values);
    return status;
}

static ls_status add_histograms(ls__event_log *log, const ls_net *net)
{
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(net, i);
        if (p.kind == LS_PARAMETER_BUFFER) continue;
        LS_TRY(add_histogram(log, "weights", p.name, p.value));
        if (!p.frozen) LS_TRY(add_histogram(log, "gradients", p.name, p.gradient));
    }
    return LS_OK;
}

ls_status ls__event_log_epoch(ls__event_log *log, int64_t steps_done, const json_t *row,
                              const ls_net *net)
{
    const char *key;
    json_t *value;
    char tag[TAG_SIZE];
    if (!log) return LS_OK;
    LS_TRY(begin(log, steps_done));
    json_object_foreach((json_t *)row, key, value)
    {
        if (!json_is_number(value) || strcmp(key, "epoch") == 0) continue;
        ls__snprintf(tag, sizeof(tag), "epoch/%s", key);
        ls__event_add_scalar(log->file, tag, json_number_value(value));
    }
    log->begun = 0; /* validation and checkpoints are not part of a step's time */
    log->n_images = 0;
    if (log->draws) LS_TRY(add_histograms(log, net));
    return ls__event_commit(log->file);
}

/* ---- Opening ---- */

ls_status ls__event_log_open(ls_context *ctx, const char *dir, const ls_trainer_config *config,
                             int64_t steps_done, ls__event_log **out)
{
    enum { DEFAULT_EVERY = 50 };
    *out = NULL;
    if (config->tensorboard == LS_TENSORBOARD_NONE) return LS_OK;
    ls__event_log *log = ls__zalloc(ctx, sizeof(*log));
    if (!log) return ls__fail_memory(ctx, dir, sizeof(*log));
    *log = (ls__event_log){ .ctx = ctx,
                            .dir = ls__strdup(ctx, dir),
                            .first_step = steps_done + 1,
                            .every = config->log_every ? config->log_every : DEFAULT_EVERY,
                            .draws = config->tensorboard == LS_TENSORBOARD_ALL };
    if (log->dir) {
        *out = log;
        return LS_OK;
    }
    ls__event_log_close(&log);
    return ls__fail_memory(ctx, dir, strlen(dir));
}

void ls__event_log_close(ls__event_log **log)
{
    ls__event_log *l = *log;
    *log = NULL;
    if (!l) return;
    ls__event_file_close(&l->file);
    ls__free(l->ctx, l->dir);
    ls__free(l->ctx, l);
}
