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
        const int n = repro_count(r, k);
        t->names[k] = t->results[k];
        const int at = snprintf(t->results[k], NAME_SIZE, "%d run%s: same result as %s", n,
                                plural(n), first->name);
        if (k > 0)
            snprintf(t->results[k] + at, NAME_SIZE - (size_t)at, "; diverges at step %lld",
                     (long long)first->divergence.step);
    }
    int at = 0;
    if (r->n_results > n_shown)
        at = snprintf(t->note, NAME_SIZE, "Colours repeat for %d more results. ",
                      r->n_results - n_shown);
    if (r->runs[r->n_runs - 1].n_legs > 1)
        snprintf(t->note + at, NAME_SIZE - (size_t)at, "Gaps: interrupted and resumed.");
}

int repro_plot(const repro *r)
{
    char path[REPRO_PATH_SIZE + 16];
    texts t = { .note = "" };
    const int n_shown = r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS;
    ls__chart_row *rows = calloc((size_t)r->n_runs, sizeof(*rows));
    ls__chart_line lines[LS__CHART_COLOURS];
    if (!rows) return print_error(NULL, EXIT_NO_VERDICT);
    for (int i = 0; i < r->n_runs; i++) {
        const repro_run *run = &r->runs[i], *first = repro_first_of(r, run->result);
        rows[i] = (ls__chart_row){ .name = run->name,
                                   .n_spans = first->n_spans,
                                   .spans = first->spans,
                                   .n_marks = run->n_legs - 1,
                                   .marks = run->stops };
    }
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
    const bool good = ls__chart_save(r->ctx, path, &chart) == LS_OK;
    free(rows);
    return good ? EXIT_DONE : print_error(r->ctx, EXIT_NO_VERDICT);
}
