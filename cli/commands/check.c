/* check.c: 'lockstep check': finds what is wrong with a folder of images. */
#include "cli.h"
#include "terminal/events.h"
#include "terminal/json.h"
#include <lockstep/dataset_path.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The value is that of LS_EXIT_RUNTIME, which this command does not use itself. */
enum { EXIT_FINDINGS = 1 };

typedef struct check_values {
    int64_t workers, max_pixels, min_side, limit;
    bool json;
    ls_dataset_config data;
} check_values;

#define AT(member) offsetof(check_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    DATA_OPTIONS(check_values, data),
    { LS_SETTING_INTEGER, 'j', "workers", AT(workers), "threads that read and decode", "N", 0, 256,
      .note = "one per processor, at most 8" },
    LIKE_RUN("max-pixels", AT(max_pixels), NULL),
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

static json_t *classes_json(const ls_dataset_report *report)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < ls_dataset_report_class_count(report); i++) {
        const ls_class_summary c = ls_dataset_report_class_at(report, i);
        append_json(&list, json_pack("{s:o, s:o, s:I, s:I}", "split", json_string(c.split), "class",
                                     c.name ? json_of_text(c.name) : json_null(), "images",
                                     (json_int_t)c.n_images, "readable", (json_int_t)c.n_readable));
    }
    return list;
}

static json_t *folders_json(const ls_dataset_report *report)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < ls_dataset_report_folder_count(report); i++) {
        const ls_folder_summary f = ls_dataset_report_folder_at(report, i);
        append_json(&list, json_pack("{s:o, s:I}", "path", json_of_text(f.path), "images",
                                     (json_int_t)f.n_images));
    }
    return list;
}

static json_t *findings_json(const ls_dataset_report *report)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < ls_dataset_report_finding_count(report); i++) {
        const ls_finding f = ls_dataset_report_finding_at(report, i);
        const char *kind = ls_finding_name(f.kind);
        json_t *path = json_of_text(f.path), *reason = json_of_text(f.reason);
        append_json(&list, *f.other ? json_pack("{s:s, s:o, s:o, s:o}", "kind", kind, "path", path,
                                                "other", json_of_text(f.other), "reason", reason)
                                    : json_pack("{s:s, s:o, s:o}", "kind", kind, "path", path,
                                                "reason", reason));
    }
    return list;
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
    json_t *all = json_object();
    for (int64_t i = 0; all && i < ls_dataset_report_finding_count(report); i++) {
        const ls_finding_kind kind = ls_dataset_report_finding_at(report, i).kind;
        if (!advice[kind] ||
            json_object_set_new(all, ls_finding_name(kind), json_string(advice[kind])) == 0)
            continue;
        json_decref(all);
        all = NULL;
    }
    return all;
}

static bool print_as_json(const char *dir, const ls_dataset_report *report)
{
    const ls_dataset_summary s = ls_dataset_report_summary(report);
    json_t *json = json_pack(
        "{s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "dir", json_of_text(dir), "images",
        (json_int_t)s.n_images, "readable", (json_int_t)s.n_readable, "width", range_json(&s.width),
        "height", range_json(&s.height), "classes", classes_json(report), "folders",
        folders_json(report), "findings", findings_json(report), "advice", advice_json(report));
    if (!json) return false;
    json_dump_callback(json, print_json, stdout, JSON_INDENT(2));
    print_text(stdout, "\n");
    json_decref(json);
    return true;
}

/* ---- Trees of folders ---- */

/* MAX_DEPTH: DIR, split, class, a folder in it. */
enum { MAX_LINES = 32, LINE_SIZE = 80, MAX_FOLDERS = 3, MAX_DEPTH = 4, GAP = 4 };

typedef struct tree {
    int n;
    char lines[MAX_LINES][LINE_SIZE];
} tree;

__attribute__((format(printf, 3, 4))) static void add_line(tree *t, int depth, const char *format,
                                                           ...)
{
    if (t->n == MAX_LINES) return;
    char *line = t->lines[t->n++];
    const int indent = snprintf(line, LINE_SIZE, "%*s", 2 * depth, "");
    va_list args;
    va_start(args, format);
    const size_t left = (size_t)(LINE_SIZE - indent);
    cut_text(line + indent, left, vsnprintf(line + indent, left, format, args));
    va_end(args);
}

static void add_images(tree *t, int depth, int64_t n)
{
    if (n > 0) add_line(t, depth, "%lld image%s", (long long)n, plural(n));
}

/* The folders begin to end - 1, which share the first `length` bytes of their paths. */
static void add_folders(tree *t, const ls_dataset_report *report, int64_t begin, int64_t end,
                        size_t length, int depth)
{
    int64_t n = 0;
    for (int64_t i = begin, next; i < end && depth < MAX_DEPTH; i = next) {
        const ls_folder_summary folder = ls_dataset_report_folder_at(report, i);
        const char *name = folder.path + length;
        const size_t n_name = strcspn(name, "/");
        for (next = i + 1; next < end; next++) {
            const char *other = ls_dataset_report_folder_at(report, next).path + length;
            if (strncmp(name, other, n_name) != 0 || other[n_name] != '/') break;
        }
        if (n++ >= MAX_FOLDERS) continue;
        const bool is_own = name[n_name] == '\0'; /* not only of a folder below it */
        add_line(t, depth, "%.*s/", (int)n_name, name);
        if (is_own) add_images(t, depth + 1, folder.n_images);
        add_folders(t, report, i + is_own, next, length + n_name + 1, depth + 1);
    }
    if (n > MAX_FOLDERS)
        add_line(t, depth, "... %lld more folder%s", (long long)(n - MAX_FOLDERS),
                 plural(n - MAX_FOLDERS));
}

static void add_found(tree *t, const char *dir, const ls_dataset_report *report)
{
    const ls_folder_summary first = ls_dataset_report_folder_at(report, 0);
    const bool is_top = first.path && *first.path == '\0'; /* images in DIR itself */
    add_line(t, 0, "%s/", dir);
    add_images(t, 1, is_top ? first.n_images : 0);
    add_folders(t, report, is_top, ls_dataset_report_folder_count(report), 0, 1);
}

static void add_expected(tree *t, const char *dir)
{
    static const char *const splits[] = { "train", "val" };
    add_line(t, 0, "%s/", dir);
    for (int s = 0; s < 2; s++) {
        add_line(t, 1, "%s/", splits[s]);
        for (int c = 1; c <= 2; c++) {
            add_line(t, 2, "<class %d>/", c);
            if (s == 0) add_line(t, 3, "<image>...");
        }
    }
}

static int width_of(const tree *t)
{
    int width = 0;
    for (int i = 0; i < t->n; i++) width = max_columns(width, t->lines[i]);
    return width;
}

/* Draws on stdout the folders as they are and as they should be, side by side where both trees fit
 * into the terminal, or into 80 columns. */
static void print_trees(const char *dir, const ls_dataset_report *report)
{
    tree found = { 0 }, expected = { 0 };
    add_line(&found, 0, "found");
    add_line(&expected, 0, "expected");
    add_found(&found, dir, report);
    add_expected(&expected, dir);
    const int terminal = terminal_columns(STDOUT_FILENO), columns = terminal > 0 ? terminal : 80;
    const int left = width_of(&found) + GAP;
    if (left + width_of(&expected) > columns) {
        for (int i = 0; i < found.n; i++) print_text(stdout, "%s\n", found.lines[i]);
        print_text(stdout, "\n");
        for (int i = 0; i < expected.n; i++) print_text(stdout, "%s\n", expected.lines[i]);
        return;
    }
    for (int i = 0; i < found.n || i < expected.n; i++) {
        const char *a = i < found.n ? found.lines[i] : "";
        const char *b = i < expected.n ? expected.lines[i] : "";
        print_text(stdout, "%s", a);
        print_text(stdout, *b ? "%*s%s\n" : "\n", left - text_columns(a), "", b);
    }
}

/* ---- Text ---- */

static void print_range(const char *name, const ls_size_range *range)
{
    print_text(stdout, "%-7s %lld to %lld pixels, median %lld\n", name, (long long)range->min,
               (long long)range->max, (long long)range->median);
}

/* The name of a class, or of the images of a split without classes; NULL for images beside class
 * folders or splits, which are a finding. */
static const char *class_text(const ls_dataset_report *report, int64_t i)
{
    const ls_class_summary here = ls_dataset_report_class_at(report, i);
    const ls_class_summary next = ls_dataset_report_class_at(report, i + 1);
    const bool is_beside = next.split && (!*here.split || strcmp(next.split, here.split) == 0);
    return here.name ? here.name : is_beside ? NULL : "unlabelled";
}

/* Columns of the longest class name. */
static int name_columns(const ls_dataset_report *report)
{
    int max = 0;
    for (int64_t i = 0; i < ls_dataset_report_class_count(report); i++) {
        const char *name = class_text(report, i);
        if (name) max = max_columns(max, name);
    }
    return max;
}

static void print_classes(const ls_dataset_report *report)
{
    const int columns = name_columns(report);
    const char *split = "";
    for (int64_t i = 0; i < ls_dataset_report_class_count(report); i++) {
        const ls_class_summary c = ls_dataset_report_class_at(report, i);
        const char *name = class_text(report, i);
        if (strcmp(split, c.split) != 0) print_text(stdout, "%s\n", c.split);
        split = c.split;
        if (!name) continue;
        print_text(stdout, "  %s%*s", name, columns - text_columns(name), "");
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
        print_trees(dir, report);
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

static int check(ls_context *ctx, const check_values *v, const char *dir)
{
    progress bar;
    progress_open(&bar, 0, 0);
    progress_begin(&bar, "check", WORK_OTHER, 0, 0);
    const ls_dataset_check_config config = { .workers = (int)v->workers,
                                             .max_pixels = v->max_pixels,
                                             .min_side = v->min_side,
                                             .progress = report_count,
                                             .user = &bar };
    const ls_dataset_report *report = ls_dataset_check_path(ctx, dir, &v->data, &config);
    progress_clear(&bar);
    if (!report) {
        const int exit_status = print_error(ctx, LS_EXIT_DATA);
        return caught_signal                  ? LS_EXIT_SIGNAL + caught_signal
               : exit_status == LS_EXIT_USAGE ? LS_EXIT_USAGE
                                              : LS_EXIT_DATA;
    }
    if (*ls_dataset_report_dir(report)) dir = ls_dataset_report_dir(report);
    if (!v->json)
        print_as_text(dir, report, v->limit);
    else if (!print_as_json(dir, report))
        return print_error(NULL, LS_EXIT_DATA), LS_EXIT_DATA;
    if (ls_dataset_report_summary(report).n_readable == 0)
        return fail_with(LS_EXIT_DATA, "%s: no image can be read", dir);
    return ls_dataset_report_finding_count(report) > 0 ? EXIT_FINDINGS : LS_EXIT_DONE;
}

static int run(const cli_parsed *parsed, void *values)
{
    check_values *v = values;
    if (parsed->n_arguments != 1)
        return fail_with(LS_EXIT_USAGE, "expected one folder or list, got %d argument%s",
                         parsed->n_arguments, plural(parsed->n_arguments));
    char *dir = parsed->arguments[0];
    for (size_t n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--) dir[n - 1] = '\0';
    if (!ls_given_has(&parsed->set, "workers")) v->workers = ls_default_worker_count();
    catch_signals();
    return check(command_context(), v, dir);
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
    .values_bytes = sizeof(check_values),
    .options = options,
    .run = run,
};
