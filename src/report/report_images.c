/* report_images.c: the first images that a run trained on, and how many each class has; see
 * report.h. */
#include "report/page.h"
#include "report/report.h"

#include "io/json.h"
#include <string.h>

/* ---- The first batch ---- */

enum { MAX_SIDE = 4096, MAX_COLUMNS = 64, MAX_IMAGES = 64 }; /* runs write 32 images */

/* Of the grid in first_batch.jpg, in pixels. */
typedef struct grid {
    int64_t height, width, gap, columns, n;
} grid;

/* False if there are no labels, or numbers that no run writes. */
static bool read_grid(const json_t *samples, grid *out)
{
    *out = (grid){ ls__json_get_integer(samples, "height"), ls__json_get_integer(samples, "width"),
                   ls__json_get_integer(samples, "gap"), ls__json_get_integer(samples, "columns"),
                   (int64_t)json_array_size(json_object_get(samples, "labels")) };
    if (out->n > MAX_IMAGES) out->n = MAX_IMAGES;
    return out->n > 0 && out->height > 0 && out->height <= MAX_SIDE && out->width > 0 &&
           out->width <= MAX_SIDE && out->gap >= 0 && out->gap <= MAX_SIDE && out->columns > 0 &&
           out->columns <= MAX_COLUMNS;
}

/* In per cent of background-position: 0 = the first of n cells, 100 = the last one. */
static double place(int64_t i, int64_t n)
{
    return n > 1 ? 100.0 * (double)i / (double)(n - 1) : 0;
}

/* Each image is a part of the grid, which the page contains once. */
static void put_images(ls__html *html, const grid *g, const json_t *labels)
{
    const int64_t columns = g->n < g->columns ? g->n : g->columns;
    const int64_t rows = (g->n + g->columns - 1) / g->columns;
    const int64_t width = columns * (g->width + g->gap) - g->gap,
                  height = rows * (g->height + g->gap) - g->gap;
    for (int64_t i = 0; i < g->n; i++) {
        ls__html_put(html,
                     "<li><div role=\"img\" aria-label=\"image %lld\" "
                     "style=\"aspect-ratio:%lld/%lld;background-size:%.3f%% %.3f%%;"
                     "background-position:%.3f%% %.3f%%\"></div>",
                     (long long)i + 1, (long long)g->width, (long long)g->height,
                     100.0 * (double)width / (double)g->width,
                     100.0 * (double)height / (double)g->height, place(i % g->columns, columns),
                     place(i / g->columns, rows));
        ls__html_cell(html, "<p>", json_string_value(json_array_get(labels, (size_t)i)),
                      "</p></li>\n");
    }
}

void ls__report_put_first_batch(ls__html *html, const ls__report_run *run)
{
    grid g;
    if (!run->first_batch && !run->problems[LS__REPORT_FIRST_BATCH]) return;
    ls__html_wrap(html, "<section>\n<h2>First batch of ", run->dir, "</h2>\n");
    ls__report_put_problems(html, 1, run, LS__REPORT_FIRST_BATCH);
    if (run->first_batch)
        ls__html_put(html, "<p>Training images as the model received them, before normalization, "
                           "at most 96 pixels wide.</p>\n");
    if (run->first_batch && read_grid(run->first_samples, &g)) {
        const json_t *labels = json_object_get(run->first_samples, "labels");
        ls__html_put(html, "<ol class=\"images batch-images\" style=\"--image:url(");
        ls__bytes_put(html, run->first_batch, strlen(run->first_batch)); /* it needs no escapes */
        ls__html_put(html, ")\">\n");
        put_images(html, &g, labels);
        ls__html_put(html, "</ol>\n");
        ls__html_left_out(html, "labels", (int64_t)json_array_size(labels), MAX_IMAGES);
    } else if (run->first_batch) {
        ls__html_put(html,
                     "<img class=\"batch\" alt=\"The first training images of the run\" src=\"");
        ls__bytes_put(html, run->first_batch, strlen(run->first_batch));
        ls__html_put(html, "\">\n");
    }
    ls__html_put(html, "</section>\n");
}

/* ---- Classes ---- */

enum { OPEN_CLASSES = 50 };

static int64_t count_at(const json_t *counts, size_t i)
{
    const int64_t n = json_integer_value(json_array_get(counts, i));
    return n > 0 ? n : 0;
}

static void put_row(ls__html *html, const json_t *name, int64_t n, int64_t max)
{
    char count[LS__COUNT_SIZE];
    ls__html_cell(html, "<tr><th scope=\"row\">", json_string_value(name), "</th>");
    ls__html_put(html, "<td class=\"number bar\" style=\"--v:%.3f\">%s</td></tr>\n",
                 max > 0 ? (double)n / (double)max : 0, ls__html_count(n, count));
}

void ls__report_put_class_images(ls__html *html, const ls__report_run *run)
{
    const json_t *data = json_object_get(run->config, "data");
    const json_t *names = json_object_get(data, "classes");
    const json_t *counts = json_object_get(data, "class_images");
    const size_t n = json_array_size(counts);
    char texts[2][LS__COUNT_SIZE];
    if (n == 0 || json_array_size(names) != n) return;
    int64_t min = count_at(counts, 0), max = min;
    for (size_t i = 1; i < n; i++) {
        const int64_t count = count_at(counts, i);
        min = count < min ? count : min;
        max = count > max ? count : max;
    }
    ls__html_put(html, "<section>\n<h2>Training images of each class</h2>\n<div class=\"card\">\n");
    ls__html_count(min, texts[0]);
    ls__html_count(max, texts[1]);
    ls__html_put(html, "<details%s>\n<summary>%zu classes of %s to %s images</summary>\n",
                 n <= OPEN_CLASSES ? " open" : "", n, texts[0], texts[1]);
    ls__page_begin_table(html, "Training images of each class", LS__TABLE_HIDDEN);
    ls__page_put_heads(html, "class|#images");
    ls__page_begin_rows(html);
    const size_t begin = html->size;
    size_t n_shown = 0;
    for (; n_shown < n && html->size - begin <= LS__TABLE_BYTES; n_shown++)
        put_row(html, json_array_get(names, n_shown), count_at(counts, n_shown), max);
    ls__page_end_table(html);
    ls__html_put(html, "</details>\n");
    ls__html_left_out(html, "classes", (int64_t)n, (int64_t)n_shown);
    ls__html_put(html, "</div>\n</section>\n");
}
