/* folders.c: finding the training and validation images in a folder; see folders.h. */
#include "folders.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096 };

const char *const split_names[N_SPLITS] = { LS_SPLIT_NAMES };

/* "photos.pack/train": a part of a pack. */
static bool is_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    char pack[PATH_SIZE];
    if (!slash || slash == path || slash - path >= PATH_SIZE) return false;
    snprintf(pack, sizeof(pack), "%.*s", (int)(slash - path), path);
    bool held;
    return is_file(pack) && ls_pack_holds(pack, 1, &(const char *){ slash + 1 }, &held);
}

static bool has_folder(const char *dir, const char *name)
{
    char path[PATH_SIZE];
    const int length = snprintf(path, sizeof(path), "%s/%s", dir, name);
    return length > 0 && length < PATH_SIZE && is_folder(path);
}

/* Which of n <= N_SPLITS names are in it. */
static void look(const char *dir, int n, const char *const *names, bool held[N_SPLITS])
{
    memset(held, 0, N_SPLITS * sizeof(*held));
    if (is_file(dir)) {
        ls_pack_holds(dir, n, names, held);
        return;
    }
    for (int i = 0; i < n; i++) held[i] = has_folder(dir, names[i]);
}

/* Whether it can be opened by its own name: a folder, a pack of one part, a part of a pack. */
static bool is_whole(const char *dir)
{
    bool held;
    if (is_file(dir)) return ls_pack_holds(dir, 1, &(const char *){ "" }, &held);
    return is_folder(dir) || is_part(dir);
}

int folders_find_splits(const char *dir, const char *found[N_SPLITS])
{
    int n = 0;
    bool held[N_SPLITS];
    look(dir, N_SPLITS, split_names, held);
    for (int i = 0; i < N_SPLITS; i++)
        if (held[i]) found[n++] = split_names[i];
    return n;
}

/* The first of the splits that is there, as a path; false when there is none. */
static bool find_folder(const char *dir, int n, const char *const *names, char path[PATH_SIZE])
{
    bool held[N_SPLITS];
    look(dir, n, names, held);
    for (int i = 0; i < n; i++) {
        const int length = snprintf(path, PATH_SIZE, "%s/%s", dir, names[i]);
        if (length > 0 && length < PATH_SIZE && held[i]) return true;
    }
    return false;
}

/* The message for a folder or pack without the folder that was searched for. */
static const char *lack(const char *dir, const char *folder_lacks, const char *pack_lacks)
{
    return is_folder(dir) ? folder_lacks : is_file(dir) ? pack_lacks : "no such folder";
}

static void print_wrong_kind(const cli_verb *verb, const char *dir, const char *kind)
{
    print_message(verb, "%s: %s; expected a folder or a pack", dir, kind);
}

bool folders_check(const cli_verb *verb, const char *dir)
{
    struct stat there;
    if (stat(dir, &there) != 0 || S_ISDIR(there.st_mode) || S_ISREG(there.st_mode)) return true;
    print_wrong_kind(verb, dir,
                     S_ISFIFO(there.st_mode)   ? "a pipe"
                     : S_ISSOCK(there.st_mode) ? "a socket"
                                               : "a device");
    return false;
}

static bool is_image(const char *path)
{
    if (!is_file(path)) return false;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const bool decoded = ls_image_load(ctx, path, false) != NULL;
    ls_context_close(&ctx);
    return decoded;
}

int folders_fail(const cli_verb *verb, ls_context *ctx, const char *dir)
{
    if (!is_image(dir)) return print_error(verb, ctx, EXIT_DATA);
    print_wrong_kind(verb, dir, "a single image");
    return EXIT_DATA;
}

static void print_ignored(const ls_dataset *dataset, const char *path)
{
    const char *example;
    const int64_t n = ls_dataset_ignored_count(dataset, &example);
    if (n > 0)
        print_text(
            stderr,
            "lockstep: warning: %s: left out %lld file%s of no known image format, such as %s\n",
            path, (long long)n, plural(n), example);
}

ls_dataset *folders_open(ls_context *ctx, const char *dir)
{
    ls_dataset *dataset = ls_image_folder_open(ctx, dir);
    if (dataset) print_ignored(dataset, dir);
    return dataset;
}

/* A folder in DIR that has a folder 'train': DIR is one level too high. */
static bool find_nested(const char *dir, char path[PATH_SIZE])
{
    bool found = false;
    DIR *folder = opendir(dir);
    for (const struct dirent *e; folder && !found && (e = readdir(folder));) {
        const int length = snprintf(path, PATH_SIZE, "%s/%s", dir, e->d_name);
        found = e->d_name[0] != '.' && length < PATH_SIZE && has_folder(path, split_names[0]);
    }
    if (folder) closedir(folder);
    return found;
}

/* DIR is "ABOVE/train", so one level too low. */
static bool find_above(const char *dir, char path[PATH_SIZE])
{
    size_t n = strlen(dir);
    const size_t length = strlen(split_names[0]);
    while (n > 1 && dir[n - 1] == '/') n--;
    if (n < length || n >= PATH_SIZE || memcmp(dir + n - length, split_names[0], length) != 0)
        return false;
    n -= length;
    if (n > 0 && dir[n - 1] != '/') return false;
    snprintf(path, PATH_SIZE, "%.*s", n > 1 ? (int)n - 1 : (int)n, dir);
    if (n == 0) snprintf(path, PATH_SIZE, ".");
    return true;
}

int folders_open_train(const cli_verb *verb, ls_context *ctx, const char *dir, ls_dataset **out)
{
    char path[PATH_SIZE];
    *out = NULL;
    if (!folders_check(verb, dir)) return EXIT_DATA;
    if (!find_folder(dir, 1, split_names, path)) {
        char nested[PATH_SIZE];
        print_text(stderr, "lockstep %s: %s: %s; expected %s/train/<class>/<image>", verb->name,
                   dir, lack(dir, "has no folder 'train'", "a pack without a folder 'train'"), dir);
        if (find_nested(dir, nested))
            print_text(stderr, "; %s has one: --data-dir %s", nested, nested);
        else if (is_folder(dir) && find_above(dir, nested))
            print_text(stderr, "; the folder above has one: --data-dir %s", nested);
        print_text(stderr, "\n");
        return EXIT_DATA;
    }
    *out = ls_image_folder_open(ctx, path);
    if (!*out) return folders_fail(verb, ctx, dir);
    if (ls_dataset_class_count(*out) < 2) {
        print_message(verb, "%s: only one class, '%s'; at least two are needed to tell apart", path,
                      ls_dataset_class_name(*out, 0));
        ls_dataset_close(out);
        return EXIT_DATA;
    }
    print_ignored(*out, path);
    return EXIT_DONE;
}

int folders_open_val(const cli_verb *verb, ls_context *ctx, const char *dir, bool dir_itself,
                     int n_classes, const char *const *classes, ls_dataset **out)
{
    char path[PATH_SIZE];
    *out = NULL;
    if (!folders_check(verb, dir)) return EXIT_DATA;
    if (!find_folder(dir, N_SPLITS - 1, split_names + 1, path)) {
        if (!dir_itself || !is_whole(dir))
            return fail_with(verb, EXIT_DATA, "%s: %s%s", dir,
                             lack(dir, "has no folder 'val', 'validation', 'valid' or 'test'",
                                  "a pack without a folder 'val', 'validation', 'valid' or 'test'"),
                             dir_itself ? "" : "; --no-val trains without one");
        snprintf(path, sizeof(path), "%s", dir);
    }
    *out = ls_image_folder_open_classes(ctx, path, n_classes, classes);
    if (!*out) return folders_fail(verb, ctx, dir);
    print_ignored(*out, path);
    return EXIT_DONE;
}
