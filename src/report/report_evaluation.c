/* report_evaluation.c: evaluation.json of a run as a part of its report; see report.h. The file may
 * have been changed by others: what is missing or out of range is left out. */
#include "report/report.h"

#include "io/json.h"
#include "report/page.h"
#include <stdio.h>
#include <string.h>

enum {
    MATRIX_CLASSES = 30,
    MAX_PAIRS = 20,
    OPEN_CLASSES = 50,
    /* More than a run writes: 24 mistakes with images of 128 pixels, and 15 bins. */
    MAX_MISTAKES = 100,
    MAX_IMAGE_BYTES = 256 << 10, /* as a data URI */
    MAX_BINS = 100
};

static double real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* The name of a class; NULL out of range. */
static const char *class_name(const json_t *evaluation, int64_t i)
{
    const json_t *classes = json_object_get(evaluation, "classes");
    const bool is_there = i >= 0 && (size_t)i < json_array_size(classes);
    return is_there ? ls__json_get_string(json_array_get(classes, (size_t)i), "class") : NULL;
}

static void put_tile(ls__html *html, const char *name, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.4f", value);
    ls__page_put_tile(html, name, text);
}

static void put_tiles(ls__html *html, const json_t *e)
{
    const json_t *macro = json_object_get(e, "macro");
    char count[LS__COUNT_SIZE];
    ls__page_begin_tiles(html, json_object_get(e, "top5") ? 7 : 6);
    ls__page_put_tile(html, "images", ls__html_count(ls__json_get_integer(e, "images"), count));
    put_tile(html, "top-1", real(e, "top1"));
    if (json_object_get(e, "top5")) put_tile(html, "top-5", real(e, "top5"));
    put_tile(html, "mean precision", real(macro, "precision"));
    put_tile(html, "mean recall", real(macro, "recall"));
    put_tile(html, "mean F1", real(macro, "f1"));
    put_tile(html, "calibration error", real(e, "calibration_error"));
    ls__html_put(html, "</ul>\n");
}

/* ---- The confusion matrix ---- */

typedef struct element {
    int64_t label, predicted, images;
} element;

/* A file may state any number. Sums of these fit. */
static const int64_t MAX_IMAGES = (int64_t)1 << 40;

/* False if it is not one of n classes. */
static bool read_element(const json_t *list, int64_t n, element *out)
{
    *out = (element){ json_integer_value(json_array_get(list, 0)),
                      json_integer_value(json_array_get(list, 1)),
                      json_integer_value(json_array_get(list, 2)) };
    return out->label >= 0 && out->label < n && out->predicted >= 0 && out->predicted < n &&
           out->images > 0 && out->images <= MAX_IMAGES;
}

static void put_cell(ls__html *html, const json_t *e, int label, int predicted, int64_t images,
                     int64_t total)
{
    if (images == 0) {
        ls__html_put(html, "<td class=\"zero\">0</td>");
        return;
    }
    const double share = (double)images / (double)total;
    ls__html_put(html, "<td class=\"%s%s\" style=\"--a:%.3f\" title=\"",
                 label == predicted ? "right" : "wrong", share > 0.8 ? " strong" : "",
                 0.1 + 0.75 * share);
    ls__html_text(html, class_name(e, label));
    ls__html_wrap(html, " predicted as ", class_name(e, predicted), "");
    char counts[2][LS__COUNT_SIZE];
    ls__html_count(images, counts[0]);
    ls__html_count(total, counts[1]);
    ls__html_put(html, ": %s of %s\">%s<small>%.0f %%</small></td>", counts[0], counts[1],
                 counts[0], 100 * share);
}

static void put_matrix(ls__html *html, const json_t *e, int n)
{
    int64_t counts[MATRIX_CLASSES][MATRIX_CLASSES] = { 0 }, totals[MATRIX_CLASSES] = { 0 };
    const json_t *list;
    size_t i;
    json_array_foreach(json_object_get(e, "confusion"), i, list)
    {
        element c;
        if (!read_element(list, n, &c)) continue;
        counts[c.label][c.predicted] = c.images;
    }
    for (int l = 0; l < n; l++)
        for (int k = 0; k < n; k++) totals[l] += counts[l][k];
    ls__html_put(html, "<h3>Confusion matrix</h3>\n<p class=\"note\">A row per class, a column per "
                       "predicted class. Below the number of "
                       "images is their share of the row; the darker a cell, the larger it "
                       "is.</p>\n");
    ls__page_begin_table(html, "Confusion matrix", LS__TABLE_MATRIX);
    ls__html_put(html, "<td></td>");
    for (int k = 0; k < n; k++)
        ls__html_cell(html, "<th scope=\"col\"><span>", class_name(e, k), "</span></th>");
    ls__page_begin_rows(html);
    for (int l = 0; l < n; l++) {
        ls__html_cell(html, "<tr><th scope=\"row\">", class_name(e, l), "</th>");
        for (int k = 0; k < n; k++) put_cell(html, e, l, k, counts[l][k], totals[l]);
        ls__html_put(html, "</tr>\n");
    }
    ls__page_end_table(html);
}

/* Most images first, then in the order of the file. */
static void keep_largest(element *kept, int *n, const element *c)
{
    int at = *n < MAX_PAIRS ? (*n)++ : MAX_PAIRS - 1;
    if (at == MAX_PAIRS - 1 && *n == MAX_PAIRS && kept[at].images >= c->images) return;
    for (; at > 0 && kept[at - 1].images < c->images; at--) kept[at] = kept[at - 1];
    kept[at] = *c;
}

static void put_pairs(ls__html *html, const json_t *e, int64_t n)
{
    element kept[MAX_PAIRS] = { 0 };
    char count[LS__COUNT_SIZE];
    int n_kept = 0;
    const json_t *list;
    size_t i;
    json_array_foreach(json_object_get(e, "confusion"), i, list)
    {
        element c;
        if (read_element(list, n, &c) && c.label != c.predicted) keep_largest(kept, &n_kept, &c);
    }
    ls__page_begin_table(html, "Most confused classes", LS__TABLE_PLAIN);
    ls__page_put_heads(html, "class|predicted as|#images");
    ls__page_begin_rows(html);
    for (int k = 0; k < n_kept; k++) {
        ls__html_cell(html, "<tr><th scope=\"row\">", class_name(e, kept[k].label), "</th>");
        ls__html_cell(html, "<td>", class_name(e, kept[k].predicted), "</td>");
        ls__html_put(html, "<td class=\"number\">%s</td></tr>\n",
                     ls__html_count(kept[k].images, count));
    }
    ls__page_end_table(html);
}

/* ---- The table of the classes ---- */

static void put_score(ls__html *html, const json_t *class, const char *key)
{
    const double value = real(class, key);
    if (!json_is_number(json_object_get(class, key)))
        ls__html_put(html, "<td class=\"number\">&ndash;</td>");
    else
        ls__html_put(html, "<td class=\"number bar\" style=\"--v:%.3f\">%.3f</td>", value, value);
}

static void put_classes(ls__html *html, const json_t *e)
{
    const json_t *classes = json_object_get(e, "classes"), *class;
    char count[LS__COUNT_SIZE];
    size_t i;
    ls__html_put(html, "<details%s>\n<summary>Precision, recall and F1 of each class</summary>\n",
                 json_array_size(classes) <= OPEN_CLASSES ? " open" : "");
    ls__page_begin_table(html, "Scores of the classes", LS__TABLE_HIDDEN);
    ls__page_put_heads(html, "class|#images|#precision|#recall|#F1");
    ls__page_begin_rows(html);
    const size_t begin = html->size;
    int64_t n_shown = 0;
    json_array_foreach(classes, i, class)
    {
        if (html->size - begin > LS__TABLE_BYTES) break;
        n_shown++;
        ls__html_cell(html, "<tr><th scope=\"row\">", ls__json_get_string(class, "class"), "</th>");
        ls__html_put(html, "<td class=\"number\">%s</td>",
                     ls__html_count(ls__json_get_integer(class, "images"), count));
        put_score(html, class, "precision");
        put_score(html, class, "recall");
        put_score(html, class, "f1");
        ls__html_put(html, "</tr>\n");
    }
    ls__page_end_table(html);
    ls__html_put(html, "</details>\n");
    ls__html_left_out(html, "classes", (int64_t)json_array_size(classes), n_shown);
}

/* ---- Calibration ---- */

/* Pixels of the diagram. */
enum { LEFT = 52, TOP = 12, SIDE = 300, WIDTH = LEFT + SIDE + 16, HEIGHT = TOP + SIDE + 48 };

static void put_diagram_axes(ls__html *html)
{
    for (int k = 0; k <= 5; k++) {
        const double at = k / 5.0 * SIDE;
        ls__html_put(html, "<path class=\"grid-line\" d=\"M%d %.1fH%d\"/>", LEFT, TOP + SIDE - at,
                     LEFT + SIDE);
        ls__html_put(html, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>", LEFT - 8,
                     TOP + SIDE - at + 5, k / 5.0);
        ls__html_put(html, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f</text>\n",
                     LEFT + at, TOP + SIDE + 20, k / 5.0);
    }
    ls__html_put(html, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">confidence</text>\n",
                 LEFT + SIDE / 2, TOP + SIDE + 42);
    ls__html_put(html,
                 "<text x=\"14\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 14 "
                 "%d)\">accuracy</text>\n",
                 TOP + SIDE / 2, TOP + SIDE / 2);
}

/* The accuracy as a bar, and its distance from the confidence as a frame. */
static void put_diagram(ls__html *html, const json_t *bins)
{
    const double width = (double)SIDE / (double)json_array_size(bins);
    const json_t *bin;
    size_t i;
    ls__html_put(html,
                 "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Accuracy by "
                 "confidence; the numbers are in the table below\">\n",
                 WIDTH, HEIGHT);
    put_diagram_axes(html);
    json_array_foreach(bins, i, bin)
    {
        const double accuracy = real(bin, "accuracy"), confidence = real(bin, "confidence");
        const double x = LEFT + (double)i * width + 1;
        if (ls__json_get_integer(bin, "images") <= 0) continue;
        const double low = accuracy < confidence ? accuracy : confidence;
        const double high = accuracy < confidence ? confidence : accuracy;
        ls__html_put(html,
                     "<rect class=\"accuracy\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                     "height=\"%.1f\"/>",
                     x, TOP + SIDE * (1 - accuracy), width - 2, SIDE * accuracy);
        ls__html_put(html,
                     "<rect class=\"gap%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                     "height=\"%.1f\"/>\n",
                     accuracy > confidence ? " under" : "", x, TOP + SIDE * (1 - high), width - 2,
                     SIDE * (high - low));
    }
    ls__html_put(html, "<path class=\"ideal\" d=\"M%d %dL%d %d\"/>\n</svg>\n", LEFT, TOP + SIDE,
                 LEFT + SIDE, TOP);
}

static void put_bins(ls__html *html, const json_t *bins)
{
    const json_t *bin;
    size_t i;
    ls__html_put(html, "<details>\n<summary>The bins as a table</summary>\n<table>\n<caption>Bins "
                       "of the calibration</caption>\n<thead><tr>");
    ls__page_put_heads(html, "confidence from|#images|#mean confidence|#accuracy");
    ls__page_begin_rows(html);
    json_array_foreach(bins, i, bin)
    {
        ls__html_put(html,
                     "<tr><th scope=\"row\">%.3f</th><td class=\"number\">%lld</td><td "
                     "class=\"number\">%.3f</td><td class=\"number\">%.3f</td></tr>\n",
                     (double)i / (double)json_array_size(bins), ls__json_get_integer(bin, "images"),
                     real(bin, "confidence"), real(bin, "accuracy"));
    }
    ls__html_put(html, "</tbody>\n</table>\n</details>\n");
}

static void put_calibration(ls__html *html, const json_t *e)
{
    const json_t *bins = json_object_get(e, "calibration");
    const int64_t n = (int64_t)json_array_size(bins);
    if (n == 0) return;
    ls__html_put(html, "<div class=\"card calibration\">\n<h3>Calibration</h3>\n");
    if (n > MAX_BINS) {
        ls__html_left_out(html, "bins", n, 0);
        ls__html_put(html, "</div>\n");
        return;
    }
    put_diagram(html, bins);
    ls__html_put(html,
                 "<p class=\"note\">Bars show the accuracy of the images of each confidence, "
                 "frames its distance "
                 "from the mean confidence. On the line both are equal. Expected calibration "
                 "error: %.4f.</p>\n",
                 real(e, "calibration_error"));
    put_bins(html, bins);
    ls__html_put(html, "</div>\n");
}

/* ---- Mistakes ---- */

/* Whether the text is a data URI of a JPEG file, which needs no escapes and refers to nothing. */
static bool is_jpeg_uri(const char *text)
{
    static const char head[] = "data:image/jpeg;base64,/9j/"; /* the bytes ff d8 ff */
    const size_t n = sizeof head - 1, length = text ? strlen(text) : 0;
    return length > n && length <= MAX_IMAGE_BYTES && strncmp(text, head, n) == 0 &&
           strspn(text + n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
               length - n;
}

static void put_mistakes(ls__html *html, const json_t *e)
{
    const json_t *mistakes = json_object_get(e, "mistakes"), *m;
    size_t i;
    if (json_array_size(mistakes) == 0) return;
    ls__html_put(html, "<h3>Most confident mistakes</h3>\n<ul class=\"images\">\n");
    json_array_foreach(mistakes, i, m)
    {
        if (i == MAX_MISTAKES) break;
        const char *image = ls__json_get_string(m, "image"), *path = ls__json_get_string(m, "path");
        const char *predicted = class_name(e, ls__json_get_integer(m, "predicted"));
        const char *label = class_name(e, ls__json_get_integer(m, "label"));
        ls__html_put(html, "<li>");
        if (is_jpeg_uri(image)) {
            ls__html_cell(html, "<img alt=\"", label, ", predicted as ");
            ls__html_cell(html, "", predicted, "\" src=\"");
            ls__bytes_put(html, image, strlen(image));
            ls__html_put(html, "\">");
        }
        ls__html_cell(html, "<p><b class=\"wrong-name\">", predicted, "</b>");
        ls__html_put(html, " %.3f", real(m, "confidence"));
        ls__html_cell(html, "<br>is <b>", label, "</b></p>");
        if (path) ls__html_wrap(html, "<p class=\"path\">", path, "</p>");
        if (!path)
            ls__html_put(html, "<p class=\"path\">sample %lld</p>",
                         ls__json_get_integer(m, "sample"));
        ls__html_put(html, "</li>\n");
    }
    ls__html_put(html, "</ul>\n");
    ls__html_left_out(html, "mistakes", (int64_t)json_array_size(mistakes), MAX_MISTAKES);
}

/* ---- The section ---- */

/* The results are those of the last epoch, while best.safetensors has the weights of the best one.
 */
static void put_epoch(ls__html *html, const ls__report_run *run, long long best)
{
    const long long epoch = ls__json_get_integer(run->evaluation, "epoch");
    if (best <= 0 || epoch <= 0) return;
    if (epoch == best) {
        ls__html_put(html, "<p class=\"note\">These results are those of the last epoch, which is "
                           "the best one.</p>\n");
        return;
    }
    ls__html_put(html,
                 "<p class=\"note\">These results are those of the last epoch. The best epoch is "
                 "%lld; <code>lockstep eval --per-class</code> with <code>best.safetensors</code> "
                 "gives its results.</p>\n",
                 best);
}

void ls__report_put_evaluation(ls__html *html, const ls__report_run *run, long long best_epoch)
{
    const json_t *e = run->evaluation;
    const size_t n = json_array_size(json_object_get(e, "classes"));
    if (run->problems[LS__REPORT_EVALUATION]) {
        ls__html_wrap(html, "<section>\n<h2>Validation of ", run->dir, "</h2>\n");
        ls__report_put_problems(html, 1, run, LS__REPORT_EVALUATION);
        ls__html_put(html, "</section>\n");
    }
    if (n == 0) return;
    ls__html_wrap(html, "<section>\n<h2>Validation of ", run->dir, "");
    ls__html_put(html, ", epoch %lld</h2>\n", ls__json_get_integer(e, "epoch"));
    put_epoch(html, run, best_epoch);
    put_tiles(html, e);
    ls__html_put(html, "<div class=\"pair\">\n<div class=\"card\">\n");
    if (n <= MATRIX_CLASSES)
        put_matrix(html, e, (int)n);
    else
        put_pairs(html, e, (int64_t)n);
    ls__html_put(html, "</div>\n");
    put_calibration(html, e);
    ls__html_put(html, "</div>\n<div class=\"card\">\n");
    put_classes(html, e);
    ls__html_put(html, "</div>\n");
    put_mistakes(html, e);
    ls__html_put(html, "</section>\n");
}
