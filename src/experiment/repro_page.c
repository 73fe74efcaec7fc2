/* repro_page.c: the report of an experiment and its chart; see repro_state.h. */
#include "experiment/repro_state.h"

#include "base/error.h"
#include "io/json.h"
#include "report/page.h"
#include "report/report.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_COMPARED = 8 }; /* results with a command that compares them */

/* ---- The axes ---- */

typedef enum repro_axis { WORKERS, THREADS, RANKS, INTERRUPTIONS, N_AXES } repro_axis;

/* The number of a run on an axis, at the beginning of the run. */
static int number_of(const ls_repro_run *run, repro_axis axis)
{
    const ls_repro_leg *first = &run->legs[0];
    return axis == WORKERS   ? first->workers
           : axis == THREADS ? first->threads
           : axis == RANKS   ? first->ranks
                             : run->leg_count - 1;
}

/* The different numbers on an axis, in the order of the runs. Returns how many. */
static int find_numbers(const ls_repro *r, repro_axis axis, int out[LS__REPRO_MAX_AXIS])
{
    int n = 0;
    for (int i = 0; i < r->n_runs; i++) {
        const int number = number_of(&r->runs[i], axis);
        int k = 0;
        while (k < n && out[k] != number) k++;
        if (k == n && n < LS__REPRO_MAX_AXIS) out[n++] = number;
    }
    return n;
}

/* Whether runs with the same number on the axis have the same result. */
static bool decides(const ls_repro *r, repro_axis axis)
{
    for (int i = 0; i < r->n_runs; i++) {
        int first = 0;
        while (number_of(&r->runs[first], axis) != number_of(&r->runs[i], axis)) first++;
        if (r->runs[first].result != r->runs[i].result) return false;
    }
    return true;
}

/* ---- The verdict ---- */

static void put_divergence(const ls_repro *r, ls__html *html, const ls_repro_run *run)
{
    const char *names[LS_RUN_LOG_FIELDS];
    const int n = ls_run_log_fields(&run->divergence, names);
    const long long step = (long long)run->divergence.step;
    const long long per_epoch = r->steps_per_epoch > 0 ? (long long)r->steps_per_epoch : 1;
    ls__html_put(html, "step %lld (step %lld of epoch %lld): ", step, step % per_epoch + 1,
                 step / per_epoch + 1);
    for (int i = 0; i < n; i++) ls__html_put(html, "%s%s", i > 0 ? ", " : "", names[i]);
}

static void put_verdict(const ls_repro *r, ls__html *html)
{
    static const char *const axes[] = { "number of workers", "number of threads", "number of ranks",
                                        "number of interruptions" };
    if (r->n_results == 1) {
        ls__html_put(html,
                     "<p class=\"card\"><b>One result: all %d runs are bit-identical in all %lld "
                     "step%s.</b></p>\n",
                     r->n_runs, (long long)r->steps, ls__plural(r->steps));
        return;
    }
    const ls_repro_run *earliest = ls__repro_first_of(r, 1);
    for (int k = 2; k < r->n_results; k++)
        if (ls__repro_first_of(r, k)->divergence.step < earliest->divergence.step)
            earliest = ls__repro_first_of(r, k);
    ls__html_put(html, "<p class=\"card\"><b>%d results: the runs differ</b>, first in ",
                 r->n_results);
    put_divergence(r, html, earliest);
    ls__html_put(html, ".");
    for (int axis = 0; axis < N_AXES; axis++)
        if (decides(r, (repro_axis)axis))
            ls__html_put(html, " Runs with the same %s have the same result.", axes[axis]);
    ls__html_put(html, "</p>\n");
}

/* ---- Which runs agree ---- */

/* "A", "B", ..., "Z", "AA", ...: the name of a result. */
enum { LETTERS_SIZE = 8 };
static const char *letters_of(int result, char out[LETTERS_SIZE])
{
    int at = LETTERS_SIZE - 1;
    out[at] = '\0';
    for (int k = result + 1; k > 0 && at > 0; k = (k - 1) / 26)
        out[--at] = (char)('A' + (k - 1) % 26);
    return out + at;
}

static void put_letters(ls__html *html, const char *element, int result)
{
    char letters[LETTERS_SIZE];
    ls__html_put(html, "<%s class=\"result-%d\"><b>%s</b>", element, result % LS__CHART_COLOURS,
                 letters_of(result, letters));
}

/* Leg i > 0 as "@20 4x3" */
static void put_leg(const ls_repro *r, ls__html *html, const ls_repro_run *run, int i)
{
    const ls_repro_leg *leg = &run->legs[i];
    ls__html_put(html, "@%lld %dx%d", (long long)run->stops[i - 1], leg->workers, leg->threads);
    if (r->has_ranks) ls__html_put(html, "x%d", leg->ranks);
}

/* "2 workers, 1 thread, 4 ranks" */
static void put_leg_in_words(const ls_repro *r, ls__html *html, const ls_repro_leg *leg)
{
    ls__html_put(html, "%d worker%s, %d thread%s", leg->workers, ls__plural(leg->workers),
                 leg->threads, ls__plural(leg->threads));
    if (r->has_ranks) ls__html_put(html, ", %d rank%s", leg->ranks, ls__plural(leg->ranks));
}

static void put_cell(const ls_repro *r, ls__html *html, const ls_repro_run *run)
{
    put_letters(html, "td", run->result);
    for (int i = 1; i < run->leg_count; i++) {
        ls__html_put(html, "<span>");
        put_leg(r, html, run, i);
        ls__html_put(html, "</span>");
    }
    if (run->divergence.step >= 0)
        ls__html_put(html, "<span>from step %lld</span>", (long long)run->divergence.step);
    ls__html_put(html, "</td>");
}

/* Workers by threads, of the runs with this number of ranks and of interruptions. */
static void put_grid(const ls_repro *r, ls__html *html, int ranks, int interruptions)
{
    int workers[LS__REPRO_MAX_AXIS], threads[LS__REPRO_MAX_AXIS];
    const int n_workers = find_numbers(r, WORKERS, workers),
              n_threads = find_numbers(r, THREADS, threads);
    char caption[96] = "Without interruption";
    if (interruptions > 0)
        snprintf(caption, sizeof(caption), "Interrupted %d time%s and resumed", interruptions,
                 ls__plural(interruptions));
    ls__html_put(html, "<table class=\"runs-grid\">\n<caption>%s", caption);
    if (r->has_ranks) ls__html_put(html, ", %d rank%s", ranks, ls__plural(ranks));
    ls__html_put(html, "</caption>\n<thead><tr><th scope=\"col\">workers</th>");
    for (int t = 0; t < n_threads; t++)
        ls__html_put(html, "<th scope=\"col\">%d thread%s</th>", threads[t],
                     ls__plural(threads[t]));
    ls__html_put(html, "</tr></thead>\n<tbody>\n");
    for (int w = 0; w < n_workers; w++) {
        ls__html_put(html, "<tr><th scope=\"row\">%d</th>", workers[w]);
        for (int t = 0; t < n_threads; t++)
            for (int i = 0; i < r->n_runs; i++) {
                const ls_repro_run *run = &r->runs[i];
                if (number_of(run, WORKERS) == workers[w] &&
                    number_of(run, THREADS) == threads[t] && number_of(run, RANKS) == ranks &&
                    number_of(run, INTERRUPTIONS) == interruptions)
                    put_cell(r, html, run);
            }
        ls__html_put(html, "</tr>\n");
    }
    ls__html_put(html, "</tbody>\n</table>\n");
}

static void put_grids(const ls_repro *r, ls__html *html)
{
    int ranks[LS__REPRO_MAX_AXIS], interruptions[LS__REPRO_MAX_AXIS];
    const int n_ranks = find_numbers(r, RANKS, ranks),
              n_interruptions = find_numbers(r, INTERRUPTIONS, interruptions);
    ls__html_put(html, "<section>\n<h2>Which runs agree</h2>\n<p>Runs with the same letter are "
                       "bit-identical: the digests of the batches, losses, gradients and weights "
                       "of all steps are equal.</p>\n<div class=\"grids\">\n");
    for (int k = 0; k < n_interruptions; k++)
        for (int i = 0; i < n_ranks; i++) {
            ls__html_put(html, "<div class=\"card scroll\" role=\"region\" tabindex=\"0\" "
                               "aria-label=\"Runs\">\n");
            put_grid(r, html, ranks[i], interruptions[k]);
            ls__html_put(html, "</div>\n");
        }
    ls__html_put(html, "</div>\n<p class=\"note\">Steps of a run are counted from 0, as in "
                       "run_log.txt, and steps of an epoch from 1.</p>\n");
    const ls_repro_run *last = &r->runs[r->n_runs - 1]; /* has interruptions if any run has */
    if (n_interruptions > 1 && last->leg_count > 1) {
        ls__html_put(html, "<p class=\"note\">");
        put_leg(r, html, last, 1);
        ls__html_put(html, ": interrupted after %lld step%s, resumed with ",
                     (long long)last->stops[0], ls__plural(last->stops[0]));
        put_leg_in_words(r, html, &last->legs[1]);
        ls__html_put(html, ".</p>\n");
    }
    ls__html_put(html, "</section>\n");
}

static void put_results(const ls_repro *r, ls__html *html)
{
    ls__html_put(html, "<section>\n<h2>Results</h2>\n");
    ls__page_begin_table(html, "Results", LS__TABLE_CARD);
    ls__page_put_heads(html, "result|#runs|#last loss|digest of the last weights|first run");
    if (r->n_results > 1) ls__page_put_heads(html, "differs from A first in");
    ls__page_begin_rows(html);
    for (int k = 0; k < r->n_results; k++) {
        const ls_repro_run *first = ls__repro_first_of(r, k);
        char digest[LS_DIGEST_TEXT_SIZE];
        ls__html_put(html, "<tr>");
        put_letters(html, "th scope=\"row\"", k);
        ls__html_put(html, "</th><td class=\"number\">%d</td><td class=\"number\">%.6f</td>",
                     ls__repro_count(r, k), first->losses[r->steps - 1]);
        ls__html_put(html, "<td>%s</td><td>%s</td>", ls_digest_text(first->weights, digest),
                     first->name);
        if (r->n_results > 1) ls__html_put(html, k > 0 ? "<td class=\"line\">" : "<td>&ndash;");
        if (k > 0) put_divergence(r, html, first);
        ls__html_put(html, r->n_results > 1 ? "</td></tr>\n" : "</tr>\n");
    }
    ls__page_end_table(html);
    ls__html_put(html, "</section>\n");
}

/* ---- The chart ---- */

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

typedef struct row_name {
    char text[LS__REPRO_NAME_SIZE + LETTERS_SIZE + 1];
} row_name;

/* A row per run with a colour per result, above the losses of each result: into a page, whose text
 * has the legend, so that the rows have the letters of their results; html NULL: DIR/repro.svg. */
static ls_status put_chart(const ls_repro *r, ls__html *html)
{
    const int n_shown = r->n_results < LS__CHART_COLOURS ? r->n_results : LS__CHART_COLOURS;
    char path[LS__REPRO_PATH_SIZE];
    texts t = { .note = "" };
    ls__chart_line lines[LS__CHART_COLOURS];
    ls__chart_row *rows = calloc((size_t)r->n_runs, sizeof(*rows));
    row_name *names = calloc((size_t)r->n_runs, sizeof(*names));
    ls_status status = rows && names ? LS_OK : ls__fail_memory(r->ctx, "chart", 0);
    for (int i = 0; status == LS_OK && i < r->n_runs; i++) {
        char letters[LETTERS_SIZE];
        const ls_repro_run *run = &r->runs[i], *first = ls__repro_first_of(r, run->result);
        snprintf(names[i].text, sizeof(names[i].text), "%s %s", letters_of(run->result, letters),
                 run->name);
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

/* ---- The commands ---- */

static void put_commands(const ls_repro *r, ls__html *html)
{
    ls__words own = { 0 }; /* the experiment again: the settings that were given */
    ls__words_put(&own, "%s", r->program_name);
    ls__words_put(&own, "repro");
    ls__repro_put_settings(r, false, &own);
    ls__html_put(html, "<section>\n<h2>Commands</h2>\n<div class=\"card\">\n<h3>The same "
                       "experiment</h3>\n");
    ls__page_put_words(html, &own);
    if (r->n_results > 1)
        ls__html_put(html, "</div>\n<div class=\"card\">\n<h3>Where two results diverge</h3>\n");
    for (int k = 1; k < r->n_results && k <= MAX_COMPARED; k++) {
        ls__words words = { 0 };
        ls__words_put(&words, "%s", r->program_name);
        ls__words_put(&words, "compare");
        ls__words_put(&words, "%s/%s", r->dir, r->runs[0].name);
        ls__words_put(&words, "%s/%s", r->dir, ls__repro_first_of(r, k)->name);
        ls__page_put_words(html, &words);
    }
    ls__html_put(html, "</div>\n</section>\n");
}

/* ---- The page ---- */

static ls_status put_steps(const ls_repro *r, ls__html *html)
{
    ls__html_put(html, "<section>\n<h2>Steps</h2>\n<figure>\n<figcaption>The result of each run by "
                       "step, and the losses</figcaption>\n");
    LS_TRY(put_chart(r, html));
    if (r->runs[r->n_runs - 1].leg_count > 1)
        ls__html_put(html, "<p class=\"note\">Gaps: interrupted and resumed.</p>\n");
    ls__html_put(html, "</figure>\n</section>\n");
    return LS_OK;
}

/* Settings and environment of the first run. */
static ls_status put_run(const ls_repro *r, ls__html *html)
{
    char dir[LS__REPRO_PATH_SIZE], path[LS__REPRO_PATH_SIZE + 32], reason[LS__JSON_REASON_SIZE];
    static const char *const names[] = { "config.json", "manifest.json" };
    snprintf(dir, sizeof(dir), "%s/%s", r->dir, r->runs[0].name);
    ls__report_run run = { .dir = dir };
    ls_status status = LS_OK;
    for (int i = 0; i < 2 && status == LS_OK; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        status = ls__json_read_own(path, i == 0 ? &run.config : &run.manifest, reason);
        if (status != LS_OK) ls__fail(r->ctx, status, "%s: %s", path, reason);
    }
    if (status == LS_OK) {
        ls__report_put_settings(html, 1, &run);
        ls__report_put_environment(html, 1, &run);
        ls__html_put(html, "<p class=\"note\">Of run %s.</p>\n", r->runs[0].name);
    }
    ls__report_free(r->ctx, &run);
    return status;
}

static ls_status write_page(const ls_repro *r, ls__html *html)
{
    ls__page_begin(html, r->dir);
    ls__html_put(html, "<p>reproducibility of %d runs of %lld step%s</p>\n", r->n_runs,
                 (long long)r->steps, ls__plural(r->steps));
    ls__page_main(html);
    put_verdict(r, html);
    put_grids(r, html);
    put_results(r, html);
    LS_TRY(put_steps(r, html));
    put_commands(r, html);
    LS_TRY(put_run(r, html));
    return ls__page_save(html, r->dir, NULL);
}

ls_status ls__repro_write_report(const ls_repro *r)
{
    ls__html html = { .ctx = r->ctx };
    const ls_status status = write_page(r, &html);
    ls__bytes_free(&html);
    return status == LS_OK ? put_chart(r, NULL) : status;
}
