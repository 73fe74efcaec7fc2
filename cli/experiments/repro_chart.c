/* repro_chart.c: which runs agree in each step, and the losses; see repro.h. */
#include "experiments/repro.h"
#include "report/page.h"
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

const char *repro_letters(int result, char out[REPRO_LETTERS_SIZE])
{
    int at = REPRO_LETTERS_SIZE - 1;
    out[at] = '\0';
    for (int k = result + 1; k > 0 && at > 0; k = (k - 1) / 26)
        out[--at] = (char)('A' + (k - 1) % 26);
    return out + at;
}

typedef struct row_name {
    char text[sizeof(((repro_run *)NULL)->name) + REPRO_LETTERS_SIZE + 1];
} row_name;

/* Writes OUT/repro.svg with these texts, or with `html` puts the chart into a page. */
static int plot(const repro *r, const texts *t, ls__html *html, const char *class, int width)
{
    char path[REPRO_PATH_SIZE + 16], *svg;
    size_t size;
    const int n_shown = r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS;
    ls__chart_row *rows = calloc((size_t)r->n_runs, sizeof(*rows));
    row_name *names = calloc((size_t)r->n_runs, sizeof(*names));
    ls__chart_line lines[LS__CHART_COLOURS];
    for (int i = 0; rows && names && i < r->n_runs; i++) {
        char letters[REPRO_LETTERS_SIZE];
        const repro_run *run = &r->runs[i], *first = repro_first_of(r, run->result);
        snprintf(names[i].text, sizeof(names[i].text), "%s %s", repro_letters(run->result, letters),
                 run->name);
        rows[i] = (ls__chart_row){ .name = t ? run->name : names[i].text,
                                   .n_spans = first->n_spans,
                                   .spans = first->spans,
                                   .n_marks = run->n_legs - 1,
                                   .marks = run->stops };
    }
    for (int k = 0; k < n_shown; k++)
        lines[k] = (ls__chart_line){ .n = r->steps, .y = repro_first_of(r, k)->losses };
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
    ls_status status = LS_ERR_MEMORY;
    snprintf(path, sizeof(path), "%s/repro.svg", r->out);
    const bool has_memory = rows && names;
    if (has_memory)
        status = html ? ls__chart_format(r->ctx, &chart, &svg, &size)
                      : ls__chart_save(r->ctx, path, &chart);
    if (html && status == LS_OK)
        ls__page_put_svg(html, class, "The result of each run by step, and the losses", svg, size);
    free(rows);
    free(names);
    return status == LS_OK ? EXIT_DONE : print_error(has_memory ? r->ctx : NULL, EXIT_NO_VERDICT);
}

int repro_put_plot(const repro *r, ls__html *html, const char *class, int width)
{
    return plot(r, NULL, html, class, width);
}

int repro_plot(const repro *r)
{
    texts t = { .note = "" };
    make_texts(r, r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS, &t);
    return plot(r, &t, NULL, "", 0);
}
