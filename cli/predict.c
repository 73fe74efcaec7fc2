/* predict.c: 'lockstep predict': the classes that a checkpoint predicts for images. The checkpoint
 * stores the model, the classes and the preprocessing. */
#include "cli.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct predict_values {
    const char *checkpoint, *device;
    int64_t top, threads, max_pixels;
    int precision; /* ls_precision */
} predict_values;

#define AT(member) offsetof(predict_values, member)
static const cli_option options[] = {
    { OPTION_HEADING, .help = "Options:" },
    { OPTION_TEXT, 0, "checkpoint", AT(checkpoint), "checkpoint: best.safetensors of a run", "FILE",
      .note = "required" },
    { OPTION_INTEGER, 'k', "top", AT(top),
      "classes to print for each image, the most probable first", "K", 1, 1e6, .fallback = "5" },
    { OPTION_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE },
    { OPTION_TEXT, 0, "device", AT(device), DEVICE_HELP, "NAME", .fallback = "cpu" },
    { OPTION_CHOICE, 0, "precision", AT(precision), PRECISION_HELP, PRECISION_NAMES,
      .fallback = "f32" },
    { OPTION_INTEGER, 0, "threads", AT(threads), THREADS_HELP, "N", 0, 1024,
      .note = "one per processor" },
    { .kind = OPTION_END },
};

/* Probability of each class from the logits, in place (softmax, largest first subtracted). */
static void softmax(int64_t n, float *values)
{
    float largest = values[0];
    for (int64_t i = 1; i < n; i++) largest = fmaxf(largest, values[i]);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)values[i] - (double)largest);
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(exp((double)values[i] - (double)largest) / sum);
}

/* Prints the k most probable classes, and sets the probability of each printed one to -1. */
static void print_top(const ls_model_info *info, int64_t k, float *probabilities)
{
    const int64_t n = info->options.n_classes;
    for (int64_t shown = 0; shown < k && shown < n; shown++) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (probabilities[i] > probabilities[best]) best = i;
        print_text(stdout, "  %.4f  %s\n", (double)probabilities[best], info->classes[best]);
        probabilities[best] = -1;
    }
}

/* Prints the path and the reason only, because the loader's message names an epoch and a step. */
static int print_failure(const cli_verb *verb, ls_context *ctx, const ls_loader *loader,
                         const char *path)
{
    const char *reason = NULL;
    if (ls_loader_bad_sample(loader, 0, &reason) < 0) return print_error(verb, ctx, EXIT_DATA);
    print_message(verb, "%s: %s", path, reason);
    ls_context_clear_error(ctx);
    print_pixels_hint(verb, reason);
    return EXIT_DATA;
}

/* Runs the net on one image, preprocessed as in validation. On failure prints the reason. Returns
 * the exit status. */
static int predict(const cli_verb *verb, ls_context *ctx, const ls_model_info *info, ls_net *net,
                   int64_t max_pixels, const char *path, float *values)
{
    ls_loader_config config = ls_model_info_loader(info, 1);
    config.max_pixels = max_pixels;
    ls_dataset *dataset = ls_image_list_open(ctx, 1, &path, NULL, 0);
    ls_loader *loader = ls_loader_open(dataset, &config);
    ls_batch batch;
    ls_status status = ls_loader_start(loader, 0);
    if (status == LS_OK && !ls_loader_next(loader, &batch)) status = ls_loader_status(loader);
    if (status == LS_OK) status = ls_net_evaluate(net, &batch);
    if (status == LS_OK)
        status = ls_tensor_read(ls_net_output(net, "output"), values,
                                (size_t)info->options.n_classes * sizeof(*values));
    const int answer = status == LS_OK ? EXIT_DONE : print_failure(verb, ctx, loader, path);
    ls_loader_close(&loader);
    ls_dataset_close(&dataset);
    return answer;
}

static int predict_all(const cli_verb *verb, ls_context *ctx, const predict_values *v,
                       const ls_saved_model *model, int n, char **paths)
{
    const ls_model_info info = ls_saved_model_info(model);
    float *values = malloc((size_t)info.options.n_classes * sizeof(*values));
    if (!values) return print_error(verb, NULL, EXIT_RUNTIME);
    ls_net *net = ls_saved_model_build(model, 1, (ls_precision)v->precision, false);
    int answer = net ? EXIT_DONE : print_error(verb, ctx, EXIT_RUNTIME);
    for (int i = 0; net && i < n; i++) {
        const int one = predict(verb, ctx, &info, net, v->max_pixels, paths[i], values);
        if (one != EXIT_DONE) {
            answer = one;
            continue;
        }
        softmax(info.options.n_classes, values);
        print_text(stdout, "%s\n", paths[i]);
        print_top(&info, v->top, values);
    }
    free(values);
    return answer;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    predict_values v = { 0 };
    cli_parsed parsed;
    const parse_result result = options_parse(verb, argc, argv, &v, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? EXIT_DONE : EXIT_USAGE;
    if (!v.checkpoint || parsed.n_arguments == 0)
        return fail_with(verb, EXIT_USAGE, "%s",
                         v.checkpoint ? "no image given" : "--checkpoint FILE is required");
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = v.device, .threads = (int)v.threads, .log = print_log });
    const ls_saved_model *model = open_saved_model(verb, ctx, v.checkpoint);
    int answer = EXIT_RUNTIME;
    if (model) answer = predict_all(verb, ctx, &v, model, parsed.n_arguments, parsed.arguments);
    ls_context_close(&ctx);
    return answer;
}

const cli_verb verb_predict = {
    .name = "predict",
    .summary = "predict the classes of images",
    .arguments = "IMAGE...",
    .options = options,
    .run = run,
};
