/* repro_result.c: reads and compares the results of the runs; see repro_state.h. */
#include "experiment/repro_state.h"

#include "base/error.h"
#include "checkpoint/progress.h"
#include "log/metrics.h"
#include <lockstep/tensor.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Reading ---- */

static void run_path(const ls_repro *r, const ls_repro_run *run, const char *file,
                     char out[LS__REPRO_PATH_SIZE])
{
    snprintf(out, LS__REPRO_PATH_SIZE, "%s/%s/%s", r->dir, run->name, file);
}

/* Seconds of whole epochs are in the metrics, those of the last, cut short, in the checkpoint. */
static ls_status read_speed(const ls_repro *r, ls_repro_run *run)
{
    char path[LS__REPRO_PATH_SIZE];
    run_path(r, run, "last.safetensors", path);
    ls__progress progress = { 0 };
    ls_tensor_file *file = ls_tensor_file_open(r->ctx, path);
    const bool has_progress =
        ls__progress_read(ls_tensor_file_metadata(file, "progress"), &progress);
    ls_tensor_file_close(&file);
    LS_TRY(ls_context_status(r->ctx));
    double seconds = has_progress ? progress.seconds : 0;

    snprintf(path, sizeof(path), "%s/%s", r->dir, run->name);
    double pace = 0; /* seconds per image, summed over the rows */
    json_t *rows = NULL, *row;
    size_t i;
    LS_TRY(ls__metrics_read(r->ctx, path, &rows));
    json_array_foreach(rows, i, row)
    {
        const double speed = json_number_value(json_object_get(row, "images_per_second"));
        pace += speed > 0 ? 1 / speed : 0;
    }
    const int64_t n_rows = (int64_t)json_array_size(rows);
    json_decref(rows);
    const double n_images = (double)(r->steps * r->batch);
    const double in_rows = n_images - (double)progress.sums.n_images;
    if (n_rows > 0) seconds += in_rows / (double)n_rows * pace;
    run->images_per_second = seconds > 0 ? n_images / seconds : 0;
    return LS_OK;
}

static ls_status read_steps(const ls_repro *r, int i, const char *path)
{
    ls_repro_run *run = &r->runs[i];
    int64_t n;
    ls_step_digest step = { .loss = 0 };
    LS_TRY(ls_run_log_step_count(r->ctx, path, &n));
    if (n != r->steps)
        return ls__fail(r->ctx, LS_ERR_MISMATCH, "%s has %lld steps, expected %lld", path,
                        (long long)n, (long long)r->steps);
    double *losses = calloc((size_t)r->steps, sizeof(*losses));
    r->parts[i].losses = losses;
    if (!losses) return ls__fail_memory(r->ctx, "losses", (size_t)r->steps * sizeof(*losses));
    for (int64_t k = 0; k < r->steps; k++) {
        LS_TRY(ls_run_log_read(r->ctx, path, k, &step));
        losses[k] = step.loss;
    }
    run->losses = losses;
    run->weights = step.weights;
    return LS_OK;
}

const ls_repro_run *ls__repro_first_of(const ls_repro *r, int result)
{
    int i = 0;
    while (r->runs[i].result != result) i++;
    return &r->runs[i];
}

int ls__repro_count(const ls_repro *r, int result)
{
    int n = 0;
    for (int i = 0; i < r->n_runs; i++) n += r->runs[i].result == result;
    return n;
}

/* Up to step `end` the run agrees with that result. Ignored if it agrees with an earlier result for
 * longer. */
static void add_span(ls__repro_parts *parts, int64_t end, int result)
{
    if (end > (parts->n_spans > 0 ? parts->spans[parts->n_spans - 1].end : 0))
        parts->spans[parts->n_spans++] = (ls__chart_span){ .end = end, .colour = result };
}

ls_status ls__repro_read(ls_repro *r, int i)
{
    ls_repro_run *run = &r->runs[i];
    ls__repro_parts *parts = &r->parts[i];
    char path[LS__REPRO_PATH_SIZE], other[LS__REPRO_PATH_SIZE];
    run_path(r, run, "run_log.txt", path);
    LS_TRY(read_steps(r, i, path));
    LS_TRY(read_speed(r, run));
    parts->spans = calloc((size_t)r->n_results + 1, sizeof(*parts->spans));
    if (!parts->spans) return ls__fail_memory(r->ctx, "results", 0);
    for (int result = 0; result < r->n_results; result++) {
        ls_run_log_difference difference;
        run_path(r, ls__repro_first_of(r, result), "run_log.txt", other);
        LS_TRY(ls_run_log_compare(r->ctx, other, path, &difference));
        if (result == 0) run->divergence = difference;
        if (difference.step < 0) {
            run->result = result;
            return LS_OK;
        }
        add_span(parts, difference.step, result);
    }
    run->result = r->n_results++;
    add_span(parts, r->steps, run->result);
    return LS_OK;
}

/* ---- Files ---- */

static void put_runs(FILE *file, const void *experiment)
{
    const ls_repro *r = experiment;
    fprintf(file, "run,workers,threads,ranks,restarts,legs,steps,loss,weights,images_per_second,");
    fprintf(file, "result,first_different_step,differs_in\n");
    for (int i = 0; i < r->n_runs; i++) {
        const ls_repro_run *run = &r->runs[i];
        const ls_repro_leg *leg = &run->legs[0];
        char digest[LS_DIGEST_TEXT_SIZE];
        const char *names[LS_RUN_LOG_FIELDS];
        const int n = ls_run_log_fields(&run->divergence, names);
        fprintf(file, "%s,%d,%d,%d,%d,%s,%lld,%.17g,%s,%.1f,%s,", run->name, leg->workers,
                leg->threads, leg->ranks, run->leg_count - 1, run->legs_text, (long long)r->steps,
                run->losses[r->steps - 1], ls_digest_text(run->weights, digest),
                run->images_per_second, ls__repro_first_of(r, run->result)->name);
        if (run->divergence.step >= 0) fprintf(file, "%lld", (long long)run->divergence.step);
        fputc(',', file);
        for (int k = 0; k < n; k++) fprintf(file, "%s%s", k > 0 ? " " : "", names[k]);
        fputc('\n', file);
    }
}

static void put_losses(FILE *file, const void *experiment)
{
    const ls_repro *r = experiment;
    fprintf(file, "step");
    for (int i = 0; i < r->n_runs; i++) fprintf(file, ",%s", r->runs[i].name);
    for (int64_t k = 0; k < r->steps; k++) {
        fprintf(file, "\n%lld", (long long)k);
        for (int i = 0; i < r->n_runs; i++) fprintf(file, ",%.17g", r->runs[i].losses[k]);
    }
    fprintf(file, "\n");
}

ls_status ls__repro_write_csv(const ls_repro *r)
{
    char path[LS__REPRO_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/repro.csv", r->dir);
    LS_TRY(ls__csv_save(r->ctx, path, put_runs, r));
    snprintf(path, sizeof(path), "%s/losses.csv", r->dir);
    return ls__csv_save(r->ctx, path, put_losses, r);
}
