/* run_lr_find.c: the learning rate range test of a run; see lockstep/run.h. */
#include <lockstep/run.h>

#include "base/error.h"
#include "log/run_folder.h"
#include "run/run_state.h"
#include <unistd.h>

/* The folder that was named, or a new one, so that tests that are started together have folders of
 * their own. */
static ls_status make_folder(ls_run *t)
{
    static const char name[] = "lr-find";
    int number;
    if (*t->dir) return ls__run_folder_create(t->ctx, t->dir);
    LS_TRY(ls__run_folder_create_new(t->ctx, name, &number));
    ls__run_folder_name(name, number, t->dir, sizeof(t->dir));
    return LS_OK;
}

ls_lr_curve *ls_run_find_lr(ls_run *run, const ls_lr_find_config *config)
{
    if (!run || ls_context_status(run->ctx) != LS_OK) return NULL;
    if (run->extent != LS_RUN_TRAINING) {
        ls__fail(run->ctx, LS_ERR_INVALID,
                 "ls_run_find_lr: the run's extent is not LS_RUN_TRAINING");
        return NULL;
    }
    const bool is_named = *run->dir;
    if (make_folder(run) != LS_OK) return NULL;
    ls__run_advise_images(run);
    ls_lr_curve *curve = ls_lr_find(run->net, run->optimizer, run->train, config);
    if (!curve && !is_named) (void)rmdir(run->dir);
    return curve;
}
