/* demo_data.c: 'lockstep demo-data': generates a small image dataset. */
#include "cli.h"
#include "commands/demo_image.h"
#include "commands/write_image.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct demo_values {
    int64_t n_train, n_val, seed;
} demo_values;

#define AT(member) offsetof(demo_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_INTEGER, 0, "train", AT(n_train), "training images per class", "N", 1, 1e6,
      .fallback = "400" },
    { LS_SETTING_INTEGER, 0, "val", AT(n_val), "validation images per class", "N", 1, 1e6,
      .fallback = "60" },
    { LS_SETTING_INTEGER, 0, "seed", AT(seed), "random seed; the same seed gives the same files",
      "S", 0, 9e18, .fallback = "0" },
    { .kind = LS_SETTING_END },
};

/* Makes a folder, unless it exists. */
static int make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? LS_EXIT_DONE : fail_errno(path);
}

static int write_split(const char *dir, const char *name, int split, int64_t n_per_class,
                       uint64_t seed)
{
    enum { PATH_SIZE = 4096 };
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int exit_status = make_folder(path);
    for (int label = 0; exit_status == LS_EXIT_DONE && label < DEMO_CLASSES; label++) {
        snprintf(path, sizeof(path), "%s/%s/%s", dir, name, demo_class_names[label]);
        exit_status = make_folder(path);
        for (int64_t i = 0; exit_status == LS_EXIT_DONE && i < n_per_class; i++) {
            demo_image image;
            demo_image_make(seed, split, label, i, &image);
            snprintf(path, sizeof(path), "%s/%s/%s/%06lld.%s", dir, name, demo_class_names[label],
                     (long long)i, image.quality ? "jpg" : "png");
            if (!write_image(path, image.width, image.height, image.pixels, image.quality))
                exit_status = fail_errno(path);
        }
    }
    return exit_status;
}

/* The folder must be new or empty, so that no file is overwritten. */
static int claim_folder(const char *dir)
{
    if (mkdir(dir, 0777) == 0) return LS_EXIT_DONE;
    if (errno != EEXIST) return fail_errno(dir);
    DIR *folder = opendir(dir);
    if (!folder) return fail_errno(dir);
    bool empty = true;
    for (const struct dirent *e; empty && (e = readdir(folder));)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(folder);
    if (empty) return LS_EXIT_DONE;
    return fail_with(LS_EXIT_RUNTIME, "%s is not empty; give another folder, or remove it", dir);
}

static int run(const cli_parsed *parsed, void *values)
{
    demo_values *v = values;
    enum { MAX_DIR = 4000 };
    if (parsed->n_arguments != 1 || strlen(parsed->arguments[0]) > MAX_DIR)
        return fail_with(LS_EXIT_USAGE, "expected one folder to write to, got %d argument%s",
                         parsed->n_arguments, plural(parsed->n_arguments));
    const char *dir = parsed->arguments[0];
    const uint64_t seed = (uint64_t)v->seed;
    int exit_status = claim_folder(dir);
    if (exit_status == LS_EXIT_DONE) exit_status = write_split(dir, "train", 0, v->n_train, seed);
    if (exit_status == LS_EXIT_DONE) exit_status = write_split(dir, "val", 1, v->n_val, seed);
    if (exit_status == LS_EXIT_DONE) {
        print_text(stdout, "%s: %d classes, %lld images to train on, %lld to validate\n", dir,
                   DEMO_CLASSES, (long long)(DEMO_CLASSES * v->n_train),
                   (long long)(DEMO_CLASSES * v->n_val));
        print_command(stdout, "next", "train", "--data-dir", dir, "--model", "resnet20", NULL);
    }
    return exit_status;
}

const cli_command command_demo_data = {
    .name = "demo-data",
    .summary = "generate a small image dataset",
    .arguments = "DIR",
    .values_bytes = sizeof(demo_values),
    .options = options,
    .run = run,
};
