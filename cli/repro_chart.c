/* repro_chart.c: which runs agree in each step, and the losses; see repro.h. */
#include "repro.h"
#include <stdio.h>
#include <stdlib.h>

enum { NAME_SIZE = 160 };

typedef struct texts {
    char title[NAME_SIZE], note[NAME_SIZE], results[LS__CHART_COLOURS][NAME_SIZE];
    const char *names[LS__CHART_COLOURS];
} texts;

static void make_texts(const repro *r, int n_shown, texts *t)
{
    snprintf(t->title, NAME_SIZE, "%d runs of %lld step%s: %d result%s", r->n_runs,
             (long long)r->steps, plural(r->steps), r->n_results, plural(r->n_results));
    for (int k = 0; k < n_shown; k++) {
        const repro_run *first = repro_first_of(r, k);
        int n = 0;
        for (int i = 0; i < r->n_runs; i++) n += r->runs[i].result == k;
        t->names[k] = t->results[k];
        if (k == 0)
            snprintf(t->results[k], NAME_SIZE, "%d run%s: the bits of %s", n, plural(n),
                     first->name);
        else
            snprintf(t->results[k], NAME_SIZE, "%d run%s: the bits of %s, different from step %lld",
                     n, plural(n), first->name, (long long)first->split.step);
    }
    int at = 0;
    if (r->n_results > n_shown)
        at = snprintf(t->note, NAME_SIZE, "%d more results repeat the colours. ",
                      r->n_results - n_shown);
    if (r->runs[r->n_runs - 1].n_legs > 1)
        snprintf(t->note + at, NAME_SIZE - (size_t)at, "Gaps: stopped and resumed.");
}

static void make_row(const repro *r, const repro_run *run, int64_t marks[REPRO_MAX_RESTARTS],
                     ls__chart_row *out)
{
    const repro_run *first = repro_first_of(r, run->result);
    *out = (ls__chart_row){ .name = run->name,
                            .n_spans = first->n_spans,
                            .spans = first->spans,
                            .n_marks = run->n_legs - 1,
                            .marks = marks };
    for (int k = 0; k < out->n_marks; k++) marks[k] = run->legs[k].stop_at;
}

int repro_draw(const repro *r)
{
    char path[REPRO_PATH_SIZE + 16];
    texts t = { .note = "" };
    const int n_shown = r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS;
    ls__chart_row *rows = calloc((size_t)r->n_runs, sizeof(*rows));
    int64_t(*marks)[REPRO_MAX_RESTARTS] = calloc((size_t)r->n_runs, sizeof(*marks));
    ls__chart_line lines[LS__CHART_COLOURS];
    const bool good = rows && marks;
    for (int i = 0; i < r->n_runs && good; i++) make_row(r, &r->runs[i], marks[i], &rows[i]);
    for (int k = 0; k < n_shown; k++)
        lines[k] = (ls__chart_line){ .n = r->steps, .y = repro_first_of(r, k)->losses };
    make_texts(r, n_shown, &t);
    const ls__chart_panel panels[] = {
        { .y_label = "run",
          .note = t.note,
          .n_names = n_shown,
          .names = t.names,
          .n_rows = r->n_runs,
          .rows = rows },
        { .y_label = "loss", .may_coincide = true, .n_lines = n_shown, .lines = lines },
    };
    const ls__chart chart = {
        .title = t.title, .x_label = "step", .n_panels = 2, .panels = panels
    };
    snprintf(path, sizeof(path), "%s/repro.svg", r->out);
    int answer = EXIT_DONE;
    if (!good)
        answer = print_error(r->verb, NULL, EXIT_NO_VERDICT);
    else if (ls__chart_save(r->ctx, path, &chart) != LS_OK)
        answer = print_error(r->verb, r->ctx, EXIT_NO_VERDICT);
    free(marks);
    free(rows);
    return answer;
}
