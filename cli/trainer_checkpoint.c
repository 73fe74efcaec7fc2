/* trainer_checkpoint.c: what a run saves and goes on from. The sums of a half-done epoch and the
 * epoch of the best metric travel in the metadata, so that a resumed run reports and ends as an
 * uninterrupted one would have. */
#include "trainer.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SUMS_TEXT = 256, NAME_SIZE = 64 };
static const char sums_format[] = "%lld %la %la %la %lld %la %la";

static void sums_write(const trainer *t, char out[SUMS_TEXT])
{
    snprintf(out, SUMS_TEXT, "%lld %a %a %a %lld %a %a", (long long)t->best_epoch, t->sums.loss,
             t->sums.top1, t->sums.top5, (long long)t->sums.n_images, t->seconds, t->wait_seconds);
}

bool trainer_read_sums(const char *text, trainer *t)
{
    long long n, best_epoch;
    const bool good = text &&
                      sscanf(text, sums_format, &best_epoch, &t->sums.loss, &t->sums.top1,
                             &t->sums.top5, &n, &t->seconds, &t->wait_seconds) == 7 &&
                      best_epoch >= 0 && n >= 0;
    if (good) t->sums.n_images = n;
    if (good) t->best_epoch = best_epoch;
    return good;
}

static ls_status save(trainer *t, const char *name, bool whole_state)
{
    char path[RUN_PATH_SIZE], sums_text[SUMS_TEXT];
    snprintf(path, sizeof(path), "%s/%s", t->dir, name);
    sums_write(t, sums_text);
    const char *metadata[CARD_METADATA + 3] = { 0 };
    card_metadata pairs;
    const int n = card_write(&t->card, &pairs);
    LS_TRY(ls_run_log_flush(t->record)); /* no checkpoint without the lines of its steps */
    memcpy(metadata, pairs.pairs, (size_t)n * sizeof(*metadata));
    if (whole_state) {
        metadata[n] = "progress";
        metadata[n + 1] = sums_text;
    }
    return ls_checkpoint_save(path,
                              &(ls_training_state){ .net = t->net,
                                                    .optimizer = whole_state ? t->optimizer : NULL,
                                                    .schedule = whole_state ? t->schedule : NULL,
                                                    .loader = t->train,
                                                    .validation = t->val,
                                                    .epoch = t->epoch,
                                                    .step = t->step,
                                                    .best = t->best,
                                                    .metadata = metadata });
}

ls_status trainer_save_best(trainer *t)
{
    LS_TRY(save(t, "best.safetensors", false));
    t->best_is_lost = false;
    return LS_OK;
}

/* Keeps what last.safetensors holds under the name of its step too. */
static ls_status keep(trainer *t, bool is_new)
{
    if (!t->recipe->keep_checkpoints) return LS_OK;
    char name[NAME_SIZE], last[RUN_PATH_SIZE], kept[RUN_PATH_SIZE];
    snprintf(name, sizeof(name), "checkpoint-%012lld.safetensors",
             (long long)trainer_steps_done(t));
    snprintf(last, sizeof(last), "%s/last.safetensors", t->dir);
    snprintf(kept, sizeof(kept), "%s/%s", t->dir, name);
    if (!is_new && file_exists(kept)) return LS_OK;
    /* a file's second name costs nothing; where there can't be one it is saved twice */
    const bool linked = linkat(AT_FDCWD, last, AT_FDCWD, kept, AT_SYMLINK_FOLLOW) == 0;
    return linked ? LS_OK : save(t, name, true);
}

ls_status trainer_save(trainer *t)
{
    LS_TRY(save(t, "last.safetensors", true));
    return keep(t, true);
}

ls_status trainer_keep(trainer *t)
{
    return keep(t, false);
}

bool trainer_resume(trainer *t, const char *path)
{
    ls_training_state state = { .net = t->net,
                                .optimizer = t->optimizer,
                                .schedule = t->schedule,
                                .loader = t->train,
                                .validation = t->val,
                                .force = t->recipe->force };
    if (ls_checkpoint_load(path, &state) != LS_OK) {
        print_error(t->verb, t->ctx, EXIT_RUNTIME);
        return false;
    }
    t->epoch = state.epoch;
    t->step = state.step;
    t->best = state.best;
    ls_tensor_file *file = ls_tensor_file_open(t->ctx, path);
    const bool good = trainer_read_sums(ls_tensor_file_metadata(file, "progress"), t);
    ls_tensor_file_close(&file);
    if (!good)
        print_text(stderr, "lockstep %s: %s: no usable 'progress' in its metadata\n", t->verb->name,
                   path);
    return good;
}
