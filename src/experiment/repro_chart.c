/* repro_chart.c: which runs agree in each step, and the losses; see repro_state.h. */
#include "experiment/repro_state.h"

#include "base/error.h"
#include "report/page.h"
#include <stdio.h>
#include <stdlib.h>

enum { NAME_SIZE = 160 };

typedef struct texts {
    char title[NAME_SIZE], note[NAME_SIZE], results[LS__CHART_COLOURS][NAME_SIZE];
    const char *names[LS__CHART_COLOURS];
} texts;

static void make_texts(const ls_repro *r, int n_shown, texts *t)
{
    snprintf(t->title, NAME_SIZE, "%d runs of %lld step%s: %d result%s", r->n_runs,
             (long long)r->steps, ls__plural(r->steps), r->n_results, ls__plural(r->n_results));
    for (int k = 0; k < n_shown; k++) {
        const ls_repro_run *first = ls__repro_first_of(r, k);
        const int n = ls__repro_count(r, k);
        t->names[k] = t->results[k];
        const int at = snprintf(t->results[k], NAME_SIZE, "%d run%s: same result as %s", n,
                                ls__plural(n), first->name);
        if (k > 0)
            snprintf(t->results[k] + at, NAME_SIZE - (size_t)at, "; diverges at step %lld",
                     (long long)first->divergence.step);
    }
    int at = 0;
    if (r->n_results > n_shown)
        at = snprintf(t->note, NAME_SIZE, "Colours repeat for %d more results. ",
                      r->n_results - n_shown);
    if (r->runs[r->n_runs - 1].leg_count > 1)
        snprintf(t->note + at, NAME_SIZE - (size_t)at, "Gaps: interrupted and resumed.");
}

const char *ls__repro_letters(int result, char out[LS__REPRO_LETTERS_SIZE])
{
    int at = LS__REPRO_LETTERS_SIZE - 1;
    out[at] = '\0';
    for (int k = result + 1; k > 0 && at > 0; k = (k - 1) / 26)
        out[--at] = (char)('A' + (k - 1) % 26);
    return out + at;
}

typedef struct row_name {
    char text[LS__REPRO_NAME_SIZE + LS__REPRO_LETTERS_SIZE + 1];
} row_name;

ls_status ls__repro_put_chart(const ls_repro *r, ls__html *html)
{
    const int n_shown = r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS;
    char path[LS__REPRO_PATH_SIZE];
    texts t = { .note = "" };
    ls__chart_line lines[LS__CHART_COLOURS];
    ls__chart_row *rows = calloc((size_t)r->n_runs, sizeof(*rows));
    row_name *names = calloc((size_t)r->n_runs, sizeof(*names));
    ls_status status = rows && names ? LS_OK : ls__fail_memory(r->ctx, "chart", 0);
    for (int i = 0; status == LS_OK && i < r->n_runs; i++) {
        char letters[LS__REPRO_LETTERS_SIZE];
        const ls_repro_run *run = &r->runs[i], *first = ls__repro_first_of(r, run->result);
        snprintf(names[i].text, sizeof(names[i].text), "%s %s",
                 ls__repro_letters(run->result, letters), run->name);
        const ls__repro_parts *parts = &r->parts[first - r->runs];
        rows[i] = (ls__chart_row){ .name = html ? names[i].text : run->name,
                                   .n_spans = parts->n_spans,
                                   .spans = parts->spans,
                                   .n_marks = run->leg_count - 1,
                                   .marks = run->stops };
    }
    for (int k = 0; k < n_shown; k++)
        lines[k] = (ls__chart_line){ .n = r->steps, .y = ls__repro_first_of(r, k)->losses };
    make_texts(r, n_shown, &t);
    const ls__chart_panel panels[] = {
        { .y_label = "run",
          .note = html ? NULL : t.note,
          .n_names = html ? 0 : n_shown,
          .names = t.names,
          .n_rows = r->n_runs,
          .rows = rows },
        { .y_label = "loss", .may_coincide = true, .n_lines = n_shown, .lines = lines },
    };
    const ls__chart chart = {
        .title = html ? NULL : t.title, .x_label = "step", .n_panels = 2, .panels = panels
    };
    snprintf(path, sizeof(path), "%s/repro.svg", r->dir);
    if (status == LS_OK && html)
        ls__page_put_charts(html, "", "The result of each run by step, and the losses",
                            ls__chart_draw, &chart);
    else if (status == LS_OK)
        status = ls__chart_save(r->ctx, path, &chart);
    free(rows);
    free(names);
    return status;
}
