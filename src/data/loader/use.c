/* use.c: the program's calls on a loader, which must not disturb a pass that another call runs. */
#include "base/error.h"
#include "base/floats.h"
#include "data/loader/loader.h"
#include <inttypes.h>

static ls_status check_unused(const ls_loader *loader, const char *call)
{
    LS__ENTER(loader->owned.ctx);
    if (!loader->user) return LS_OK;
    return ls__fail(loader->owned.ctx, LS_ERR_INVALID,
                    "%s: %s runs a pass over this loader and has not returned; open another loader "
                    "of the dataset",
                    call, loader->user);
}

ls_status ls__loader_take(ls_loader *loader, const char *call)
{
    LS_TRY(check_unused(loader, call));
    loader->user = call;
    if (!loader->started || loader->status != LS_OK || loader->step >= loader->n_steps)
        return LS_OK;
    loader->cut_by = call;
    loader->cut_epoch = loader->epoch;
    loader->cut_step = loader->step;
    return LS_OK;
}

void ls__loader_give_back(ls_loader *loader)
{
    loader->user = NULL;
}

static ls_status start(ls_loader *loader, const char *call, int64_t epoch, int64_t step)
{
    if (!loader) return LS_ERR_EARLIER;
    LS_TRY(check_unused(loader, call));
    loader->cut_by = NULL;
    return ls__loader_start_at(loader, call, epoch, step);
}

ls_status ls_loader_start_at(ls_loader *loader, int64_t epoch, int64_t step)
{
    return start(loader, "ls_loader_start_at", epoch, step);
}

ls_status ls_loader_start(ls_loader *loader, int64_t epoch)
{
    return start(loader, "ls_loader_start", epoch, 0);
}

bool ls_loader_next(ls_loader *loader, ls_batch *batch)
{
    LS__DEFAULT_FLOATS;
    if (batch) *batch = (ls_batch){ 0 };
    if (!loader || loader->status != LS_OK || check_unused(loader, "ls_loader_next") != LS_OK)
        return false;
    ls_context *ctx = loader->owned.ctx;
    if (!batch)
        loader->status = ls__fail_null(ctx, "ls_loader_next", "batch");
    else if (!loader->started)
        loader->status = ls__fail(ctx, LS_ERR_INVALID, "ls_loader_next: no epoch was started");
    else if (loader->cut_by)
        loader->status =
            ls__fail(ctx, LS_ERR_INVALID,
                     "ls_loader_next: %s used this loader at step %" PRId64 " of %" PRId64
                     " of epoch %" PRId64 " and ended that epoch; open another loader of the "
                     "dataset for it, or call ls_loader_start",
                     loader->cut_by, loader->cut_step, loader->n_steps, loader->cut_epoch);
    return loader->status == LS_OK && ls__loader_next(loader, batch);
}
