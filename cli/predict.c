/* predict.c: 'lockstep predict': the classes that a checkpoint predicts for images. The checkpoint
 * stores the model, the classes and the preprocessing. */
#include "model_file.h"
#include "prediction.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct predict_values {
    model_file file;
    const char *classes, *device;
    int64_t top, batch, workers, threads, max_pixels;
    int precision; /* ls_precision */
    bool test_time_flip, json, csv;
} predict_values;

typedef struct path_list {
    int64_t n;
    char **paths;
} path_list;

#define AT(member) offsetof(predict_values, member)
static const cli_option options[] = {
    { OPTION_HEADING, .help = "Options:" },
    MODEL_FILE_OPTIONS(predict_values),
    { OPTION_TEXT, 0, "classes", AT(classes),
      "with --model: text file of the class names, one per line", "FILE",
      .note = "stored in checkpoints" },
    { OPTION_INTEGER, 'k', "top", AT(top),
      "classes to print for each image, the most probable first", "K", 1, 1e6, .fallback = "5" },
    { OPTION_SWITCH, 0, "json", AT(json), "print one JSON object per image and line" },
    { OPTION_SWITCH, 0, "csv", AT(csv), "print CSV: a row per image and class" },
    { OPTION_SWITCH, 0, "test-time-flip", AT(test_time_flip), TEST_TIME_FLIP_HELP },
    { OPTION_INTEGER, 'b', "batch-size", AT(batch), "images per batch", "N", 1, 1e5,
      .fallback = "32" },
    { OPTION_INTEGER, 'j', "workers", AT(workers),
      "threads that load images (PyTorch: num_workers); 0 = the main thread loads them", "N", 0,
      256, .note = "one per processor, at most 8; 0 for one image" },
    { OPTION_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE },
    { OPTION_TEXT, 0, "device", AT(device), DEVICE_HELP, "NAME", .fallback = "cpu" },
    { OPTION_CHOICE, 0, "precision", AT(precision), PRECISION_HELP, PRECISION_NAMES,
      .fallback = "f32" },
    { OPTION_INTEGER, 0, "threads", AT(threads), THREADS_HELP, "N", 0, 1024,
      .note = "one per processor" },
    { .kind = OPTION_END },
};

static bool is_finite(int64_t n, const float *values)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

/* ---- Images ---- */

typedef struct predictor {
    ls_context *ctx;
    const predict_values *v;
    ls_model_info info;
    ls_dataset *images;
    ls_loader *loader;
    ls_net *net;
    prediction_printer printer;
    int64_t n_bad; /* unreadable images that are printed */
    int answer;
} predictor;

/* Unreadable images are listed in their order. */
static void print_bad(predictor *p, const char *path)
{
    const char *reason;
    ls_loader_bad_sample(p->loader, p->n_bad++, &reason);
    print_message("%s: %s", path, reason);
    print_pixels_hint(reason);
    prediction_print_error(&p->printer, path, reason);
    p->answer = EXIT_DATA;
}

static void print_batch(predictor *p, const ls_batch *batch, float *values)
{
    const int64_t n_classes = p->info.options.n_classes;
    for (int64_t i = 0; i < batch->n; i++, values += n_classes) {
        const char *path = ls_dataset_sample_path(p->images, batch->step * p->v->batch + i);
        if (batch->samples[i] < 0) {
            print_bad(p, path);
        } else if (is_finite(n_classes, values)) {
            prediction_print(&p->printer, path, values);
        } else {
            print_message("%s: the model's output is not finite", path);
            prediction_print_error(&p->printer, path, "the model's output is not finite");
            p->answer = EXIT_NONFINITE;
        }
    }
    fflush(stdout);
}

static ls_status predict_batches(predictor *p, float *values)
{
    const ls_predict_config how = { .test_time_flip = p->v->test_time_flip, .loss = p->info.loss };
    ls_batch batch;
    LS_TRY(ls_loader_start(p->loader, 0));
    while (ls_loader_next(p->loader, &batch)) {
        const size_t n_values = (size_t)(batch.n * p->info.options.n_classes);
        LS_TRY(ls_predict(p->net, &batch, &how, values, n_values * sizeof(*values)));
        print_batch(p, &batch, values);
    }
    return ls_loader_status(p->loader);
}

static int predict_all(ls_context *ctx, predict_values *v, const ls_saved_model *model,
                       const path_list *paths)
{
    predictor p = { .ctx = ctx, .v = v, .info = ls_saved_model_info(model) };
    p.images = ls_image_files_open(ctx, paths->n, (const char *const *)paths->paths);
    if (!p.images) return print_error(ctx, EXIT_DATA);
    const int64_t n = ls_dataset_sample_count(p.images);
    if (v->batch > n) v->batch = n;
    ls_loader_config config = ls_model_info_loader_config(&p.info, v->batch);
    config.max_pixels = v->max_pixels;
    config.on_bad_image = LS_BAD_IMAGE_BLANK;
    config.workers = (int)(v->workers < n ? v->workers : n == 1 ? 0 : n);
    p.loader = ls_loader_open(p.images, &config);
    p.net = ls_saved_model_build(model, v->batch, (ls_precision)v->precision, false);
    float *values = malloc((size_t)(v->batch * p.info.options.n_classes) * sizeof(*values));
    p.printer = (prediction_printer){ ctx, &p.info, v->top, v->json, v->csv };
    if (v->csv) prediction_print_header(&p.printer);
    if (!values)
        p.answer = print_error(NULL, EXIT_RUNTIME);
    else if (!p.net || !p.loader || predict_batches(&p, values) != LS_OK)
        p.answer = print_error(ctx, EXIT_RUNTIME);
    free(values);
    return p.answer;
}

/* ---- Paths ---- */

static bool add_path(path_list *list, const char *path)
{
    char **paths = realloc(list->paths, (size_t)(list->n + 1) * sizeof(*paths));
    if (!paths) return false;
    list->paths = paths;
    paths[list->n] = strdup(path);
    return paths[list->n++] != NULL;
}

/* A path per line, which ends with LF or CR LF. Prints the reason of a failure. */
static bool add_lines(path_list *list, FILE *file)
{
    char *line = NULL;
    size_t size = 0;
    bool good = true;
    errno = 0;
    for (ssize_t n; good && (n = getline(&line, &size, file)) >= 0;) {
        if (n > 0 && line[n - 1] == '\n') line[--n] = '\0';
        if (n > 0 && line[n - 1] == '\r') line[--n] = '\0';
        if (memchr(line, '\0', (size_t)n))
            good =
                fail_with(false, "standard input: a line contains a zero byte; expected one path "
                                 "per line");
        else if (n > 0 && !add_path(list, line))
            good = print_error(NULL, false);
    }
    /* getline's errors, such as ENOMEM, need not be those of the file */
    if (good && (ferror(file) || !feof(file)))
        good = fail_with(false, "standard input: %s", strerror(errno));
    free(line);
    return good;
}

static void free_paths(path_list *list)
{
    for (int64_t i = 0; i < list->n; i++) free(list->paths[i]);
    free(list->paths);
}

/* "-" is standard input. Prints the reason of a failure. */
static bool read_paths(int n, char *const *arguments, path_list *list)
{
    for (int i = 0; i < n; i++) {
        const bool is_stdin = strcmp(arguments[i], "-") == 0;
        if (is_stdin && !add_lines(list, stdin)) return false;
        if (!is_stdin && !add_path(list, arguments[i])) return print_error(NULL, false);
    }
    return list->n > 0 || fail_with(false, "standard input has no paths");
}

/* ---- The classes of a model that does not store them ---- */

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

/* False, after a message, if an option has no effect with the model's loss. */
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
    if (v.json && v.csv) return fail_with(EXIT_USAGE, "--json and --csv exclude each other");
    if (!options_given(&parsed, "workers")) v.workers = default_workers();
    path_list paths = { 0 };
    if (!read_paths(parsed.n_arguments, parsed.arguments, &paths)) {
        free_paths(&paths);
        return EXIT_USAGE;
    }
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = v.device, .threads = (int)v.threads, .log = print_log });
    const ls_saved_model *model =
        v.file.model ? open_unnamed(ctx, &v) : model_file_open(ctx, &v.file, 0, NULL);
    int answer = EXIT_RUNTIME;
    if (model && !fits_loss(&parsed, &v, ls_saved_model_info(model).loss))
        answer = EXIT_USAGE;
    else if (model)
        answer = predict_all(ctx, &v, model, &paths);
    ls_context_close(&ctx);
    free_paths(&paths);
    return answer;
}

const cli_command command_predict = {
    .name = "predict",
    .summary = "predict the classes, labels or numbers of images",
    .arguments = "PATH...",
    .details =
        "A path is an image, or a folder, which stands for the images below it at any depth, in "
        "the order of their paths; - "
        "reads paths from standard input, one per line. Images that can't be read are reported, "
        "and the others are predicted.\n"
        "Exit status: 0 done, 1 failed, 2 wrong command line, 3 unreadable images, 4 an output is "
        "not finite.",
    .options = options,
    .run = run,
};
