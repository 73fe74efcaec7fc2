/* pack.c: 'lockstep pack': a folder of images in one file. */
#include "folders.h"
#include "progress.h"
#include <stdio.h>
#include <string.h>

typedef struct pack_values {
    int64_t resize, workers, max_pixels;
    int on_bad_image;
    bool raw, overwrite, check;
} pack_values;

#define AT(member) offsetof(pack_values, member)
static const cli_option options[] = {
    { OPTION_HEADING, .help = "Options:" },
    { OPTION_SWITCH, 0, "raw", AT(raw),
      "store decoded pixels instead of files: larger, and faster to load", .value = NULL },
    { OPTION_INTEGER, 0, "resize", AT(resize),
      "store pixels resized to a shorter side of N, which changes the dataset; 0 = no resizing",
      "N", 0, 65536, .fallback = "0" },
    { OPTION_INTEGER, 'j', "workers", AT(workers), "threads that read and decode", "N", 0, 256,
      .note = "one per processor, at most 8" },
    { OPTION_CHOICE, 0, "on-bad-image", AT(on_bad_image),
      "stop at an unreadable image, or list and pack it; training on the pack then needs "
      "--on-bad-image skip too",
      "fail|skip", .fallback = "fail" },
    { OPTION_INTEGER, 0, "max-pixels", AT(max_pixels), MAX_PIXELS_HELP, "N", 1,
      LS_LARGEST_MAX_PIXELS, .note = MAX_PIXELS_NOTE },
    { OPTION_SWITCH, 0, "overwrite", AT(overwrite), "replace FILE if it exists", .value = NULL },
    { OPTION_SWITCH, 0, "check", AT(check), "check a whole pack FILE for damage, and write nothing",
      .value = NULL },
    { .kind = OPTION_END },
};

static bool print_progress(void *user, int64_t n_done, int64_t n)
{
    progress *p = user;
    double now;
    if (progress_is_due(p, &now)) {
        char text[128];
        snprintf(text, sizeof(text), "%s  %lld/%lld  %.0f images/s", p->title, (long long)n_done,
                 (long long)n, (double)n_done / (now - p->begun));
        progress_show(p, text);
    }
    return caught_signal == 0;
}

/* by_image: an image is the cause of a failure. */
static int answer_of(const cli_verb *verb, ls_context *ctx, progress *p, ls_status status,
                     bool by_image)
{
    progress_end(p);
    if (status == LS_OK) return EXIT_DONE;
    print_error(verb, ctx, EXIT_RUNTIME);
    if (caught_signal) return EXIT_SIGNAL + caught_signal;
    return by_image || status == LS_ERR_DATA ? EXIT_DATA : EXIT_RUNTIME;
}

static void print_summary(const char *path, const ls_pack_summary *s)
{
    print_text(stdout, "%s: %lld image%s, %.1f MB", path, (long long)s->n_samples,
               plural(s->n_samples), (double)s->bytes / 1e6);
    if (s->resize)
        print_text(stdout, " of pixels, shorter sides of %lld", (long long)s->resize);
    else
        print_text(stdout, " of %s", s->pixels ? "pixels" : "files");
    if (s->n_bad) print_text(stdout, "; %lld of the images can't be used", (long long)s->n_bad);
    print_text(stdout, "\n");
}

static int check(const cli_verb *verb, ls_context *ctx, const char *path)
{
    progress bar;
    progress_open(&bar, 0, 0);
    progress_begin(&bar, "check", WORK_OTHER, 0, 0);
    const ls_pack_config config = { .progress = print_progress, .user = &bar };
    ls_pack_summary summary;
    const int answer =
        answer_of(verb, ctx, &bar, ls_pack_check(ctx, path, &config, &summary), false);
    if (answer != EXIT_DONE) return answer;
    print_summary(path, &summary);
    print_text(stdout, "no damage found\n");
    return EXIT_DONE;
}

/* The folders of DIR that are read for training and validation, or DIR itself. */
static int open_parts(ls_context *ctx, const char *dir, ls_pack_part parts[N_SPLITS])
{
    enum { PATH_SIZE = 4096 };
    const char *names[N_SPLITS];
    const int n = folders_find_splits(dir, names);
    for (int i = 0; i < n; i++) {
        char path[PATH_SIZE];
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        parts[i] = (ls_pack_part){ names[i], folders_open(ctx, path) };
    }
    if (n == 0) parts[0] = (ls_pack_part){ "", folders_open(ctx, dir) };
    return n ? n : 1;
}

static int write_pack(const cli_verb *verb, ls_context *ctx, const pack_values *v, const char *dir,
                      const char *path)
{
    ls_pack_part parts[N_SPLITS];
    if (!folders_check(verb, dir)) return EXIT_DATA;
    const int n = open_parts(ctx, dir, parts);
    if (!parts[n - 1].dataset) return folders_fail(verb, ctx, dir);
    if (!is_folder(dir))
        return fail_with(verb, EXIT_DATA, "%s: is already a pack; expected a folder", dir);
    progress bar;
    progress_open(&bar, 0, 0);
    progress_begin(&bar, "pack", WORK_OTHER, 0, 0);
    const ls_pack_config config = { .pixels = v->raw,
                                    .resize = v->resize,
                                    .on_bad_image = (ls_bad_image)v->on_bad_image,
                                    .workers = (int)v->workers,
                                    .max_pixels = v->max_pixels,
                                    .overwrite = v->overwrite,
                                    .progress = print_progress,
                                    .user = &bar };
    ls_pack_summary summary;
    const ls_status status = ls_pack_write(ctx, path, n, parts, &config, &summary);
    const bool by_image = v->on_bad_image == LS_BAD_IMAGE_FAIL && summary.n_bad > 0;
    const int answer = answer_of(verb, ctx, &bar, status, by_image);
    if (answer == EXIT_DATA && by_image)
        print_message(verb, "--on-bad-image skip packs such images too; 'lockstep train "
                            "--on-bad-image skip' leaves them out");
    if (answer != EXIT_DONE && !v->overwrite && is_file(path))
        print_message(verb, "--overwrite replaces it");
    if (answer != EXIT_DONE) return answer;
    print_summary(path, &summary);
    for (int i = 0; i < n; i++) {
        const int64_t count = ls_dataset_count(parts[i].dataset);
        const int classes = ls_dataset_class_count(parts[i].dataset);
        print_text(stdout, "  %-10s %lld image%s, %d class%s\n",
                   *parts[i].name ? parts[i].name : "in all", (long long)count, plural(count),
                   classes, classes == 1 ? "" : "es");
    }
    if (n > 1) print_command(stdout, "next", "train", "--data-dir", path, NULL);
    return EXIT_DONE;
}

static int run(const cli_verb *verb, int argc, char **argv)
{
    pack_values v = { 0 };
    cli_parsed parsed;
    const parse_result result = options_parse(verb, argc, argv, &v, &parsed);
    if (result != PARSE_OK) return result == PARSE_HELP ? EXIT_DONE : EXIT_USAGE;
    const int n_wanted = v.check ? 1 : 2;
    if (parsed.n_arguments != n_wanted)
        return fail_with(verb, EXIT_USAGE, "expected %s, got %d argument%s",
                         v.check ? "one pack to check" : "a folder and the file to write",
                         parsed.n_arguments, plural(parsed.n_arguments));
    if (!options_given(verb, &parsed, "workers")) v.workers = processors() < 8 ? processors() : 8;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1, .log = print_log });
    int answer = EXIT_RUNTIME;
    if (ls_context_status(ctx) != LS_OK) {
        print_error(verb, ctx, answer);
    } else {
        catch_signals();
        answer = v.check ? check(verb, ctx, parsed.arguments[0])
                         : write_pack(verb, ctx, &v, parsed.arguments[0], parsed.arguments[1]);
    }
    ls_context_close(&ctx);
    return answer;
}

const cli_verb verb_pack = {
    .name = "pack",
    .summary = "pack a folder of images into one file",
    .arguments = "DIR FILE",
    .details =
        "FILE can be given as --data-dir in place of DIR. Training on it gives the same bits, also "
        "with --raw, and a run can be resumed with either. It holds those of DIR/train, DIR/val, "
        "DIR/validation, DIR/valid and DIR/test that exist, or else DIR's classes.\n",
    .options = options,
    .run = run,
};
