/* report_classes.c: how many images each class of a run has; see report.h. */
#include "report/page.h"
#include "report/report.h"

#include "io/json.h"

enum { OPEN_CLASSES = 50 };

static int64_t count_at(const json_t *counts, size_t i)
{
    const int64_t n = json_integer_value(json_array_get(counts, i));
    return n > 0 ? n : 0;
}

static void put_row(ls__html *html, const json_t *name, int64_t n, int64_t most)
{
    char count[LS__COUNT_SIZE];
    ls__html_cell(html, "<tr><th scope=\"row\">", json_string_value(name), "</th>");
    ls__html_put(html, "<td class=\"number bar\" style=\"--v:%.3f\">%s</td></tr>\n",
                 most > 0 ? (double)n / (double)most : 0, ls__html_count(n, count));
}

void ls__report_put_class_images(ls__html *html, const ls__report_run *run)
{
    const json_t *data = json_object_get(run->config, "data");
    const json_t *names = json_object_get(data, "classes");
    const json_t *counts = json_object_get(data, "class_images");
    const size_t n = json_array_size(counts);
    char texts[2][LS__COUNT_SIZE];
    if (n == 0 || json_array_size(names) != n) return;
    int64_t least = count_at(counts, 0), most = least;
    for (size_t i = 1; i < n; i++) {
        const int64_t count = count_at(counts, i);
        least = count < least ? count : least;
        most = count > most ? count : most;
    }
    ls__html_put(html, "<section>\n<h2>Training images of each class</h2>\n<div class=\"card\">\n");
    ls__html_count(least, texts[0]);
    ls__html_count(most, texts[1]);
    ls__html_put(html, "<details%s>\n<summary>%zu classes of %s to %s images</summary>\n",
                 n <= OPEN_CLASSES ? " open" : "", n, texts[0], texts[1]);
    ls__html_put(html,
                 "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Training "
                 "images of each class\">\n<table>\n<caption class=\"hidden\">Training images "
                 "of each class</caption>\n<thead><tr><th scope=\"col\">class</th><th "
                 "scope=\"col\" class=\"number\">images</th></tr></thead>\n<tbody>\n");
    const size_t begin = html->size;
    size_t n_shown = 0;
    for (; n_shown < n && html->size - begin <= LS__TABLE_BYTES; n_shown++)
        put_row(html, json_array_get(names, n_shown), count_at(counts, n_shown), most);
    ls__html_put(html, "</tbody>\n</table>\n</div>\n</details>\n");
    ls__html_left_out(html, "classes", (int64_t)n, (int64_t)n_shown);
    ls__html_put(html, "</div>\n</section>\n");
}
