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

/* Writes DIR/repro.svg with these texts, or with `html` puts the chart into a page. */
static ls_status draw(const ls_repro *r, const texts *t, ls__html *html, const char *class,
                      int width)
{
    char path[LS__REPRO_PATH_SIZE], *svg;
    size_t size;
    const int n_shown = r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS;
    ls__chart_row *rows = calloc((size_t)r->n_runs, sizeof(*rows));
    row_name *names = calloc((size_t)r->n_runs, sizeof(*names));
    ls__chart_line lines[LS__CHART_COLOURS];
    for (int i = 0; rows && names && i < r->n_runs; i++) {
        char letters[LS__REPRO_LETTERS_SIZE];
        const ls_repro_run *run = &r->runs[i], *first = ls__repro_first_of(r, run->result);
        snprintf(names[i].text, sizeof(names[i].text), "%s %s",
                 ls__repro_letters(run->result, letters), run->name);
        const ls__repro_parts *parts = &r->parts[first - r->runs];
        rows[i] = (ls__chart_row){ .name = t ? run->name : names[i].text,
                                   .n_spans = parts->n_spans,
                                   .spans = parts->spans,
                                   .n_marks = run->leg_count - 1,
                                   .marks = run->stops };
    }
    for (int k = 0; k < n_shown; k++)
        lines[k] = (ls__chart_line){ .n = r->steps, .y = ls__repro_first_of(r, k)->losses };
    const ls__chart_panel panels[] = {
        { .y_label = "run",
          .note = t ? t->note : NULL,
          .n_names = t ? n_shown : 0,
          .names = t ? t->names : NULL,
          .n_rows = r->n_runs,
          .rows = rows },
        { .y_label = "loss", .may_coincide = true, .n_lines = n_shown, .lines = lines },
    };
    const ls__chart chart = { .title = t ? t->title : NULL,
                              .x_label = "step",
                              .width = width,
                              .n_panels = 2,
                              .panels = panels };
    ls_status status;
    snprintf(path, sizeof(path), "%s/repro.svg", r->dir);
    if (!rows || !names)
        status = ls__fail_memory(r->ctx, "chart", 0);
    else
        status = html ? ls__chart_format(r->ctx, &chart, &svg, &size)
                      : ls__chart_save(r->ctx, path, &chart);
    if (html && status == LS_OK)
        ls__page_put_svg(html, class, "The result of each run by step, and the losses", svg, size);
    free(rows);
    free(names);
    return status;
}

ls_status ls__repro_put_plot(const ls_repro *r, ls__html *html, const char *class, int width)
{
    return draw(r, NULL, html, class, width);
}

ls_status ls__repro_plot(const ls_repro *r)
{
    texts t = { .note = "" };
    make_texts(r, r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS, &t);
    return draw(r, &t, NULL, "", 0);
}
