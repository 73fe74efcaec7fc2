/* trainer_save.c: writes a run's checkpoints; see lockstep/trainer.h. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/error.h"
#include "comm/agree.h"
#include "optim/optimizer.h"
#include "checkpoint/checkpoint.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

ls_training_state ls__trainer_training_state(const ls_trainer *t)
{
    return (ls_training_state){ .net = t->net,
                                .optimizer = t->optimizer,
                                .schedule = t->schedule,
                                .loader = t->loader,
                                .validation = t->config.validation,
                                .epoch = t->epoch,
                                .step = t->step,
                                .best = t->best,
                                .metric = *t->metric.identity ? t->metric.identity : NULL,
                                .force = t->config.force };
}

/* All ranks call it. */
static ls_status save(ls_trainer *t, const char *path, bool whole_state)
{
    char progress[LS__PROGRESS_TEXT];
    ls__info_metadata pairs;
    const char *metadata[LS__INFO_METADATA + 3] = { 0 };
    int n = 0;
    if (t->config.model) {
        ls__model_info_write(&t->model, &pairs);
        n = pairs.n;
        memcpy(metadata, pairs.pairs, (size_t)n * sizeof(*metadata));
    }
    ls_training_state state = ls__trainer_training_state(t);
    if (whole_state) {
        ls__progress_write(&t->progress, progress);
        metadata[n] = "progress";
        metadata[n + 1] = progress;
    } else {
        state.optimizer = NULL;
        state.schedule = NULL;
    }
    state.metadata = metadata;
    return ls_checkpoint_save(&state, path);
}

/* The lines of a checkpoint's steps are on the disk before it is written. */
static ls_status flush_log(ls_trainer *t)
{
    (void)ls_run_log_flush(t->log);
    return ls__ranks_agree(t->owned.ctx, NULL);
}

ls_status ls__trainer_save_best(ls_trainer *t)
{
    if (!t->dir) return LS_OK;
    LS_TRY(flush_log(t));
    LS_TRY(ls__optimizer_swap_ema(t->optimizer));
    const ls_status status = save(t, t->best_path, false);
    LS_TRY(ls__optimizer_swap_ema(t->optimizer));
    LS_TRY(status);
    t->best_is_lost = false;
    return LS_OK;
}

ls_status ls__trainer_keep(ls_trainer *t, bool is_new)
{
    if (!t->config.keep_checkpoints) return LS_OK;
    char *kept = ls__format(t->owned.ctx, "%s/checkpoint-%012" PRId64 ".safetensors", t->dir,
                            ls__trainer_steps(t));
    if (!kept) return ls__fail_memory(t->owned.ctx, t->dir, strlen(t->dir));
    /* a hard link takes no space; without links the checkpoint is written twice */
    bool is_copied = ls__is_first_rank(t->owned.ctx) && (is_new || access(kept, F_OK) != 0) &&
                     linkat(AT_FDCWD, t->last_path, AT_FDCWD, kept, AT_SYMLINK_FOLLOW) != 0;
    ls_status status = ls__ranks_agree(t->owned.ctx, &is_copied);
    if (status == LS_OK && is_copied) status = save(t, kept, true);
    ls__free(t->owned.ctx, kept);
    return status;
}

static ls_status save_last(ls_trainer *t)
{
    LS_TRY(flush_log(t));
    LS_TRY(save(t, t->last_path, true));
    (void)ls__trainer_keep(t, true);
    LS_TRY(ls__ranks_agree(t->owned.ctx, NULL));
    t->is_saved = true;
    return ls__notify_in_ranks(
        &t->listener, &(ls_event){ .kind = LS_EVENT_SAVED, .epoch = t->epoch, .step = t->step });
}

ls_status ls_trainer_save(ls_trainer *t)
{
    if (!t) return LS_ERR_EARLIER;
    ls_context *ctx = t->owned.ctx;
    LS__ENTER(ctx);
    if (!t->dir) return ls__fail(ctx, LS_ERR_INVALID, "ls_trainer_save: the run has no folder");
    ls__use(t); /* the event's callback may close it */
    const ls_status status = save_last(t);
    ls__release(t);
    return status;
}
