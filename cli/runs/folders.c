/* folders.c: finding the training and validation images in a folder; see folders.h. */
#include "runs/folders.h"
#include "runs/folders_hints.h"
#include "runs/folders_idx.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* "photos.pack/train" */
static bool is_split(const char *path)
{
    const char *slash = strrchr(path, '/');
    char pack[PATH_SIZE];
    if (!slash || slash == path || slash - path >= PATH_SIZE) return false;
    snprintf(pack, sizeof(pack), "%.*s", (int)(slash - path), path);
    bool found;
    return is_file(pack) && ls_pack_holds(pack, 1, &(const char *){ slash + 1 }, &found);
}

/* The path of the images of a split in a pack. */
static bool find_in_pack(const char *pack, ls_split split, char path[PATH_SIZE])
{
    static const char *const names[LS_N_SPLITS][3] = {
        [LS_SPLIT_TRAIN] = { "train", "train", "train" },
        [LS_SPLIT_VALIDATION] = { "val", "validation", "valid" },
        [LS_SPLIT_TEST] = { "test", "test", "test" },
    };
    bool found[3] = { false };
    ls_pack_holds(pack, 3, names[split], found);
    for (int i = 0; i < 3; i++)
        if (found[i]) return snprintf(path, PATH_SIZE, "%s/%s", pack, names[split][i]) < PATH_SIZE;
    return false;
}

/* The path of the images of a split in DIR: a folder, or a CSV file. */
static bool find_split(const char *dir, ls_split split, char path[PATH_SIZE])
{
    char name[FOLDER_NAME_SIZE];
    if (data_is_csv(dir)) return false;
    if (is_file(dir)) return find_in_pack(dir, split, path);
    const ls_status status = ls_split_find(dir, split, 0, name, sizeof(name), NULL);
    return status == LS_OK && snprintf(path, PATH_SIZE, "%s/%s", dir, name) < PATH_SIZE;
}

/* The folder of a split whose images have their classes in their names: no list. */
static bool find_named(const char *dir, ls_split split, const data_options *o, char path[PATH_SIZE])
{
    char name[FOLDER_NAME_SIZE];
    ls_split_kind kind;
    if (!o || !o->label_pattern) return find_split(dir, split, path);
    for (int i = 0; ls_split_find(dir, split, i, name, sizeof(name), &kind) == LS_OK; i++)
        if (kind != LS_SPLIT_LIST) return snprintf(path, PATH_SIZE, "%s/%s", dir, name) < PATH_SIZE;
    return false;
}

/* The images for validation: those of a test split where there are no others. */
static bool find_val(const char *dir, char path[PATH_SIZE])
{
    return find_split(dir, LS_SPLIT_VALIDATION, path) || find_split(dir, LS_SPLIT_TEST, path);
}

/* Whether `dir` itself can be opened: a folder, a pack without splits, or a split of a pack. */
static bool is_whole(const char *dir)
{
    bool found;
    if (is_file(dir)) return ls_pack_holds(dir, 1, &(const char *){ "" }, &found);
    return is_folder(dir) || is_split(dir);
}

bool folders_has_csv(const char *dir)
{
    char path[PATH_SIZE];
    return data_is_csv(dir) ||
           (is_folder(dir) && find_split(dir, LS_SPLIT_TRAIN, path) && data_is_csv(path));
}

/* The message for a folder or pack without the folder that was searched for. */
static const char *lack(const char *dir, const char *folder_lacks, const char *pack_lacks)
{
    return is_folder(dir)     ? folder_lacks
           : data_is_csv(dir) ? "a CSV file with training images only"
           : is_file(dir)     ? pack_lacks
                              : "no such folder";
}

static void print_wrong_kind(const char *dir, const char *kind)
{
    print_message("%s: %s; expected a folder or a pack", dir, kind);
}

bool folders_check(const char *dir)
{
    struct stat there;
    if (stat(dir, &there) != 0 || S_ISDIR(there.st_mode) || S_ISREG(there.st_mode)) return true;
    print_wrong_kind(dir, S_ISFIFO(there.st_mode)   ? "a pipe"
                          : S_ISSOCK(there.st_mode) ? "a socket"
                                                    : "a device");
    return false;
}

bool folders_check_files(const char *dir)
{
    if (folders_has_idx(dir))
        return fail_with(false,
                         "%s: idx files, which hold all images in one file already; expected a "
                         "folder of image files",
                         dir);
    return !folders_has_csv(dir) ||
           fail_with(false,
                     "%s: a CSV list of images; expected a folder of class folders; "
                     "'lockstep train --data-dir %s' reads the list itself",
                     dir, dir);
}

static bool is_image(const char *path)
{
    if (!is_file(path)) return false;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const bool decoded = ls_image_load(ctx, path, false) != NULL;
    ls_context_close(&ctx);
    return decoded;
}

int folders_fail(ls_context *ctx, const char *dir)
{
    if (!is_image(dir)) return print_error(ctx, EXIT_DATA);
    print_wrong_kind(dir, "a single image");
    return EXIT_DATA;
}

static void print_ignored(const ls_dataset *dataset, const char *path)
{
    const char *example;
    const int64_t n = ls_dataset_ignored_count(dataset, &example);
    if (n > 0)
        print_warning("%s: ignored %lld file%s not in a supported image format, such as %s", path,
                      (long long)n, plural(n), example);
}

ls_dataset *folders_open(ls_context *ctx, const char *dir)
{
    ls_dataset *dataset = data_open(ctx, dir, &(data_opening){ 0 });
    if (dataset) print_ignored(dataset, dir);
    return dataset;
}

/* Prints how the images of a folder can be read that could not be opened as class folders. */
static void print_hint(const char *path)
{
    char words[PATH_SIZE];
    if (folders_find_lists_of(path, words) ||
        (folders_find_list(path, words) && folders_find_list_words(path, words)))
        print_message("did you mean --data-dir %s?", words);
    else if (folders_is_flat(path))
        folders_print_pattern(path);
}

/* The images at a path that was found in DIR. */
static int open_found(ls_context *ctx, const char *dir, const char *path, const data_opening *how,
                      ls_dataset **out)
{
    *out = data_open(ctx, path, how);
    if (!*out && ls_context_status(ctx) == LS_OK) return EXIT_USAGE; /* printed */
    const int answer = *out ? EXIT_DONE : folders_fail(ctx, dir);
    if (!*out && is_folder(path) && !(how->options && how->options->label_pattern))
        print_hint(path);
    if (!*out) return answer;
    print_ignored(*out, path);
    return EXIT_DONE;
}

/* The path below DIR. */
static bool copy_name(const char *dir, const char *path, char name[FOLDER_NAME_SIZE])
{
    return snprintf(name, FOLDER_NAME_SIZE, "%s", path + strlen(dir) + 1) < FOLDER_NAME_SIZE;
}

bool folders_has_train(const char *dir, char name[FOLDER_NAME_SIZE])
{
    char path[PATH_SIZE];
    return find_split(dir, LS_SPLIT_TRAIN, path) && copy_name(dir, path, name);
}

bool folders_has_val(const char *dir, char name[FOLDER_NAME_SIZE])
{
    char path[PATH_SIZE];
    return find_split(dir, LS_SPLIT_VALIDATION, path) && copy_name(dir, path, name);
}

bool folders_has_test(const char *dir, char name[FOLDER_NAME_SIZE])
{
    char path[PATH_SIZE], labels[PATH_SIZE];
    return (find_split(dir, LS_SPLIT_TEST, path) || folders_find_idx(dir, "t10k", path, labels)) &&
           copy_name(dir, path, name);
}

/* False, with a message, for a folder that can't be read. */
static bool can_be_searched(const char *dir)
{
    char name[FOLDER_NAME_SIZE];
    if (!is_folder(dir) ||
        ls_split_find(dir, LS_SPLIT_TRAIN, 0, name, sizeof(name), NULL) != LS_ERR_IO)
        return true;
    return fail_with(false, "%s: %s", dir, strerror(errno));
}

/* Whether --label-pattern, where it is given, can read the names of files in DIR; else prints why
 * not. */
static bool has_names(const char *dir, const data_options *o)
{
    return !o || !o->label_pattern || !is_file(dir) || data_is_csv(dir) ||
           fail_with(false,
                     "%s: a pack, whose classes are stored in it; --label-pattern is for folders "
                     "of image files",
                     dir);
}

/* Of the training images: DIR/train, or with dir_itself DIR. Else prints why not. */
static bool find_train(const char *dir, const data_options *o, bool dir_itself,
                       char path[PATH_SIZE])
{
    char other[PATH_SIZE];
    if (!folders_check(dir) || !has_names(dir, o)) return false;
    if (find_named(dir, LS_SPLIT_TRAIN, o, path)) return true;
    if (!can_be_searched(dir)) return false;
    const int nested = folders_find_nested(dir, other);
    snprintf(path, PATH_SIZE, "%s", dir);
    if (folders_print_nested(dir, nested, other)) return false;
    if (data_is_csv(dir)) return true;
    if (dir_itself && is_whole(dir) && nested == 0) return true;
    const bool found =
        nested > 0 || folders_find_list_words(dir, other) ||
        (is_folder(dir) && (folders_find_lists_of(dir, other) || folders_find_above(dir, other)));
    const char *hint = found ? "; did you mean --data-dir "
                       : is_folder(dir)
                           ? "; for a folder of class folders add --val-split 0.2 or --no-val"
                           : "";
    print_message("%s: %s; expected %s/train/<class>/<image>%s%s%s", dir,
                  lack(dir, "has no folder 'train'", "a pack without a folder 'train'"), dir, hint,
                  found ? other : "", found ? "?" : "");
    if (!found && folders_is_flat(dir)) folders_print_pattern(dir);
    return false;
}

/* Options about lists and names of files have no effect on idx files. */
static int open_idx(ls_context *ctx, const char *images, const char *labels, const data_options *o,
                    int n_classes, const char *const *classes, ls_dataset **out)
{
    const char *given = o ? data_options_given(o) : NULL;
    if (given) return fail_with(EXIT_USAGE, "--%s has no effect here: %s", given, images);
    return folders_open_idx(ctx, images, labels, n_classes, classes, out);
}

int folders_open_unsplit(ls_context *ctx, const char *dir, const data_options *o, int n_classes,
                         const char *const *classes, ls_dataset **out)
{
    char path[PATH_SIZE], labels[PATH_SIZE];
    *out = NULL;
    if (folders_find_idx(dir, "train", path, labels) || folders_find_idx(dir, "t10k", path, labels))
        return open_idx(ctx, path, labels, o, n_classes, classes, out);
    if (!find_train(dir, o, true, path)) return EXIT_DATA;
    const data_opening how = {
        .options = o, .in_groups = true, .n_classes = n_classes, .classes = classes
    };
    return open_found(ctx, dir, path, &how, out);
}

int folders_open_train(ls_context *ctx, const char *dir, const data_options *o, bool dir_itself,
                       ls_dataset **out)
{
    char path[PATH_SIZE], labels[PATH_SIZE];
    int64_t counts[LS_N_SPLITS];
    data_opening how = { .options = o, .in_groups = true };
    *out = NULL;
    if (!dir_itself && data_count_splits(dir, o, counts)) how.rows = LS_CSV_ROWS_TRAIN;
    int answer = EXIT_DATA;
    if (folders_find_idx(dir, "train", path, labels))
        answer = open_idx(ctx, path, labels, o, 0, NULL, out);
    else if (find_train(dir, o, dir_itself, path))
        answer = open_found(ctx, dir, path, &how, out);
    if (answer != EXIT_DONE) return answer;
    if (ls_dataset_target_count(*out) == 0 && ls_dataset_class_count(*out) < 2) {
        char list[PATH_SIZE];
        const bool found = folders_find_list_words(path, list);
        print_message("%s: expected at least two classes, found one: '%s'%s%s%s", path,
                      ls_dataset_class_name(*out, 0), found ? "; did you mean --data-dir " : "",
                      found ? list : "", found ? "?" : "");
        ls_dataset_close(out);
        return EXIT_DATA;
    }
    if (strcmp(path, dir) == 0 && folders_find_list(dir, path))
        print_note("%s is not read; --data-dir %s trains the images that it lists", path, path);
    return EXIT_DONE;
}

/* The rows of a list that are for validation, those for tests where there are no others;
 * LS_CSV_ROWS_ALL without a column of splits. */
static ls_csv_rows val_rows(const char *dir, const data_options *o)
{
    int64_t counts[LS_N_SPLITS];
    if (!data_count_splits(dir, o, counts)) return LS_CSV_ROWS_ALL;
    return counts[LS_SPLIT_VALIDATION] > 0 ? LS_CSV_ROWS_VALIDATION
           : counts[LS_SPLIT_TEST] > 0     ? LS_CSV_ROWS_TEST
                                           : LS_CSV_ROWS_ALL;
}

int folders_open_val(ls_context *ctx, const char *dir, const data_options *o, bool dir_itself,
                     int n_classes, const char *const *classes, ls_dataset **out)
{
    char path[PATH_SIZE], labels[PATH_SIZE];
    data_opening how = {
        .options = o, .in_groups = !dir_itself, .n_classes = n_classes, .classes = classes
    };
    *out = NULL;
    if (!folders_check(dir) || !has_names(dir, o)) return EXIT_DATA;
    if (folders_find_idx(dir, "t10k", path, labels))
        return open_idx(ctx, path, labels, o, n_classes, classes, out);
    how.rows = val_rows(dir, o);
    if (how.rows == LS_CSV_ROWS_TEST)
        print_note("%s: has no rows for validation; its rows for tests are used", dir);
    if (how.rows != LS_CSV_ROWS_ALL) return open_found(ctx, dir, dir, &how, out);
    if (!find_named(dir, LS_SPLIT_VALIDATION, o, path) &&
        !find_named(dir, LS_SPLIT_TEST, o, path)) {
        if (!can_be_searched(dir)) return EXIT_DATA;
        if (!dir_itself || !is_whole(dir))
            return fail_with(EXIT_DATA, "%s: %s%s", dir,
                             lack(dir, "has no folder 'val', 'validation', 'valid' or 'test'",
                                  "a pack without a folder 'val', 'validation', 'valid' or 'test'"),
                             dir_itself
                                 ? ""
                                 : "; --val-split 0.2 splits validation images off the training "
                                   "images, --no-val trains without validation");
        snprintf(path, sizeof(path), "%s", dir);
    }
    if (!dir_itself && !(o && o->label_pattern) && is_folder(path) && folders_is_flat(path))
        return fail_with(EXIT_DATA,
                         "%s: images without classes, which can't be validated; --val-split 0.2 "
                         "splits validation images off the training images, --no-val trains "
                         "without validation",
                         path);
    const int answer = open_found(ctx, dir, path, &how, out);
    if (answer == EXIT_DATA && !dir_itself && data_is_csv(path))
        print_message("a list without labels can't be validated: --val-split 0.2 splits validation "
                      "images off the training images, --no-val trains without validation");
    return answer;
}

static const char *kind_of(const ls_dataset *dataset)
{
    return ls_dataset_target_count(dataset) == 0    ? "one class"
           : ls_dataset_targets_are_labels(dataset) ? "several labels"
                                                    : "numbers";
}

bool folders_check_kinds(const char *dir, const ls_dataset *train, const ls_dataset *val)
{
    char train_path[PATH_SIZE], val_path[PATH_SIZE];
    const char *expected = kind_of(train), *got = kind_of(val);
    if (strcmp(expected, got) == 0 || !find_split(dir, LS_SPLIT_TRAIN, train_path) ||
        !find_val(dir, val_path))
        return true;
    return fail_with(false, "%s has %s for each image, %s has %s: expected the same columns",
                     train_path, expected, val_path, got);
}
