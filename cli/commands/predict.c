/* predict.c: 'lockstep predict': the classes that a checkpoint predicts for images. The checkpoint
 * stores the model, the classes and the preprocessing. */
#include "cli.h"
#include "commands/prediction.h"
#include "runs/model_file.h"
#include <errno.h>
#include <limits.h>
#include <lockstep/dataset_path.h>
#include <lockstep/text.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct predict_values {
    model_file file; /* first: see model_file_options */
    const char *classes, *device;
    int64_t top, batch, workers, threads, max_pixels;
    int precision; /* ls_precision */
    bool test_time_flip, json, csv;
} predict_values;

typedef struct path_list {
    int64_t n;
    char **paths;
} path_list;

/* The arguments that are not read yet; "-" is standard input. */
typedef struct path_source {
    int n;
    char *const *arguments;
    int64_t n_read; /* paths */
} path_source;

#define AT(member) offsetof(predict_values, member)
static const ls_setting options[] = {
    { LS_SETTING_TEXT, 0, "classes", AT(classes),
      "with --model: text file of the class names, one per line", "FILE",
      .note = "stored in checkpoints" },
    { LS_SETTING_INTEGER, 'k', "top", AT(top),
      "classes to print for each image, the most probable first", "K", 1, 1e6, .fallback = "5" },
    { LS_SETTING_SWITCH, 0, "json", AT(json), "print one JSON object per image and line" },
    { LS_SETTING_SWITCH, 0, "csv", AT(csv), "print CSV: a row per image and class" },
    { LS_SETTING_SWITCH, 0, "test-time-flip", AT(test_time_flip), TEST_TIME_FLIP_HELP },
    { LS_SETTING_INTEGER, 'b', "batch-size", AT(batch), "images per batch", "N", 1, 1e5,
      .fallback = "32" },
    { LS_SETTING_INTEGER, 'j', "workers", AT(workers),
      "threads that load images (PyTorch: num_workers); 0 = the main thread loads them", "N", 0,
      256, .note = "one per processor, at most 8; 0 for one image" },
    LIKE_RUN("max-pixels", AT(max_pixels), NULL),
    LIKE_RUN("device", AT(device), NULL),
    LIKE_RUN("precision", AT(precision), NULL),
    LIKE_RUN("threads", AT(threads), NULL),
    { .kind = LS_SETTING_END },
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
    int exit_status;
} predictor;

/* Unreadable images are listed in their order. */
static void print_bad(predictor *p, const char *path)
{
    const char *reason;
    ls_loader_bad_sample(p->loader, p->n_bad++, &reason);
    const bool is_list = ls_path_kind_of(path) == LS_PATH_LIST && access(path, R_OK) == 0;
    char *word = is_list ? ls_shell_word(path) : NULL, of_list[2 * PATH_MAX];
    snprintf(of_list, sizeof(of_list),
             "not an image; if it is a list of paths: lockstep predict ... - < %s",
             word ? word : "");
    if (word) reason = of_list;
    free(word);
    print_message("%s: %s", path, reason);
    print_pixels_hint(reason);
    prediction_print_error(&p->printer, path, reason);
    p->exit_status = LS_EXIT_DATA;
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
            p->exit_status = LS_EXIT_NONFINITE;
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

/* Builds the net at the first images. Returns false if the command ends. */
static bool predict_paths(predictor *p, predict_values *v, const ls_saved_model *model,
                          const path_list *paths)
{
    const int64_t n_classes = p->info.options.n_classes;
    p->images = ls_image_files_open(p->ctx, paths->n, (const char *const *)paths->paths);
    if (!p->images) {
        p->exit_status = print_error(p->ctx, LS_EXIT_DATA);
        for (int64_t i = 0; i < paths->n; i++)
            if (ls_path_kind_of(paths->paths[i]) == LS_PATH_IDX_FOLDER)
                print_message("%s: has idx files, which predict does not read; 'lockstep eval "
                              "--data-dir %s' evaluates them",
                              paths->paths[i], paths->paths[i]);
        return false;
    }
    const int64_t n = ls_dataset_sample_count(p->images);
    if (!p->net && v->batch > n) v->batch = n;
    ls_loader_config config = ls_model_info_loader_config(&p->info, v->batch);
    config.max_pixels = v->max_pixels;
    config.on_bad_image = LS_BAD_IMAGE_BLANK;
    config.workers = (int)(v->workers < n ? v->workers : n == 1 ? 0 : n);
    p->loader = ls_loader_open(p->images, &config);
    p->n_bad = 0;
    if (!p->net && v->csv) prediction_print_header(&p->printer);
    if (!p->net) p->net = ls_saved_model_build(model, v->batch, (ls_precision)v->precision, false);
    float *values = malloc((size_t)(v->batch * n_classes) * sizeof(*values));
    const bool ok = values && p->net && p->loader && predict_batches(p, values) == LS_OK;
    if (!ok) p->exit_status = print_error(values ? p->ctx : NULL, LS_EXIT_RUNTIME);
    free(values);
    ls_loader_close(&p->loader);
    ls_dataset_close(&p->images);
    return ok;
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

static void free_paths(path_list *list)
{
    for (int64_t i = 0; i < list->n; i++) free(list->paths[i]);
    free(list->paths);
    *list = (path_list){ 0 };
}

/* The text after a byte order mark of UTF-8, which Windows' editors write. */
static char *skip_byte_order_mark(char *text)
{
    return text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
}

/* At most `max` paths, one per line, which ends with LF or CR LF. *ended: there are no more.
 * Prints the reason of a failure. */
static bool add_lines(path_list *list, FILE *file, int64_t max, bool is_first, bool *ended)
{
    char *line = NULL;
    size_t size = 0;
    bool ok = true;
    ssize_t n = 0;
    errno = 0;
    while (ok && list->n < max && (n = getline(&line, &size, file)) >= 0) {
        if (n > 0 && line[n - 1] == '\n') line[--n] = '\0';
        if (n > 0 && line[n - 1] == '\r') line[--n] = '\0';
        if (memchr(line, '\0', (size_t)n))
            ok = fail_with(false, "standard input: a line contains a zero byte; expected one path "
                                  "per line");
        const char *path = is_first ? skip_byte_order_mark(line) : line;
        if (ok && *path && !add_path(list, path)) ok = print_error(NULL, false);
        is_first = false;
    }
    *ended = n < 0;
    /* getline's errors, such as ENOMEM, need not be those of the file */
    if (ok && *ended && (ferror(file) || !feof(file)))
        ok = fail_with(false, "standard input: %s", strerror(errno));
    free(line);
    return ok;
}

/* The next paths, at most `max`; none at the end. Prints the reason of a failure. */
static bool read_paths(path_source *from, int64_t max, path_list *list)
{
    while (from->n > 0 && list->n < max) {
        bool ended = true;
        if (strcmp(*from->arguments, "-") != 0) {
            if (!add_path(list, *from->arguments)) return print_error(NULL, false);
        } else if (!add_lines(list, stdin, max, from->n_read == 0, &ended)) {
            return false;
        }
        from->n -= ended;
        from->arguments += ended;
    }
    from->n_read += list->n;
    return from->n_read > 0 || fail_with(false, "standard input has no paths");
}

/* Some batches at a time, so that results are printed while standard input is read. */
static int predict_all(ls_context *ctx, predict_values *v, const ls_saved_model *model,
                       path_source *from)
{
    enum { BATCHES = 8 }; /* so that workers load images while others are predicted */
    predictor p = { .ctx = ctx, .v = v, .info = ls_saved_model_info(model) };
    p.printer = (prediction_printer){ ctx, &p.info, v->top, v->json, v->csv };
    const int64_t max = BATCHES * v->batch;
    path_list paths = { 0 };
    bool ok = true;
    do {
        ok = read_paths(from, max, &paths);
        if (!ok) p.exit_status = LS_EXIT_USAGE;
        if (paths.n == 0) break;
        ok = ok && predict_paths(&p, v, model, &paths);
        free_paths(&paths);
    } while (ok);
    free_paths(&paths);
    return p.exit_status;
}

/* ---- The classes of a model that does not store them ---- */

/* A whole text file, or NULL after printing why it can't be read. The caller frees it. */
static char *read_text(const char *path, size_t max_bytes)
{
    if (path_exists(path) && !is_file(path)) { /* a pipe could block */
        print_message("%s: not a regular file", path);
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    char *text = file ? calloc(max_bytes + 1, 1) : NULL;
    const size_t n = text ? fread(text, 1, max_bytes + 1, file) : 0;
    const bool ok = text && n <= max_bytes && !ferror(file);
    if (!ok) print_message("%s: %s", path, n > max_bytes ? "too large" : strerror(errno));
    if (file) fclose(file);
    if (!ok) free(text);
    if (!ok) return NULL;
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
    char *rest = skip_byte_order_mark(text);
    for (char *line; names && (line = strsep(&rest, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        if (*line) names[n++] = line;
    }
    const ls_saved_model *model = NULL;
    if (!names)
        print_error(NULL, LS_EXIT_RUNTIME);
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
    if (ls_given_has(&parsed->set, "top") && loss == LS_LOSS_MSE)
        return fail_with(false, "--top is for models of classes or labels");
    return true;
}

static int run(const cli_parsed *parsed, void *values)
{
    predict_values *v = values;
    if (!v->file.path || parsed->n_arguments == 0)
        return fail_with(LS_EXIT_USAGE, "%s",
                         v->file.path ? "no image given" : "--checkpoint FILE is required");
    if (!model_file_check(parsed, &v->file, "classes")) return LS_EXIT_USAGE;
    if (v->file.model && !v->classes)
        return fail_with(LS_EXIT_USAGE, "--model requires --classes FILE with the class names");
    if (v->json && v->csv) return fail_with(LS_EXIT_USAGE, "--json and --csv exclude each other");
    for (int i = 0; i < parsed->n_arguments; i++)
        if (!prediction_reads(parsed->arguments[i], parsed->n_arguments == 1)) return LS_EXIT_USAGE;
    if (!ls_given_has(&parsed->set, "workers")) v->workers = ls_default_worker_count();
    path_source paths = { parsed->n_arguments, parsed->arguments, 0 };
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .device = v->device, .threads = (int)v->threads, .log = print_log });
    const ls_saved_model *model =
        v->file.model ? open_unnamed(ctx, v) : model_file_open(ctx, &v->file, 0, NULL);
    int exit_status = LS_EXIT_RUNTIME;
    if (model && !fits_loss(parsed, v, ls_saved_model_info(model).loss))
        exit_status = LS_EXIT_USAGE;
    else if (model)
        exit_status = predict_all(ctx, v, model, &paths);
    ls_context_close(&ctx);
    return exit_status;
}

const cli_command command_predict = {
    .name = "predict",
    .summary = "predict the classes, labels or numbers of images",
    .arguments = "PATH...",
    .details =
        "A path is an image, or a folder, which stands for the images below it at any depth, in "
        "the order of their paths; - reads paths from standard input, one per line, and predicts "
        "some batches at a time. Images and folders that can't be read are reported, and the "
        "others are predicted.\n"
        "The last digits of a probability may depend on the number of images in the batch; with -b "
        "1 they depend on the image alone.\n"
        "Exit status: 0 done, 1 failed, 2 wrong command line, 3 unreadable images, 4 an output is "
        "not finite.",
    .values_bytes = sizeof(predict_values),
    .options = options,
    .shared = model_file_options,
    .run = run,
};
