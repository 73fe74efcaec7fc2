/* sweep_csv.c: the table of trials in OUT/sweep.csv; see sweep.h. */
#include "base/error.h"
#include "base/file.h"
#include "experiment/sweep.h"
#include "report/command_line.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void put_head(FILE *file, const ls_sweep *s)
{
    fputs("trial,", file);
    for (int i = 0; i < s->file.n_searched; i++) {
        ls__put_csv_field(file, s->file.searched[i].search.name);
        fputc(',', file);
    }
    fprintf(file, "epochs,%s,best_epoch,error\n", ls__sweep_metric_key(s->values.metric));
}

static void put_row(FILE *file, const ls_sweep *s, const ls__sweep_result *r)
{
    char text[LS_SWEEP_VALUE_SIZE];
    fprintf(file, "%lld,", (long long)r->trial);
    for (int i = 0; i < s->file.n_searched; i++) {
        ls__put_csv_field(file, ls_sweep_trial_value(s, r->trial, i, text));
        fputc(',', file);
    }
    fprintf(file, "%lld,", (long long)r->epochs);
    if (isnan(r->value))
        fputs(",,", file);
    else
        fprintf(file, "%.15g,%lld,", r->value, (long long)r->best_epoch);
    ls__put_csv_field(file, r->error ? r->error : "");
    fputc('\n', file);
}

ls_status ls__sweep_write_csv(const ls_sweep *s)
{
    char path[LS__RUN_PATH_SIZE], *bytes = NULL;
    size_t size = 0;
    snprintf(path, sizeof(path), "%s/sweep.csv", s->values.out);
    FILE *file = open_memstream(&bytes, &size);
    if (!file) return ls__fail_memory(s->ctx, path, 0);
    put_head(file, s);
    for (int64_t i = 0; i < ls_search_trial_count(s->search); i++) {
        const ls__sweep_result *r = ls__sweep_last(s, i);
        if (r) put_row(file, s, r);
    }
    const ls_status status = fclose(file) == 0 ? ls__file_replace(s->ctx, path, bytes, size)
                                               : ls__fail_memory(s->ctx, path, size);
    free(bytes);
    return status;
}
