/* eval_targets.c: see eval_targets.h. */
#include "commands/eval_targets.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>

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
    print_error(NULL, EXIT_RUNTIME);
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

/* Of a name in a column. */
static int column_width(const ls_model_info *info)
{
    enum { MIN_WIDTH = 6, MAX_WIDTH = 40 };
    int width = MIN_WIDTH;
    for (int64_t k = 0; k < info->options.n_classes; k++) {
        const int columns = text_columns(info->classes[k]);
        if (columns > width) width = columns < MAX_WIDTH ? columns : MAX_WIDTH;
    }
    return width;
}

static void print_each(const target_report *t, double n)
{
    const bool labels = t->info->loss == LS_LOSS_BINARY_CROSS_ENTROPY;
    const int width = column_width(t->info);
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
