/* check.c: 'lockstep check': finds what is wrong with a folder of images. */
#include "run/settings.h"
#include "run/help_texts.h"
#include "run/paths.h"
#include "cli.h"
#include "commands/check_parts.h"
#include "commands/check_tree.h"
#include "run/folders.h"
#include "run/folders_hints.h"
#include "terminal/progress.h"
#include "io/json.h"
#include <stdio.h>
#include <string.h>

/* As EXIT_RUNTIME, which this command does not use itself. */
enum { EXIT_FINDINGS = 1 };

typedef struct check_values {
    int64_t workers, max_pixels, min_side, limit;
    bool json;
    ls__data_settings data;
} check_values;

#define AT(member) offsetof(check_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    LS__DATA_SETTINGS(check_values, data),
    { LS_SETTING_INTEGER, 'j', "workers", AT(workers), "threads that read and decode", "N", 0, 256,
      .note = "one per processor, at most 8" },
    { LS_SETTING_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE },
    { LS_SETTING_INTEGER, 0, "min-side", AT(min_side),
      "an image with a side below N pixels is a finding", "N", 1, 65536, .fallback = "16" },
    { LS_SETTING_INTEGER, 0, "limit", AT(limit), "findings that are listed of each kind", "N", 1,
      1e9, .fallback = "10" },
    { LS_SETTING_SWITCH, 0, "json", AT(json), "print everything as one JSON document" },
    { .kind = LS_SETTING_END },
};

/* ---- JSON ---- */

static json_t *range_json(const ls_size_range *range)
{
    return json_pack("{s:I, s:I, s:I}", "min", (json_int_t)range->min, "median",
                     (json_int_t)range->median, "max", (json_int_t)range->max);
}

static json_t *classes_json(ls_context *ctx, const ls_dataset_report *report)
{
    ls__json_builder list = { json_array(), false };
    for (int64_t i = 0; i < ls_dataset_report_class_count(report); i++) {
        const ls_class_summary c = ls_dataset_report_class_at(report, i);
        ls__json_builder item = { json_object(), false };
        ls__json_put_text(&item, "split", c.split);
        ls__json_put(&item, "class", c.name ? ls__json_text(ctx, c.name) : json_null());
        ls__json_put(&item, "images", json_integer(c.n_images));
        ls__json_put(&item, "readable", json_integer(c.n_readable));
        ls__json_append(&list, ls__json_finish(&item));
    }
    return ls__json_finish(&list);
}

static json_t *folders_json(ls_context *ctx, const ls_dataset_report *report)
{
    ls__json_builder list = { json_array(), false };
    for (int64_t i = 0; i < ls_dataset_report_folder_count(report); i++) {
        const ls_folder_summary f = ls_dataset_report_folder_at(report, i);
        ls__json_builder item = { json_object(), false };
        ls__json_put(&item, "path", ls__json_text(ctx, f.path));
        ls__json_put(&item, "images", json_integer(f.n_images));
        ls__json_append(&list, ls__json_finish(&item));
    }
    return ls__json_finish(&list);
}

static json_t *findings_json(ls_context *ctx, const ls_dataset_report *report)
{
    ls__json_builder list = { json_array(), false };
    for (int64_t i = 0; i < ls_dataset_report_finding_count(report); i++) {
        const ls_finding f = ls_dataset_report_finding_at(report, i);
        ls__json_builder item = { json_object(), false };
        ls__json_put_text(&item, "kind", ls_finding_name(f.kind));
        ls__json_put(&item, "path", ls__json_text(ctx, f.path));
        if (*f.other) ls__json_put(&item, "other", ls__json_text(ctx, f.other));
        ls__json_put(&item, "reason", ls__json_text(ctx, f.reason));
        ls__json_append(&list, ls__json_finish(&item));
    }
    return ls__json_finish(&list);
}

/* Options of `lockstep train` that help, and what else to do. */
static const char *const advice[LS_FINDING_KIND_COUNT] = {
    [LS_FINDING_IMBALANCE] =
        "--class-weights balanced or --sampler balanced gives rare classes more "
        "weight; --metric macro_recall chooses the best epoch by all classes",
    [LS_FINDING_LEAK] = "remove one of the two, or the validation accuracy is too high",
    [LS_FINDING_NEAR_LEAK] = "remove one of the two, or the validation accuracy is too high",
    [LS_FINDING_GROUP_LEAK] = "move each group to one side, or divide all images by --val-split "
                              "with the groups; else the validation accuracy is too high",
    [LS_FINDING_ROTATED] = "--exif turns them upright",
    [LS_FINDING_ALPHA] = "they are composed on white; --alpha black is for bright shapes",
    [LS_FINDING_DEPTH] = "--depth with these bits uses the whole range; without it the images are "
                         "nearly black",
    [LS_FINDING_UNIFORM] = "--alpha black shows shapes that are white on white; --depth shows dark "
                           "samples of 16 bits; other images of one colour show nothing to learn",
    [LS_FINDING_ASPECT] = "--resize pad or --resize stretch uses the whole image; --image-size HxW "
                          "gives the crop the shape of the images",
};

static json_t *advice_json(const ls_dataset_report *report)
{
    ls__json_builder all = { json_object(), false };
    for (int64_t i = 0; i < ls_dataset_report_finding_count(report); i++) {
        const ls_finding_kind kind = ls_dataset_report_finding_at(report, i).kind;
        if (advice[kind]) ls__json_put_text(&all, ls_finding_name(kind), advice[kind]);
    }
    return ls__json_finish(&all);
}

static bool print_as_json(ls_context *ctx, const char *dir, const ls_dataset_report *report)
{
    const ls_dataset_summary s = ls_dataset_report_summary(report);
    ls__json_builder all = { json_object(), false };
    ls__json_put(&all, "dir", ls__json_text(ctx, dir));
    ls__json_put(&all, "images", json_integer(s.n_images));
    ls__json_put(&all, "readable", json_integer(s.n_readable));
    ls__json_put(&all, "width", range_json(&s.width));
    ls__json_put(&all, "height", range_json(&s.height));
    ls__json_put(&all, "classes", classes_json(ctx, report));
    ls__json_put(&all, "folders", folders_json(ctx, report));
    ls__json_put(&all, "findings", findings_json(ctx, report));
    ls__json_put(&all, "advice", advice_json(report));
    json_t *json = ls__json_finish(&all);
    if (!json) return false;
    json_dump_callback(json, print_json, stdout, JSON_INDENT(2));
    print_text(stdout, "\n");
    json_decref(json);
    return true;
}

/* ---- Text ---- */

static void print_range(const char *name, const ls_size_range *range)
{
    print_text(stdout, "%-7s %lld to %lld pixels, median %lld\n", name, (long long)range->min,
               (long long)range->max, (long long)range->median);
}

/* Columns of the longest class name. */
static int name_columns(const ls_dataset_report *report)
{
    int most = 0;
    for (int64_t i = 0; i < ls_dataset_report_class_count(report); i++) {
        const char *name = ls_dataset_report_class_at(report, i).name;
        const int columns = name ? text_columns(name) : 0;
        if (columns > most) most = columns;
    }
    return most;
}

static void print_classes(const ls_dataset_report *report)
{
    const int columns = name_columns(report);
    const char *split = "";
    for (int64_t i = 0; i < ls_dataset_report_class_count(report); i++) {
        const ls_class_summary c = ls_dataset_report_class_at(report, i);
        if (strcmp(split, c.split) != 0) print_text(stdout, "%s\n", c.split);
        split = c.split;
        if (!c.name) continue;
        print_text(stdout, "  %s%*s", c.name, columns - text_columns(c.name), "");
        print_text(stdout, "  %7lld image%s", (long long)c.n_images, plural(c.n_images));
        if (c.n_readable < c.n_images)
            print_text(stdout, ", %lld unreadable", (long long)(c.n_images - c.n_readable));
        print_text(stdout, "\n");
    }
}

/* The findings of a kind, from number `first` on. Returns the number of the next kind's first. */
static int64_t print_kind(const char *dir, const ls_dataset_report *report, int64_t first,
                          int64_t limit)
{
    const ls_finding_kind kind = ls_dataset_report_finding_at(report, first).kind;
    const int64_t n = ls_dataset_report_finding_count(report);
    int64_t end = first;
    while (end < n && ls_dataset_report_finding_at(report, end).kind == kind) end++;
    print_text(stdout, "\n%s: %lld\n", ls_finding_text(kind), (long long)(end - first));
    for (int64_t i = first; i < end && i < first + limit; i++) {
        const ls_finding f = ls_dataset_report_finding_at(report, i);
        print_text(stdout, "  %s: %s\n", *f.path ? f.path : dir, f.reason);
    }
    if (end - first > limit)
        print_text(stdout, "  ... and %lld more (--limit)\n", (long long)(end - first - limit));
    if (advice[kind]) {
        enum { WIDTH = 5 };
        const bool is_option = strncmp(advice[kind], "--", 2) == 0;
        print_text(stdout, is_option ? "  -> train " : "  -> ");
        print_words(stdout, is_option ? WIDTH + 6 : WIDTH, WIDTH, advice[kind]);
    }
    if (kind == LS_FINDING_LAYOUT) {
        print_text(stdout, "\n");
        check_print_trees(dir, report);
    }
    return end;
}

static void print_as_text(const char *dir, const ls_dataset_report *report, int64_t limit)
{
    const ls_dataset_summary s = ls_dataset_report_summary(report);
    const int64_t n = ls_dataset_report_finding_count(report);
    print_text(stdout, "%s: %lld image%s, %lld readable\n", dir, (long long)s.n_images,
               plural(s.n_images), (long long)s.n_readable);
    print_classes(report);
    if (s.n_readable > 0) {
        print_range("width", &s.width);
        print_range("height", &s.height);
    }
    for (int64_t i = 0; i < n;) i = print_kind(dir, report, i, limit);
    print_text(stdout, n > 0 ? "\n%lld finding%s\n" : "no findings\n", (long long)n, plural(n));
}

/* ---- The command ---- */

static bool print_progress(void *user, int64_t n_done, int64_t n)
{
    progress *p = user;
    if (n_done == 0) progress_begin(p, "check", WORK_OTHER, 0, n);
    progress_count(p, n_done, n);
    return caught_signal == 0;
}

static bool can_check(ls_context *ctx, const check_values *v, const char *dir)
{
    return ls__data_settings_check(ctx, &v->data) && ls__folders_check(ctx, dir) == LS_OK &&
           (check_has_parts(dir, &v->data) || ls__folders_check_files(ctx, dir) == LS_OK) &&
           ls_context_status(ctx) == LS_OK;
}

/* Prints the error. Returns the exit status: that of the images where the process failed, too. */
static int fail_data(ls_context *ctx)
{
    const int exit_status = print_error(ctx, EXIT_DATA);
    return exit_status == EXIT_USAGE ? EXIT_USAGE : EXIT_DATA;
}

static bool has_class_folders(const char *dir)
{
    char name[LS__FOLDER_NAME_SIZE], train[LS__PATH_SIZE];
    return ls__folders_has_train(dir, name) &&
           snprintf(train, LS__PATH_SIZE, "%s/%s", dir, name) < LS__PATH_SIZE &&
           !ls__folders_is_flat(train);
}

/* How the images of a folder without class folders can be checked. */
static void print_other_reading(const char *dir)
{
    char list[LS__PATH_SIZE], words[LS__PATH_SIZE];
    const char *pattern = ls__folders_is_flat(dir) ? ls__folders_find_pattern(dir) : NULL;
    if (ls__folders_find_list(dir, list) && ls__folders_find_list_words(dir, false, words))
        print_note("%s is not checked; the images that it lists are checked by: lockstep check %s",
                   list, words);
    else if (pattern)
        print_note("--label-pattern '%s' reads classes in the names of the files", pattern);
}

static int check(ls_context *ctx, const check_values *v, const char *dir)
{
    progress bar;
    ls_check_part parts[LS_N_SPLITS];
    int n_parts = 0;
    if (check_has_parts(dir, &v->data)) {
        if (check_open_parts(ctx, dir, &v->data, parts, &n_parts) != LS_OK) return fail_data(ctx);
    } else if (v->data.csv_columns || v->data.image_root || v->data.group_column) {
        return fail_with(EXIT_USAGE, "%s: no CSV list; --%s is for lists, such as list.csv", dir,
                         ls__data_settings_first_given(&v->data));
    }
    char inner[LS__PATH_SIZE];
    if (n_parts == 0 && !has_class_folders(dir)) {
        print_other_reading(dir);
        ls__folders_unwrap(dir, inner);
        if (strcmp(inner, dir) != 0)
            print_note("%s: checks '%s', the only folder in it", dir, inner);
        dir = inner;
    }
    progress_open(&bar, 0, 0);
    const ls_dataset_check_config config = { .workers = (int)v->workers,
                                             .max_pixels = v->max_pixels,
                                             .min_side = v->min_side,
                                             .group_pattern =
                                                 n_parts > 0 ? NULL : v->data.group_pattern,
                                             .progress = print_progress,
                                             .user = &bar };
    const ls_dataset_report *report = n_parts > 0
                                          ? ls_dataset_check_parts(ctx, n_parts, parts, &config)
                                          : ls_dataset_check(ctx, dir, &config);
    progress_clear(&bar);
    if (!report) {
        print_error(ctx, EXIT_DATA);
        return caught_signal ? EXIT_SIGNAL + caught_signal : EXIT_DATA;
    }
    if (!v->json)
        print_as_text(dir, report, v->limit);
    else if (!print_as_json(ctx, dir, report)) {
        print_error(NULL, EXIT_DATA);
        return EXIT_DATA;
    }
    if (ls_dataset_report_summary(report).n_readable == 0)
        return fail_with(EXIT_DATA, "%s: no image can be read", dir);
    return ls_dataset_report_finding_count(report) > 0 ? EXIT_FINDINGS : EXIT_DONE;
}

static int run(int argc, char **argv)
{
    check_values v = { 0 };
    cli_parsed parsed;
    const int ended = options_parse(&command_check, argc, argv, &v, &parsed);
    if (ended >= 0) return ended;
    if (parsed.n_arguments != 1)
        return fail_with(EXIT_USAGE, "expected one folder or list, got %d argument%s",
                         parsed.n_arguments, plural(parsed.n_arguments));
    char *dir = parsed.arguments[0];
    for (size_t n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--) dir[n - 1] = '\0';
    if (!ls_given_has(&parsed.set, "workers")) v.workers = ls__default_workers();
    if (ls__is_file(dir) && !ls__is_csv(dir))
        return fail_with(
            EXIT_DATA, "%s: a file; expected a folder; 'lockstep pack --check' checks a pack", dir);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log });
    catch_signals();
    const int answer = can_check(ctx, &v, dir) ? check(ctx, &v, dir) : fail_data(ctx);
    ls_context_close(&ctx);
    return answer;
}

const cli_command command_check = {
    .name = "check",
    .summary = "check images and lists: unreadable files, duplicates, wrong folders",
    .arguments = "DIR",
    .details =
        "DIR is the --data-dir of 'lockstep train'. All images of DIR/train, DIR/val, "
        "DIR/validation, DIR/valid and DIR/test that exist are decoded, or those of the class "
        "folders in DIR. DIR may also be a CSV list, or hold train.csv and val.csv; with "
        "--label-pattern a folder whose files have their classes in their names. Nothing is "
        "changed. docs/data.md explains the findings.\n"
        "Exit status: 0 no findings, 1 findings, 2 wrong command line, 3 no image can be read or "
        "the folder can't be checked, 128+n stopped by signal n.",
    .options = options,
    .run = run,
};
