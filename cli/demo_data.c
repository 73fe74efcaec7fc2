/* demo_data.c: 'lockstep demo-data': a folder of small images to train on. */
#include "cli.h"
#include "draw.h"
#include "write_image.h"
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
static const cli_option options[] = {
    { OPTION_HEADING, .help = "Options:" },
    { OPTION_INTEGER, 0, "train", AT(n_train), "training images per class", "N", 1, 1e6,
      .fallback = "400" },
    { OPTION_INTEGER, 0, "val", AT(n_val), "validation images per class", "N", 1, 1e6,
      .fallback = "60" },
    { OPTION_INTEGER, 0, "seed", AT(seed), "random seed; the same seed draws the same files", "S",
      0, 9e18, .fallback = "0" },
    { .kind = OPTION_END },
};

static int fail_errno(const char *path)
{
    const char *reason = strerror(errno);
    return fail_with(&verb_demo_data, EXIT_RUNTIME, "%s: %s%s", path, reason, limit_hint(reason));
}

static int write_drawing(const char *path, const drawing *image)
{
    const bool good = write_image(path, image->width, image->height, image->pixels,
                                  image->jpeg ? image->quality : 0);
    return good ? EXIT_DONE : fail_errno(path);
}

/* Makes one folder; one that is there already is fine. */
static int make_folder(const char *path)
{
    return mkdir(path, 0777) == 0 || errno == EEXIST ? EXIT_DONE : fail_errno(path);
}

static int write_split(const char *dir, const char *name, int split, int64_t n_per_class,
                       uint64_t seed)
{
    enum { PATH_SIZE = 4096 };
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    int answer = make_folder(path);
    for (int label = 0; answer == EXIT_DONE && label < DRAW_CLASSES; label++) {
        snprintf(path, sizeof(path), "%s/%s/%s", dir, name, draw_class_names[label]);
        answer = make_folder(path);
        for (int64_t i = 0; answer == EXIT_DONE && i < n_per_class; i++) {
            drawing image;
            draw_image(seed, split, label, i, &image);
            snprintf(path, sizeof(path), "%s/%s/%s/%06lld.%s", dir, name, draw_class_names[label],
                     (long long)i, image.jpeg ? "jpg" : "png");
            answer = write_drawing(path, &image);
        }
    }
    return answer;
}

/* Nothing that exists is written over: the folder must be new or empty. */
static int claim_folder(const char *dir)
{
    if (mkdir(dir, 0777) == 0) return EXIT_DONE;
    if (errno != EEXIST) return fail_errno(dir);
    DIR *entries = opendir(dir);
    if (!entries) return fail_errno(dir);
    bool empty = true;
    for (const struct dirent *e; empty && (e = readdir(entries));)
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(entries);
    if (empty) return EXIT_DONE;
    return fail_with(&verb_demo_data, EXIT_RUNTIME,
                     "%s is not empty; give another folder, or remove it", dir);
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    demo_values values = { 0 };
    cli_parsed parsed;
    const parse_result result = options_parse(verb, argc, argv, &values, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? EXIT_DONE : EXIT_USAGE;
    enum { MAX_DIR = 4000 };
    if (parsed.n_arguments != 1 || strlen(parsed.arguments[0]) > MAX_DIR)
        return fail_with(verb, EXIT_USAGE, "expected one folder to write to, got %d argument%s",
                         parsed.n_arguments, plural(parsed.n_arguments));
    const char *dir = parsed.arguments[0];
    const uint64_t seed = (uint64_t)values.seed;
    int answer = claim_folder(dir);
    if (answer == EXIT_DONE) answer = write_split(dir, "train", 0, values.n_train, seed);
    if (answer == EXIT_DONE) answer = write_split(dir, "val", 1, values.n_val, seed);
    if (answer == EXIT_DONE) {
        print_text(stdout, "%s: %d classes, %lld images to train on, %lld to validate\n", dir,
                   DRAW_CLASSES, (long long)(DRAW_CLASSES * values.n_train),
                   (long long)(DRAW_CLASSES * values.n_val));
        print_command(stdout, "next", "train", "--data-dir", dir, "--model", "resnet20", NULL);
    }
    return answer;
}

const cli_verb verb_demo_data = {
    .name = "demo-data",
    .summary = "draw a folder of small images to train on",
    .arguments = "DIR",
    .options = options,
    .run = run,
};
