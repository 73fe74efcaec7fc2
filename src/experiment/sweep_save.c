/* sweep_save.c: the files of a sweep: sweep.json after each result, the report from time to time,
 * and sweep.csv at the end; see sweep.h. */
#include "base/clock.h"
#include "base/error.h"
#include "experiment/sweep.h"
#include <math.h>
#include <stdio.h>

/* The time of the next report depends on how long this one took. */
static void write_report(ls_sweep *s)
{
    enum { MIN_SECONDS = 5, SHARE = 20 };
    const double begin = ls__now_seconds();
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .threads = 1, .log = s->config.log, .log_user = s->config.log_user });
    if (ls_sweep_report_write(ctx, s->values.out, NULL, s->program_name) != LS_OK)
        ls__warn(s->ctx, LS_LOG_RUN, "%s", ls_context_message(ctx));
    ls_context_close(&ctx);
    s->is_report_old = false;
    const double end = ls__now_seconds();
    s->report_due = end + fmax(MIN_SECONDS, SHARE * (end - begin));
}

void ls__sweep_update_report(ls_sweep *s)
{
    if (s->is_report_old) write_report(s);
}

ls_status ls__sweep_save(ls_sweep *s)
{
    LS_TRY(ls__sweep_results_write(s));
    if (ls__now_seconds() >= s->report_due) write_report(s);
    return LS_OK;
}

/* ---- The table of trials ---- */

static void put_row(FILE *file, const ls_sweep *s, const ls_sweep_trial *r)
{
    char text[LS_SWEEP_VALUE_SIZE];
    fprintf(file, "%lld,", (long long)r->trial);
    for (int i = 0; i < s->file.n_searched; i++) {
        ls__put_csv_field(file, ls_sweep_trial_value(s, r->trial, i, text));
        fputc(',', file);
    }
    fprintf(file, "%lld,", (long long)r->epochs);
    if (isnan(r->metric))
        fputs(",,", file);
    else
        fprintf(file, "%.15g,%lld,", r->metric, (long long)r->best_epoch);
    ls__put_csv_field(file, r->error ? r->error : "");
    fputc('\n', file);
}

static void put_table(FILE *file, const void *sweep)
{
    const ls_sweep *s = sweep;
    fputs("trial,", file);
    for (int i = 0; i < s->file.n_searched; i++) {
        ls__put_csv_field(file, s->file.searched[i].search.name);
        fputc(',', file);
    }
    fprintf(file, "epochs,%s,best_epoch,error\n", ls__sweep_metric_key(s->values.metric));
    for (int64_t i = 0; i < ls_search_trial_count(s->search); i++) {
        const ls_sweep_trial *r = ls_sweep_trial_at(s, i);
        if (r) put_row(file, s, r);
    }
}

ls_status ls__sweep_write_csv(const ls_sweep *s)
{
    char path[LS__RUN_PATH_SIZE];
    snprintf(path, sizeof(path), "%s/sweep.csv", s->values.out);
    return ls__csv_save(s->ctx, path, put_table, s);
}
