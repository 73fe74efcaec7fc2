/* replay_side.h: a run's folder as one side of a comparison, which can be opened as the run was at
 * a step. */
#ifndef LS_RUN_REPLAY_SIDE_H
#define LS_RUN_REPLAY_SIDE_H

#include "run/compare.h"
#include "run/run_files.h"

typedef struct ls__replay_side {
    const char *dir;
    char run_log[LS__RUN_PATH_SIZE];
    json_t *config, *manifest;
    bool is_of_trainer;    /* a program's trainer wrote it: config is NULL, and no step can be
                              replayed */
    const ls_model *model; /* a program's own, or NULL */

    /* What ls__replay_side_open opens, as the run was at the step in question. */
    ls__run_settings settings;
    ls_run run;
    char restored_from[LS__RUN_PATH_SIZE]; /* the checkpoint, "" = the run's start */
} ls__replay_side;

/* Reads config and manifest of the run in `dir`; of a trainer's, the identity in its checkpoint.
 * The caller must call ls__replay_side_close in any case. */
ls_status ls__replay_side_read(ls_context *ctx, ls__replay_side *side, const char *dir);

/* Opens the run with the execution settings that it had at the step, restored from the nearest
 * checkpoint at or before the step; data_dir: place of the dataset; NULL = as stored. Fills `out`
 * for ls__compare_runs. Errors are stored in ctx, too. */
ls_status ls__replay_side_open(ls_context *ctx, ls__replay_side *side, int64_t step,
                               const char *data_dir, ls__compare_side *out);

/* Closes what ls__replay_side_open has opened. */
void ls__replay_side_leave(ls__replay_side *side);
void ls__replay_side_close(ls__replay_side *side);

/* ---- The result of replaying two runs ---- */

/* {"found": "op", "step", "epoch", "step_in_epoch", "reproduced": {"a", "b"}, "from": [file, file],
 * and, depending on "found", "learning_rates", "batch", "ops", "element"}. "step" is counted from 0
 * over the run, as in the run log; "epoch" and "step_in_epoch" from 1, as `train` shows them. NULL
 * without memory. */
json_t *ls__replay_report(const ls__replay_side runs[2], const ls__compare_side sides[2],
                          const ls__finding *finding);

#endif
