/* prediction.c: see prediction.h. */
#include "cli.h"
#include "commands/prediction.h"
#include "terminal/json.h"
#include <lockstep/dataset_path.h>

enum { FLOAT_DIGITS = 9 }; /* that identify an f32 */

static bool has_numbers(const prediction_printer *p)
{
    return p->info->loss == LS_LOSS_MSE;
}

/* Of the values that are left; removes it. Numbers are taken in their order. */
static int64_t take_next(const prediction_printer *p, int64_t rank, float *values, float *value)
{
    int64_t best = has_numbers(p) ? rank : 0;
    for (int64_t i = 1; !has_numbers(p) && i < p->info->options.n_classes; i++)
        if (values[i] > values[best]) best = i;
    *value = values[best];
    if (!has_numbers(p)) values[best] = -1;
    return best;
}

static int64_t count(const prediction_printer *p)
{
    const int64_t n = p->info->options.n_classes;
    return has_numbers(p) || p->top > n ? n : p->top;
}

/* ---- JSON ---- */

/* One line. Takes over the object; NULL if memory was short. */
static void print_object(json_t *object)
{
    const size_t flags = JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(FLOAT_DIGITS);
    if (!object || json_dump_callback(object, print_json, stdout, flags) != 0)
        print_error(NULL, LS_EXIT_RUNTIME);
    else
        print_text(stdout, "\n");
    json_decref(object);
}

static void print_as_json(const prediction_printer *p, const char *path, float *values)
{
    json_t *list = json_array();
    for (int64_t k = 0; k < count(p); k++) {
        float value;
        const int64_t i = take_next(p, k, values, &value);
        append_json(&list, json_pack("{s:o, s:f}", has_numbers(p) ? "target" : "class",
                                     json_of_text(p->info->classes[i]),
                                     has_numbers(p) ? "value" : "probability", (double)value));
    }
    print_object(json_pack("{s:o, s:o}", "path", json_of_text(path), "predictions", list));
}

void prediction_print_error(const prediction_printer *p, const char *path, const char *reason)
{
    if (p->json)
        print_object(
            json_pack("{s:o, s:o}", "path", json_of_text(path), "error", json_of_text(reason)));
    if (p->csv) {
        print_csv(stdout, path);
        print_text(stdout, ",,\n");
    }
}

/* ---- CSV and text ---- */

void prediction_print_header(const prediction_printer *p)
{
    print_text(stdout, "%s\n", has_numbers(p) ? "path,target,value" : "path,class,probability");
}

static void print_as_csv(const prediction_printer *p, const char *path, float *values)
{
    for (int64_t k = 0; k < count(p); k++) {
        float value;
        const int64_t i = take_next(p, k, values, &value);
        print_csv(stdout, path);
        print_text(stdout, ",");
        print_csv(stdout, p->info->classes[i]);
        print_text(stdout, ",%.*g\n", FLOAT_DIGITS, (double)value);
    }
}

void prediction_print(const prediction_printer *p, const char *path, float *values)
{
    if (p->json || p->csv) {
        (p->json ? print_as_json : print_as_csv)(p, path, values);
        return;
    }
    print_text(stdout, "%s\n", path);
    for (int64_t k = 0; k < count(p); k++) {
        float value;
        const int64_t i = take_next(p, k, values, &value);
        print_text(stdout, has_numbers(p) ? "  %.6g  %s\n" : "  %.4f  %s\n", (double)value,
                   p->info->classes[i]);
    }
}

bool prediction_reads(const char *path, bool is_only)
{
    if (is_only && ls_path_kind_of(path) == LS_PATH_LIST)
        return fail_with(
            false,
            "%s: a list; predict reads images, folders, and paths from standard input: "
            "pipe the paths to 'lockstep predict ... -'; 'lockstep eval --data-dir "
            "LIST' evaluates a list with labels",
            path);
    if (is_file(path) && ends_with(path, ".pack"))
        return fail_with(false,
                         "%s: a pack; predict reads image files and folders; 'lockstep eval "
                         "--data-dir PACK' evaluates a pack",
                         path);
    if (is_file(path) && (strstr(path, "-idx3-ubyte") || strstr(path, "-idx1-ubyte")))
        return fail_with(false,
                         "%s: an idx file; predict reads image files, such as PNG; 'lockstep eval "
                         "--data-dir DIR' evaluates the idx files in a folder",
                         path);
    return true;
}
