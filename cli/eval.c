/* eval.c: 'lockstep eval': a checkpoint's loss and accuracy on a folder of images. */
#include "folders.h"
#include "report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct eval_values {
    const char *checkpoint, *data_dir, *device;
    int64_t batch, workers, threads, max_pixels;
    int on_bad_image, precision; /* ls_precision */
    bool per_class;
} eval_values;

#define AT(member) offsetof(eval_values, member)
static const cli_option options[] = {
    { OPTION_HEADING, .help = "Options:" },
    { OPTION_TEXT, 0, "checkpoint", AT(checkpoint), "checkpoint: best.safetensors of a run", "FILE",
      .note = "required" },
    { OPTION_TEXT, 0, "data-dir", AT(data_dir),
      "dataset: a pack, a folder with val/ (or validation/, test/), or a folder of class folders",
      "DIR", .note = "required" },
    { OPTION_SWITCH, 0, "per-class", AT(per_class),
      "print the accuracy of each class, and its most frequent wrong prediction", .value = NULL },
    { OPTION_INTEGER, 'b', "batch-size", AT(batch), "images per step", "N", 1, 1e5,
      .fallback = "128" },
    { OPTION_INTEGER, 'j', "workers", AT(workers),
      "data-loader threads; 0 = the main thread loads the images", "N", 0, 256,
      .note = "one per processor, at most 8" },
    { OPTION_CHOICE, 0, "on-bad-image", AT(on_bad_image), ON_BAD_IMAGE_HELP, "fail|skip",
      .fallback = "fail" },
    { OPTION_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE },
    { OPTION_TEXT, 0, "device", AT(device), DEVICE_HELP, "NAME", .fallback = "cpu" },
    { OPTION_CHOICE, 0, "precision", AT(precision), PRECISION_HELP, PRECISION_NAMES,
      .fallback = "f32" },
    { OPTION_INTEGER, 0, "threads", AT(threads), THREADS_HELP, "N", 0, 1024,
      .note = "one per processor" },
    { .kind = OPTION_END },
};

/* ---- The confusion matrix ---- */

typedef struct confusion {
    int n_classes;
    int64_t *counts; /* [true class][predicted class] */
    float *logits;   /* of a batch */
    size_t logit_bytes;
    ls_net *net;
    run_report *report;
} confusion;

static ls_status count_batch(confusion *c, const ls_batch *batch)
{
    const ls_tensor *output = ls_net_output(c->net, "output");
    const int32_t *labels = ls_tensor_data_const(batch->labels);
    const size_t bytes = ls_tensor_bytes(output);
    if (bytes > c->logit_bytes) return LS_ERR_MEMORY;
    LS_TRY(ls_tensor_read(output, c->logits, bytes));
    for (int64_t i = 0; i < batch->n; i++) {
        const float *row = c->logits + i * c->n_classes;
        int best = 0;
        for (int k = 1; k < c->n_classes; k++)
            if (row[k] > row[best]) best = k;
        c->counts[(int64_t)labels[i] * c->n_classes + best]++;
    }
    return LS_OK;
}

static ls_status count_event(void *user, const ls_event *event)
{
    confusion *c = user;
    if (event->kind == LS_EVENT_STEP) LS_TRY(count_batch(c, event->batch));
    return report_event(c->report, event);
}

/* Columns of the first column: the longest name, within limits. */
static int name_columns(const ls_model_info *info)
{
    enum { LEAST = 5, MOST = 40 };
    int width = LEAST;
    for (int64_t i = 0; i < info->options.n_classes; i++) {
        const int columns = text_columns(info->classes[i]);
        if (columns > width) width = columns < MOST ? columns : MOST;
    }
    return width;
}

/* A longer name is printed on a line of its own, so that the columns stay aligned. */
static void print_class(const confusion *c, const ls_model_info *info, int label, int width)
{
    const int64_t *row = c->counts + (int64_t)label * c->n_classes;
    int64_t n = 0;
    int wrong = -1;
    for (int k = 0; k < c->n_classes; k++) {
        n += row[k];
        if (k != label && row[k] > 0 && (wrong < 0 || row[k] > row[wrong])) wrong = k;
    }
    const char *name = info->classes[label];
    const int columns = text_columns(name);
    print_text(stdout, "  %s", name);
    if (columns > width) print_text(stdout, "\n");
    print_text(stdout, "%*s  %8lld  ", columns > width ? width + 2 : width - columns, "",
               (long long)n);
    if (n > 0)
        print_text(stdout, "%.4f", (double)row[label] / (double)n);
    else
        print_text(stdout, "%6s", "-");
    if (wrong >= 0) print_text(stdout, "  %s (%lld)", info->classes[wrong], (long long)row[wrong]);
    print_text(stdout, "\n");
}

static void print_classes(const confusion *c, const ls_model_info *info)
{
    const int width = name_columns(info);
    print_text(stdout, "  %-*s  %8s  top-1   most confused with\n", width, "class", "images");
    for (int i = 0; i < c->n_classes; i++) print_class(c, info, i, width);
}

/* ---- The verb ---- */

static int print_failure(const cli_verb *verb, ls_context *ctx, const eval_values *v,
                         const ls_loader *loader, ls_status status)
{
    if (status == LS_ERR_NONFINITE) return EXIT_NONFINITE; /* the report has printed it */
    if (ls_loader_status(loader) == LS_OK) return print_error(verb, ctx, EXIT_RUNTIME);
    const int answer = print_loader_error(verb, ctx, "batch");
    if (answer == EXIT_DATA && v->on_bad_image == LS_BAD_IMAGE_FAIL)
        print_message(verb, "--on-bad-image skip replaces unreadable images with other ones");
    return answer;
}

static int evaluate_net(const cli_verb *verb, ls_context *ctx, const eval_values *v,
                        const ls_model_info *info, const ls_dataset *dataset, ls_loader *loader,
                        confusion *c)
{
    run_report report = { .verb = verb, .ctx = ctx, .val_data = dataset };
    ls_averages result;
    c->report = &report;
    progress_open(&report.progress, 0, ls_loader_step_count(loader));
    const ls_evaluate_config config = { .on_event = v->per_class ? count_event : report_event,
                                        .user = v->per_class ? (void *)c : &report };
    const ls_status status = ls_evaluate(c->net, loader, &config, &result);
    if (status != LS_OK) return print_failure(verb, ctx, v, loader, status);
    print_text(stdout, "%s, %lld image%s: loss %.4f without label smoothing, top-1 %.4f",
               info->model->name, (long long)result.n_images, plural(result.n_images), result.loss,
               result.top1);
    if (c->n_classes > 5) print_text(stdout, ", top-5 %.4f", result.top5);
    print_text(stdout, "\n");
    if (v->per_class) print_classes(c, info);
    return EXIT_DONE;
}

static int evaluate_loader(const cli_verb *verb, ls_context *ctx, const eval_values *v,
                           const ls_saved_model *model, const ls_dataset *dataset,
                           ls_loader *loader)
{
    const ls_model_info info = ls_saved_model_info(model);
    const int n_classes = (int)info.options.n_classes;
    const size_t n_cells = (size_t)n_classes * (size_t)n_classes;
    confusion c = { .n_classes = n_classes,
                    .counts = calloc(n_cells, sizeof(int64_t)),
                    .logit_bytes = (size_t)v->batch * (size_t)n_classes * sizeof(float) };
    c.logits = malloc(c.logit_bytes);
    int answer = c.counts && c.logits ? EXIT_DONE : print_error(verb, NULL, EXIT_RUNTIME);
    if (answer == EXIT_DONE) {
        c.net = ls_saved_model_build(model, v->batch, (ls_precision)v->precision, true);
        answer = c.net ? evaluate_net(verb, ctx, v, &info, dataset, loader, &c)
                       : print_error(verb, ctx, EXIT_RUNTIME);
    }
    free(c.counts);
    free(c.logits);
    return answer;
}

static int evaluate_folder(const cli_verb *verb, ls_context *ctx, const eval_values *v,
                           const ls_saved_model *model)
{
    const ls_model_info info = ls_saved_model_info(model);
    ls_dataset *dataset;
    const int answer = folders_open_val(verb, ctx, v->data_dir, true, (int)info.options.n_classes,
                                        info.classes, &dataset);
    if (answer != EXIT_DONE) return answer;
    ls_loader_config config = ls_model_info_loader(&info, v->batch);
    config.workers = (int)v->workers;
    config.on_bad_image = (ls_bad_image)v->on_bad_image;
    config.max_pixels = v->max_pixels;
    ls_loader *loader = ls_loader_open(dataset, &config);
    return loader ? evaluate_loader(verb, ctx, v, model, dataset, loader)
                  : print_error(verb, ctx, EXIT_DATA);
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    eval_values v = { 0 };
    cli_parsed parsed;
    const parse_result result = options_parse(verb, argc, argv, &v, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? EXIT_DONE : EXIT_USAGE;
    if (!v.checkpoint || !v.data_dir)
        return fail_with(verb, EXIT_USAGE, "--%s is required",
                         v.checkpoint ? "data-dir DIR" : "checkpoint FILE");
    if (!options_given(verb, &parsed, "workers")) v.workers = processors() < 8 ? processors() : 8;
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = v.device, .threads = (int)v.threads, .log = print_log });
    const ls_saved_model *model = open_saved_model(verb, ctx, v.checkpoint);
    const int answer = model ? evaluate_folder(verb, ctx, &v, model) : EXIT_RUNTIME;
    ls_context_close(&ctx);
    return answer;
}

const cli_verb verb_eval = {
    .name = "eval",
    .summary = "measure a checkpoint on a folder of images",
    .arguments = "",
    .options = options,
    .run = run,
};
