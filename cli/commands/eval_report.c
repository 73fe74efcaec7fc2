/* eval_report.c: see eval_report.h. */
#include "commands/eval_report.h"
#include "terminal/json.h"
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WIDTH = 40 }; /* columns of a name */
enum { MATRIX_CLASSES = 20, MAX_PAIRS = 10 };

/* The columns of the longest of n names, from `width` to MAX_WIDTH. */
static int name_width(int64_t n, const char *const *names, int width)
{
    for (int64_t i = 0; i < n; i++) width = max_columns(width, names[i]);
    return width < MAX_WIDTH ? width : MAX_WIDTH;
}

/* A name of more than `width` columns is printed on a line of its own. */
static void print_name(const char *name, int width)
{
    const int columns = text_columns(name);
    print_text(stdout, "  %s", name);
    if (columns > width) print_text(stdout, "\n");
    print_text(stdout, "%*s", columns > width ? width + 2 : width - columns, "");
}

/* ---- The table of the classes ---- */

/* The most frequent wrong prediction among the elements from `at` on, which are the class's first
 * ones. Moves `at` to the next class. */
static ls_confusion most_frequent(const ls_evaluation *e, int label, int64_t *at)
{
    ls_confusion most = { 0 };
    for (; *at < ls_evaluation_confusion_count(e); ++*at) {
        const ls_confusion c = ls_evaluation_confusion_at(e, *at);
        if (c.label != label) break;
        if (c.predicted != label && c.n_images > most.n_images) most = c;
    }
    return most;
}

static void print_table(const ls_evaluation *e, int width)
{
    int64_t at = 0;
    print_text(stdout, "\n");
    print_text(stdout, "  %-*s  %8s  recall  precision  F1      most confused with\n", width,
               "class", "images");
    for (int i = 0; i < ls_evaluation_class_count(e); i++) {
        const ls_class_result c = ls_evaluation_class_at(e, i);
        const ls_confusion wrong = most_frequent(e, i, &at);
        print_name(c.name, width);
        print_text(stdout, "  %8lld  ", (long long)c.n_images);
        if (c.n_images > 0)
            print_text(stdout, "%.4f", c.scores.recall);
        else
            print_text(stdout, "%6s", "-");
        if (c.n_predicted > 0)
            print_text(stdout, "  %.4f   ", c.scores.precision);
        else
            print_text(stdout, "  %6s   ", "-");
        print_text(stdout, "  %.4f", c.scores.f1);
        if (wrong.n_images > 0)
            print_text(stdout, "  %s (%lld)", ls_evaluation_class_at(e, wrong.predicted).name,
                       (long long)wrong.n_images);
        print_text(stdout, "\n");
    }
}

/* ---- The confusion matrix ---- */

static int digits(int64_t n)
{
    int count = 1;
    while (n >= 10) {
        n /= 10;
        count++;
    }
    return count;
}

static void print_matrix(const ls_evaluation *e, int width)
{
    const int n = ls_evaluation_class_count(e);
    int64_t counts[MATRIX_CLASSES][MATRIX_CLASSES] = { 0 };
    int number = digits(n - 1);
    for (int64_t i = 0; i < ls_evaluation_confusion_count(e); i++) {
        const ls_confusion c = ls_evaluation_confusion_at(e, i);
        counts[c.label][c.predicted] = c.n_images;
        if (digits(c.n_images) > number) number = digits(c.n_images);
    }
    print_text(stdout, "\n");
    print_text(stdout, "  confusion matrix: a row per class, a column per predicted class\n");
    print_text(stdout, "  %*s    ", width, "");
    for (int k = 0; k < n; k++) print_text(stdout, "  %*d", number, k);
    print_text(stdout, "\n");
    for (int i = 0; i < n; i++) {
        print_name(ls_evaluation_class_at(e, i).name, width);
        print_text(stdout, "  %2d", i);
        for (int k = 0; k < n; k++) {
            if (counts[i][k] > 0)
                print_text(stdout, "  %*lld", number, (long long)counts[i][k]);
            else
                print_text(stdout, "  %*s", number, ".");
        }
        print_text(stdout, "\n");
    }
}

static void print_pairs(const ls_evaluation *e)
{
    print_text(stdout, "\n");
    print_text(stdout, "  most confused: images, class, predicted class\n");
    for (int i = 0; i < MAX_PAIRS; i++) {
        const ls_confusion c = ls_evaluation_most_confused_at(e, i);
        if (c.n_images == 0) break;
        print_text(stdout, "  %8lld  %s  ->  %s\n", (long long)c.n_images,
                   ls_evaluation_class_at(e, c.label).name,
                   ls_evaluation_class_at(e, c.predicted).name);
    }
}

void eval_print_classes(const ls_evaluation *e, const ls_model_info *info, bool all, bool has_auc)
{
    char auc[32] = "";
    const ls_evaluation_result r = ls_evaluation_scores(e);
    const bool few = ls_evaluation_class_count(e) <= MATRIX_CLASSES;
    const int width = name_width(ls_evaluation_class_count(e), info->classes, 5);
    if (has_auc && !isnan(r.auc)) snprintf(auc, sizeof(auc), ", AUC %.4f", r.auc);
    print_text(stdout,
               "mean of the classes: recall %.4f, precision %.4f, F1 %.4f%s; calibration error "
               "%.4f\n",
               r.macro.recall, r.macro.precision, r.macro.f1, auc, r.calibration_error);
    if (few)
        print_matrix(e, width);
    else if (ls_evaluation_mistake_count(e) > 0)
        print_pairs(e);
    if (few || all) print_table(e, width);
}

/* ---- JSON and CSV ---- */

bool eval_print_json(ls_evaluation *e, const ls_dataset *dataset, double loss)
{
    const char *text = ls_evaluation_json(e, dataset);
    json_t *json = text ? json_loads(text, 0, NULL) : NULL;
    const bool printed =
        json && json_object_set_new(json, "loss", json_real(loss)) == 0 && print_json_exactly(json);
    json_decref(json);
    return printed || print_error(NULL, false);
}

bool eval_write_csv(const ls_evaluation *e, const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file) return fail_with(false, "--csv %s: %s", path, strerror(errno));
    print_text(file, "class,images,predicted,correct,recall,precision,f1\n");
    for (int i = 0; i < ls_evaluation_class_count(e); i++) {
        const ls_class_result c = ls_evaluation_class_at(e, i);
        print_csv(file, c.name);
        print_text(file, ",%lld,%lld,%lld,%.17g,%.17g,%.17g\n", (long long)c.n_images,
                   (long long)c.n_predicted, (long long)c.n_correct, c.scores.recall,
                   c.scores.precision, c.scores.f1);
    }
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "--csv %s", path);
    return close_output(file, name);
}

/* ---- Targets ---- */

bool target_report_open(target_report *t, run_report *report, const ls_model_info *info,
                        ls_net *net, int64_t batch)
{
    const size_t n = (size_t)info->options.n_classes;
    *t = (target_report){ .report = report, .info = info, .net = net };
    t->bytes = (size_t)batch * n * sizeof(float);
    t->sums = calloc(n, sizeof(*t->sums));
    t->outputs = malloc(t->bytes);
    t->targets = malloc(t->bytes);
    if (t->sums && t->outputs && t->targets) return true;
    print_error(NULL, LS_EXIT_RUNTIME);
    return false;
}

void target_report_close(target_report *t)
{
    free(t->sums);
    free(t->outputs);
    free(t->targets);
}

ls_status target_report_event(void *user, const ls_event *event)
{
    target_report *t = user;
    if (event->kind != LS_EVENT_STEP) return report_event(t->report, event);
    const ls_tensor *output = ls_net_output(t->net, "output");
    const size_t bytes = ls_tensor_bytes(output);
    assert(bytes <= t->bytes);
    LS_TRY(ls_tensor_read(output, t->outputs, bytes));
    LS_TRY(ls_tensor_read(event->batch->targets, t->targets, bytes));
    const int64_t n = t->info->options.n_classes;
    for (int64_t i = 0; i < event->batch->n; i++)
        for (int64_t k = 0; k < n; k++) {
            const float x = t->outputs[i * n + k], target = t->targets[i * n + k];
            t->sums[k].errors += fabs((double)x - (double)target);
            t->sums[k].n_correct += (x > 0) == (target > 0.5f);
            t->sums[k].n_present += target > 0.5f;
        }
    t->n_images += event->batch->n;
    return report_event(t->report, event);
}

static void print_each(const target_report *t, double n)
{
    const bool labels = t->info->loss == LS_LOSS_BINARY_CROSS_ENTROPY;
    const int width = name_width(t->info->options.n_classes, t->info->classes, 6);
    print_text(stdout, "  %-*s  %s\n", width, labels ? "label" : "target",
               labels ? "  images  accuracy" : "mean absolute error");
    for (int64_t k = 0; k < t->info->options.n_classes; k++) {
        const char *name = t->info->classes[k];
        const int columns = text_columns(name);
        print_text(stdout, "  %s%*s  ", name, columns < width ? width - columns : 0, "");
        if (labels)
            print_text(stdout, "%8lld  %.4f\n", (long long)t->sums[k].n_present,
                       (double)t->sums[k].n_correct / n);
        else
            print_text(stdout, "%#.4g\n", t->sums[k].errors / n);
    }
}

void target_report_print(const target_report *t, const ls_averages *result, bool each)
{
    const int64_t n_targets = t->info->options.n_classes;
    const double n = t->n_images > 0 ? (double)t->n_images : 1;
    double errors = 0, n_correct = 0;
    char text[LOSS_SIZE];
    for (int64_t k = 0; k < n_targets; k++) {
        errors += t->sums[k].errors;
        n_correct += (double)t->sums[k].n_correct;
    }
    const char *loss = loss_text(result->loss, true, text);
    print_text(stdout, "%s, %lld image%s: ", t->info->model->name, (long long)result->n_images,
               plural(result->n_images));
    if (t->info->loss == LS_LOSS_BINARY_CROSS_ENTROPY)
        print_text(stdout, "binary cross-entropy %s, accuracy of the labels %.4f\n", loss,
                   n_correct / (n * (double)n_targets));
    else
        print_text(stdout, "mean squared error %s, mean absolute error %#.4g\n", loss,
                   errors / (n * (double)n_targets));
    if (each) print_each(t, n);
}
