/* predict.c: 'lockstep predict': the classes that a checkpoint predicts for images. The checkpoint
 * stores the model, the classes and the preprocessing. */
#include "model_file.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct predict_values {
    model_file file;
    const char *classes, *device;
    int64_t top, threads, max_pixels;
    int precision; /* ls_precision */
    bool test_time_flip;
} predict_values;

#define AT(member) offsetof(predict_values, member)
static const cli_option options[] = {
    { OPTION_HEADING, .help = "Options:" },
    MODEL_FILE_OPTIONS(predict_values),
    { OPTION_TEXT, 0, "classes", AT(classes),
      "with --model: text file of the class names, one per line", "FILE",
      .note = "stored in checkpoints" },
    { OPTION_INTEGER, 'k', "top", AT(top),
      "classes to print for each image, the most probable first", "K", 1, 1e6, .fallback = "5" },
    { OPTION_SWITCH, 0, "test-time-flip", AT(test_time_flip), TEST_TIME_FLIP_HELP },
    { OPTION_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE },
    { OPTION_TEXT, 0, "device", AT(device), DEVICE_HELP, "NAME", .fallback = "cpu" },
    { OPTION_CHOICE, 0, "precision", AT(precision), PRECISION_HELP, PRECISION_NAMES,
      .fallback = "f32" },
    { OPTION_INTEGER, 0, "threads", AT(threads), THREADS_HELP, "N", 0, 1024,
      .note = "one per processor" },
    { .kind = OPTION_END },
};

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

/* The outputs of a model that was trained on numbers. */
static void print_numbers(const ls_model_info *info, const float *values)
{
    for (int64_t i = 0; i < info->options.n_classes; i++)
        print_text(stdout, "  %.6g  %s\n", (double)values[i], info->classes[i]);
}

static bool is_finite(int64_t n, const float *values)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

/* Prints the path and the reason only, because the loader's message names an epoch and a step. */
static int print_failure(ls_context *ctx, const ls_loader *loader, const char *path)
{
    const char *reason = NULL;
    if (ls_loader_bad_sample(loader, 0, &reason) < 0) return print_error(ctx, EXIT_DATA);
    print_message("%s: %s", path, reason);
    ls_context_clear_error(ctx);
    print_pixels_hint(reason);
    return EXIT_DATA;
}

/* Runs the net on one image, preprocessed as in validation. On failure prints the reason. Returns
 * the exit status. */
static int predict(ls_context *ctx, const ls_model_info *info, ls_net *net, const predict_values *v,
                   const char *path, float *probabilities)
{
    ls_loader_config config = ls_model_info_loader_config(info, 1);
    config.max_pixels = v->max_pixels;
    ls_dataset *dataset = ls_image_list_open(ctx, 1, &path, NULL, 0);
    ls_loader *loader = ls_loader_open(dataset, &config);
    ls_batch batch;
    ls_status status = ls_loader_start(loader, 0);
    if (status == LS_OK && !ls_loader_next(loader, &batch)) status = ls_loader_status(loader);
    const ls_predict_config how = { .test_time_flip = v->test_time_flip, .loss = info->loss };
    if (status == LS_OK)
        status = ls_predict(net, &batch, &how, probabilities,
                            (size_t)info->options.n_classes * sizeof(*probabilities));
    const int answer = status == LS_OK ? EXIT_DONE : print_failure(ctx, loader, path);
    ls_loader_close(&loader);
    ls_dataset_close(&dataset);
    return answer;
}

static int predict_all(ls_context *ctx, const predict_values *v, const ls_saved_model *model, int n,
                       char **paths)
{
    const ls_model_info info = ls_saved_model_info(model);
    float *values = malloc((size_t)info.options.n_classes * sizeof(*values));
    if (!values) return print_error(NULL, EXIT_RUNTIME);
    ls_net *net = ls_saved_model_build(model, 1, (ls_precision)v->precision, false);
    int answer = net ? EXIT_DONE : print_error(ctx, EXIT_RUNTIME);
    for (int i = 0; net && i < n; i++) {
        const int one = predict(ctx, &info, net, v, paths[i], values);
        if (one != EXIT_DONE) answer = one;
        if (one != EXIT_DONE) continue;
        if (!is_finite(info.options.n_classes, values)) {
            print_message("%s: the model's output is not finite", paths[i]);
            answer = EXIT_NONFINITE;
            continue;
        }
        print_text(stdout, "%s\n", paths[i]);
        if (info.loss == LS_LOSS_MSE)
            print_numbers(&info, values);
        else
            print_top(&info, v->top, values);
    }
    free(values);
    return answer;
}

/* A whole text file, or NULL after printing why it can't be read. The caller frees it. */
static char *read_text(const char *path, size_t max_bytes)
{
    if (file_exists(path) && !is_file(path)) { /* a pipe could block */
        print_message("%s: not a regular file", path);
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    char *text = file ? calloc(max_bytes + 1, 1) : NULL;
    const size_t n = text ? fread(text, 1, max_bytes + 1, file) : 0;
    const bool good = text && n <= max_bytes && !ferror(file);
    if (!good) print_message("%s: %s", path, n > max_bytes ? "too large" : strerror(errno));
    if (file) fclose(file);
    if (!good) free(text);
    if (!good) return NULL;
    text[n] = '\0';
    return text;
}

/* Opens the model with the names in the lines of --classes. */
static const ls_saved_model *open_unnamed(ls_context *ctx, const predict_values *v)
{
    enum { MAX_BYTES = 1 << 24 };
    char *text = read_text(v->classes, MAX_BYTES);
    if (!text) return NULL;
    int n = 0;
    for (const char *at = text; *at; at++) n += *at == '\n';
    const char **names = calloc((size_t)n + 1, sizeof(*names));
    n = 0;
    char *rest = text;
    for (char *line; names && (line = strsep(&rest, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        if (*line) names[n++] = line;
    }
    const ls_saved_model *model = NULL;
    if (!names)
        print_error(NULL, EXIT_RUNTIME);
    else if (n == 0)
        print_message("--classes %s: no class names", v->classes);
    else
        model = model_file_open(ctx, &v->file, n, names);
    free(names);
    free(text);
    return model;
}

/* The same flips as in 'lockstep eval'. */
static bool fits_loss(const cli_parsed *parsed, const predict_values *v, ls_loss_kind loss)
{
    if (v->test_time_flip && loss != LS_LOSS_CROSS_ENTROPY)
        return fail_with(false, "--test-time-flip is for models of classes");
    if (options_given(parsed, "top") && loss == LS_LOSS_MSE)
        return fail_with(false, "--top is for models of classes or labels");
    return true;
}

static int run(int argc, char **argv)
{
    predict_values v = { 0 };
    cli_parsed parsed;
    const int ended = options_parse(&command_predict, argc, argv, &v, &parsed);
    if (ended >= 0) return ended;
    if (!v.file.path || parsed.n_arguments == 0)
        return fail_with(EXIT_USAGE, "%s",
                         v.file.path ? "no image given" : "--checkpoint FILE is required");
    if (!model_file_check(&parsed, &v.file, "classes")) return EXIT_USAGE;
    if (v.file.model && !v.classes)
        return fail_with(EXIT_USAGE, "--model requires --classes FILE with the class names");
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = v.device, .threads = (int)v.threads, .log = print_log });
    const ls_saved_model *model =
        v.file.model ? open_unnamed(ctx, &v) : model_file_open(ctx, &v.file, 0, NULL);
    int answer = EXIT_RUNTIME;
    if (model && !fits_loss(&parsed, &v, ls_saved_model_info(model).loss))
        answer = EXIT_USAGE;
    else if (model)
        answer = predict_all(ctx, &v, model, parsed.n_arguments, parsed.arguments);
    ls_context_close(&ctx);
    return answer;
}

const cli_command command_predict = {
    .name = "predict",
    .summary = "predict the classes, labels or numbers of images",
    .arguments = "IMAGE...",
    .options = options,
    .run = run,
};
