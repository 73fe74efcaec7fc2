/* repro_result.c: reads and compares the results of the runs, and prints the table; see repro.h. */
#include "checkpoint/progress.h"
#include "log/metrics.h"
#include "experiments/repro.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading ---- */

static void run_path(const repro *r, const repro_run *run, const char *file,
                     char out[REPRO_PATH_SIZE + 128])
{
    snprintf(out, REPRO_PATH_SIZE + 128, "%s/%s/%s", r->out, run->name, file);
}

/* Seconds of whole epochs are in the metrics, those of the last, cut short, in the checkpoint. */
static int read_seconds(const repro *r, repro_run *run)
{
    char path[REPRO_PATH_SIZE + 128];
    run_path(r, run, "last.safetensors", path);
    ls__progress progress = { 0 };
    ls_tensor_file *file = ls_tensor_file_open(r->ctx, path);
    const bool good = ls__progress_read(ls_tensor_file_metadata(file, "progress"), &progress);
    ls_tensor_file_close(&file);
    if (ls_context_status(r->ctx) != LS_OK) return print_error(r->ctx, EXIT_NO_VERDICT);
    run->seconds = good ? progress.seconds : 0;

    snprintf(path, sizeof(path), "%s/%s", r->out, run->name);
    double pace = 0; /* seconds per image, summed over the rows */
    json_t *rows = NULL, *row;
    size_t i;
    if (ls__metrics_read(r->ctx, path, &rows) != LS_OK) return print_error(r->ctx, EXIT_NO_VERDICT);
    json_array_foreach(rows, i, row)
    {
        const double speed = json_number_value(json_object_get(row, "images_per_second"));
        pace += speed > 0 ? 1 / speed : 0;
    }
    const int64_t n_rows = (int64_t)json_array_size(rows);
    json_decref(rows);
    const double in_rows = (double)(r->steps * r->batch - progress.sums.n_images);
    if (n_rows > 0) run->seconds += in_rows / (double)n_rows * pace;
    return EXIT_DONE;
}

static int read_steps(const repro *r, repro_run *run, const char *path)
{
    int64_t n;
    ls_step_digest step = { .loss = 0 };
    ls_status status = ls_run_log_step_count(r->ctx, path, &n);
    if (status == LS_OK && n != r->steps)
        return fail_with(EXIT_NO_VERDICT, "%s has %lld steps, expected %lld", path, (long long)n,
                         (long long)r->steps);
    run->losses = calloc((size_t)r->steps, sizeof(*run->losses));
    if (!run->losses) return print_error(NULL, EXIT_NO_VERDICT);
    for (int64_t i = 0; i < r->steps && status == LS_OK; i++) {
        status = ls_run_log_read(r->ctx, path, i, &step);
        run->losses[i] = step.loss;
    }
    run->weights = step.weights;
    return status == LS_OK ? EXIT_DONE : print_error(r->ctx, EXIT_NO_VERDICT);
}

const repro_run *repro_first_of(const repro *r, int result)
{
    int i = 0;
    while (r->runs[i].result != result) i++;
    return &r->runs[i];
}

/* Up to step `end` the run agrees with that result. Ignored if it agrees with an earlier result for
 * longer. */
static void add_span(repro_run *run, int64_t end, int result)
{
    if (end > (run->n_spans > 0 ? run->spans[run->n_spans - 1].end : 0))
        run->spans[run->n_spans++] = (ls__chart_span){ .end = end, .colour = result };
}

int repro_read(repro *r, int i)
{
    repro_run *run = &r->runs[i];
    char path[REPRO_PATH_SIZE + 128], other[REPRO_PATH_SIZE + 128];
    run_path(r, run, "run_log.txt", path);
    int answer = read_steps(r, run, path);
    if (answer == EXIT_DONE) answer = read_seconds(r, run);
    if (answer != EXIT_DONE) return answer;
    run->divergence.step = -1;
    run->spans = calloc((size_t)r->n_results + 1, sizeof(*run->spans));
    if (!run->spans) return print_error(NULL, EXIT_NO_VERDICT);
    for (run->result = 0; run->result < r->n_results; run->result++) {
        ls_run_log_difference difference;
        run_path(r, repro_first_of(r, run->result), "run_log.txt", other);
        if (ls_run_log_compare(r->ctx, other, path, &difference) != LS_OK)
            return print_error(r->ctx, EXIT_NO_VERDICT);
        if (run->result == 0) run->divergence = difference;
        if (difference.step < 0) return EXIT_DONE;
        add_span(run, difference.step, run->result);
    }
    add_span(run, r->steps, run->result);
    r->n_results++;
    return EXIT_DONE;
}

/* ---- The table ---- */

int repro_count(const repro *r, int result)
{
    int n = 0;
    for (int i = 0; i < r->n_runs; i++) n += r->runs[i].result == result;
    return n;
}

void repro_differences(const repro_run *run, const char *between, char out[REPRO_DIFFERENCES_SIZE])
{
    const char *names[N_DIGESTS];
    const int n = differing_digests(&run->divergence, names);
    int at = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++)
        at += snprintf(out + at, (size_t)(REPRO_DIFFERENCES_SIZE - at), "%s%s", i ? between : "",
                       names[i]);
}

static const char *legs_title(const repro *r)
{
    return r->has_ranks ? "workers x threads x ranks" : "workers x threads";
}

static int legs_width(const repro *r)
{
    size_t width = strlen(legs_title(r));
    for (int i = 0; i < r->n_runs; i++)
        if (strlen(r->runs[i].legs_text) > width) width = strlen(r->runs[i].legs_text);
    return (int)width;
}

const char *repro_leg_text(const repro *r, const repro_leg *leg, char out[REPRO_LEG_SIZE])
{
    const int n = snprintf(out, REPRO_LEG_SIZE, "%d worker%s, %d thread%s", leg->workers,
                           plural(leg->workers), leg->threads, plural(leg->threads));
    if (r->has_ranks)
        snprintf(out + n, (size_t)(REPRO_LEG_SIZE - n), ", %d rank%s", leg->ranks,
                 plural(leg->ranks));
    return out;
}

/* Explains the notation by the last run, which has restarts if any run has. */
static void print_example(const repro *r)
{
    const repro_run *run = &r->runs[r->n_runs - 1];
    const int first = (int)strcspn(run->legs_text, " ");
    char leg[REPRO_LEG_SIZE];
    print_text(stdout, "'%.*s': %s", first, run->legs_text, repro_leg_text(r, &run->legs[0], leg));
    if (run->n_legs > 1) {
        const char *stop = run->legs_text + first + 1, *next = strchr(stop, ' ');
        const int length = (int)(next + 1 - stop) + (int)strcspn(next + 1, " ");
        print_text(stdout, "; '%.*s': interrupted after %lld step%s, resumed with %s", length, stop,
                   (long long)run->stops[0], plural(run->stops[0]),
                   repro_leg_text(r, &run->legs[1], leg));
    }
    print_text(stdout, "\n\n");
}

void repro_print_head(const repro *r)
{
    print_text(stdout, "%d runs of %lld step%s in %s\n", r->n_runs, (long long)r->steps,
               plural(r->steps), r->out);
    print_example(r);
    print_text(stdout, "%-*s  %10s  %-32s  %8s  same result as\n", legs_width(r), legs_title(r),
               "last loss", "digest of the weights", "images/s");
    fflush(stdout);
}

static double speed(const repro *r, const repro_run *run)
{
    return run->seconds > 0 ? (double)(r->steps * r->batch) / run->seconds : 0;
}

void repro_print_run(const repro *r, int i)
{
    const repro_run *run = &r->runs[i];
    char digest[LS_DIGEST_TEXT_SIZE];
    print_text(stdout, "%-*s  %10.6f  %s  %8.1f  %s\n", legs_width(r), run->legs_text,
               run->losses[r->steps - 1], ls_digest_text(run->weights, digest), speed(r, run),
               repro_first_of(r, run->result)->legs_text);
    fflush(stdout);
}

static void print_result(const repro *r, int result)
{
    enum { MAX_LISTED = 100 };
    const repro_run *first = repro_first_of(r, result);
    const int n = repro_count(r, result);
    print_text(stdout, "  %d run%s:", n, plural(n));
    for (int i = 0, listed = 0; i < r->n_runs && listed < MAX_LISTED; i++)
        if (r->runs[i].result == result)
            print_text(stdout, "%s %s", listed++ ? "," : "", r->runs[i].legs_text);
    if (n > MAX_LISTED) print_text(stdout, ", +%d", n - MAX_LISTED);
    if (result > 0) {
        char fields[REPRO_DIFFERENCES_SIZE];
        repro_differences(first, ", ", fields);
        print_text(stdout, "; differ%s from %s from step %lld on: %s", n == 1 ? "s" : "",
                   r->runs[0].legs_text, (long long)first->divergence.step, fields);
    }
    print_text(stdout, "\n");
}

void repro_print_verdict(const repro *r)
{
    if (r->n_results == 1) {
        print_text(stdout, "\nOne result: all %d runs are bit-identical in all %lld step%s.\n",
                   r->n_runs, (long long)r->steps, plural(r->steps));
    } else {
        print_text(stdout, "\n%d results: the runs differ.\n", r->n_results);
        for (int k = 0; k < r->n_results; k++) print_result(r, k);
    }
    print_text(
        stdout,
        "%s/report.html, repro.csv, losses.csv and repro.svg contain the results; each run has a "
        "folder there\n",
        r->out);
}

/* ---- Files ---- */

static int close_written(FILE *file, const char *path)
{
    return close_output(file, path) ? EXIT_DONE : EXIT_NO_VERDICT;
}

static FILE *open_written(const repro *r, const char *name, char path[REPRO_PATH_SIZE + 128])
{
    snprintf(path, REPRO_PATH_SIZE + 128, "%s/%s", r->out, name);
    FILE *file = fopen(path, "wx"); /* the folder is new, so an existing file is not replaced */
    if (!file) print_message("%s: %s", path, strerror(errno));
    return file;
}

static int write_runs(const repro *r)
{
    char path[REPRO_PATH_SIZE + 128];
    FILE *file = open_written(r, "repro.csv", path);
    if (!file) return EXIT_NO_VERDICT;
    fprintf(file, "run,workers,threads,ranks,restarts,legs,steps,loss,weights,images_per_second,");
    fprintf(file, "result,first_different_step,differs_in\n");
    for (int i = 0; i < r->n_runs; i++) {
        const repro_run *run = &r->runs[i];
        char digest[LS_DIGEST_TEXT_SIZE], fields[REPRO_DIFFERENCES_SIZE] = "", step[24] = "";
        if (run->divergence.step >= 0) {
            snprintf(step, sizeof(step), "%lld", (long long)run->divergence.step);
            repro_differences(run, " ", fields);
        }
        const repro_leg *leg = &run->legs[0];
        fprintf(file, "%s,%d,%d,%d,%d,%s,%lld,%.17g,%s,%.1f,%s,%s,%s\n", run->name, leg->workers,
                leg->threads, leg->ranks, run->n_legs - 1, run->legs_text, (long long)r->steps,
                run->losses[r->steps - 1], ls_digest_text(run->weights, digest), speed(r, run),
                repro_first_of(r, run->result)->name, step, fields);
    }
    return close_written(file, path);
}

static int write_losses(const repro *r)
{
    char path[REPRO_PATH_SIZE + 128];
    FILE *file = open_written(r, "losses.csv", path);
    if (!file) return EXIT_NO_VERDICT;
    fprintf(file, "step");
    for (int i = 0; i < r->n_runs; i++) fprintf(file, ",%s", r->runs[i].name);
    for (int64_t k = 0; k < r->steps; k++) {
        fprintf(file, "\n%lld", (long long)k);
        for (int i = 0; i < r->n_runs; i++) fprintf(file, ",%.17g", r->runs[i].losses[k]);
    }
    fprintf(file, "\n");
    return close_written(file, path);
}

int repro_write_csv(const repro *r)
{
    const int answer = write_runs(r);
    return answer == EXIT_DONE ? write_losses(r) : answer;
}
