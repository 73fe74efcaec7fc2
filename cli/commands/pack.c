/* pack.c: 'lockstep pack': a folder of images in one file. */
#include "cli.h"
#include "terminal/events.h"
#include <lockstep/dataset_path.h>
#include <stdio.h>
#include <string.h>

typedef struct pack_values {
    int64_t resize, workers, max_pixels, depth;
    int on_bad_image, alpha; /* ls_alpha */
    bool raw, overwrite, check;
} pack_values;

#define AT(member) offsetof(pack_values, member)
static const ls_setting options[] = {
    { LS_SETTING_HEADING, .help = "Options:" },
    { LS_SETTING_SWITCH, 0, "raw", AT(raw),
      "store decoded images instead of the files: larger, and faster to load" },
    { LS_SETTING_INTEGER, 0, "resize", AT(resize),
      "store decoded images, resized so that the shorter side is N; this is a different dataset; 0 "
      "= no resizing",
      "N", 0, 65536, .fallback = "0" },
    LIKE_RUN("alpha", AT(alpha), "with --raw or --resize: "),
    LIKE_RUN("depth", AT(depth), "with --raw or --resize: "),
    { LS_SETTING_INTEGER, 'j', "workers", AT(workers), "threads that read and decode", "N", 0, 256,
      .note = "one per processor, at most 8" },
    { LS_SETTING_CHOICE, 0, "on-bad-image", AT(on_bad_image),
      "unreadable images: fail = stop, skip = list them and pack them as they are; training on "
      "such a pack requires --on-bad-image skip",
      "fail|skip", .fallback = "fail" },
    LIKE_RUN("max-pixels", AT(max_pixels), NULL),
    { LS_SETTING_SWITCH, 0, "overwrite", AT(overwrite), "replace FILE if it exists" },
    { LS_SETTING_SWITCH, 0, "check", AT(check),
      "check all of FILE for damage: lockstep pack --check FILE" },
    { .kind = LS_SETTING_END },
};

/* by_image: an image is the cause of a failure. */
static int finish(ls_context *ctx, progress *p, ls_status status, bool by_image)
{
    progress_clear(p);
    if (status == LS_OK) return LS_EXIT_DONE;
    print_error(ctx, LS_EXIT_RUNTIME);
    if (caught_signal) return LS_EXIT_SIGNAL + caught_signal;
    return by_image || status == LS_ERR_DATA ? LS_EXIT_DATA : LS_EXIT_RUNTIME;
}

static void print_summary(const char *path, const ls_pack_summary *s)
{
    print_text(stdout, "%s: %lld image%s, %.1f MB", path, (long long)s->n_samples,
               plural(s->n_samples), (double)s->bytes / 1e6);
    if (s->resize)
        print_text(stdout, " of pixels, shorter sides of %lld", (long long)s->resize);
    else
        print_text(stdout, " of %s", s->pixels ? "pixels" : "files");
    if (s->n_bad)
        print_text(stdout, "; %lld unreadable image%s", (long long)s->n_bad, plural(s->n_bad));
    print_text(stdout, "\n");
}

static int check(ls_context *ctx, const char *path)
{
    progress bar;
    progress_open(&bar, 0, 0);
    progress_begin(&bar, "check", WORK_OTHER, 0, 0);
    const ls_pack_config config = { .progress = report_count, .user = &bar };
    ls_pack_summary summary;
    const int exit_status = finish(ctx, &bar, ls_pack_check(ctx, path, &config, &summary), false);
    if (exit_status != LS_EXIT_DONE) return exit_status;
    print_summary(path, &summary);
    print_text(stdout, "no damage found\n");
    return LS_EXIT_DONE;
}

static int write_pack(ls_context *ctx, const pack_values *v, const char *dir, const char *path)
{
    ls_pack_split splits[LS_N_SPLITS];
    const int n = ls_pack_open_splits(ctx, dir, splits);
    if (n == 0) return print_error(ctx, LS_EXIT_DATA);
    progress bar;
    progress_open(&bar, 0, 0);
    progress_begin(&bar, "pack", WORK_OTHER, 0, 0);
    const ls_pack_config config = { .pixels = v->raw,
                                    .resize = v->resize,
                                    .on_bad_image = (ls_bad_image)v->on_bad_image,
                                    .workers = (int)v->workers,
                                    .max_pixels = v->max_pixels,
                                    .alpha = (ls_alpha)v->alpha,
                                    .depth = (int)v->depth,
                                    .overwrite = v->overwrite,
                                    .progress = report_count,
                                    .user = &bar };
    ls_pack_summary summary;
    const ls_status status = ls_pack_write(ctx, path, n, splits, &config, &summary);
    const bool by_image = v->on_bad_image == LS_BAD_IMAGE_FAIL && summary.n_bad > 0;
    const int exit_status = finish(ctx, &bar, status, by_image);
    if (exit_status == LS_EXIT_DATA && by_image)
        print_message("--on-bad-image skip packs such images as they are; 'lockstep train "
                      "--on-bad-image skip' replaces them");
    if (exit_status != LS_EXIT_DONE && !v->overwrite && is_file(path))
        print_message("--overwrite replaces it");
    if (exit_status != LS_EXIT_DONE) return exit_status;
    print_summary(path, &summary);
    for (int i = 0; i < n; i++) {
        const int64_t count = ls_dataset_sample_count(splits[i].dataset);
        const int classes = ls_dataset_class_count(splits[i].dataset);
        print_text(stdout, "  %-10s %lld image%s, %d class%s\n",
                   *splits[i].name ? splits[i].name : "in all", (long long)count, plural(count),
                   classes, classes == 1 ? "" : "es");
    }
    if (n > 1) print_command(stdout, "next", "train", "--data-dir", path, NULL);
    return LS_EXIT_DONE;
}

static int run(const cli_parsed *parsed, void *values)
{
    pack_values *v = values;
    const int n_wanted = v->check ? 1 : 2;
    if (parsed->n_arguments != n_wanted)
        return fail_with(LS_EXIT_USAGE, "expected %s, got %d argument%s",
                         v->check ? "one pack to check" : "a folder and the file to write",
                         parsed->n_arguments, plural(parsed->n_arguments));
    const bool of_files = !v->raw && v->resize == 0;
    if (of_files && (v->alpha != LS_ALPHA_WHITE || v->depth > 0))
        return fail_with(LS_EXIT_USAGE,
                         "--%s has no effect here: it requires --raw or --resize; of a pack of "
                         "files it is an option of 'lockstep train'",
                         v->depth > 0 ? "depth" : "alpha");
    if (!ls_given_has(&parsed->set, "workers")) v->workers = ls_default_worker_count();
    ls_context *ctx = command_context();
    if (ls_context_status(ctx) != LS_OK) return print_error(ctx, LS_EXIT_RUNTIME);
    catch_signals();
    return v->check ? check(ctx, parsed->arguments[0])
                    : write_pack(ctx, v, parsed->arguments[0], parsed->arguments[1]);
}

const cli_command command_pack = {
    .name = "pack",
    .summary = "pack a folder of images into one file",
    .arguments = "DIR FILE",
    .details =
        "FILE can be given as --data-dir in place of DIR. Without --resize, training on FILE and "
        "on DIR gives bit-identical results, and a run that began on one can be resumed on the "
        "other. FILE contains the training, validation and test folders of DIR as train, val "
        "and test; without any of them the class folders in DIR.",
    .values_bytes = sizeof(pack_values),
    .options = options,
    .run = run,
};
