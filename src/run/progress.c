/* progress.c: see progress.h. */
#include "run/progress.h"

#include "base/c_locale.h"
#include "base/error.h"
#include <inttypes.h>
#include <stdio.h>

void ls__progress_write(const ls__progress *p, char out[LS__PROGRESS_TEXT])
{
    LS__IN_C_LOCALE;
    snprintf(out, LS__PROGRESS_TEXT, "%" PRId64 " %a %a %a %" PRId64 " %a %a", p->best_epoch,
             p->sums.loss, p->sums.top1, p->sums.top5, p->sums.n_images, p->seconds,
             p->wait_seconds);
}

bool ls__progress_read(const char *text, ls__progress *out)
{
    LS__IN_C_LOCALE;
    ls__progress p = { 0 };
    const bool good =
        text &&
        sscanf(text, "%" SCNd64 " %la %la %la %" SCNd64 " %la %la", &p.best_epoch, &p.sums.loss,
               &p.sums.top1, &p.sums.top5, &p.sums.n_images, &p.seconds, &p.wait_seconds) == 7 &&
        p.best_epoch >= 0 && p.sums.n_images >= 0;
    if (good) *out = p;
    return good;
}

ls_status ls__progress_load(const char *path, ls_training_state *state, ls__progress *out)
{
    LS_TRY(ls_checkpoint_load(state, path));
    ls_context *ctx = ls_net_context(state->net);
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    const bool good = ls__progress_read(ls_tensor_file_metadata(file, "progress"), out);
    ls_tensor_file_close(&file);
    if (good) return LS_OK;
    return ls__fail(ctx, LS_ERR_FORMAT, "%s: no usable 'progress' in its metadata", path);
}
