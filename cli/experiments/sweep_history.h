/* sweep_history.h: what the folder of a sweep contains: its parameters, and the trials with their
 * values and results. */
#ifndef LS_CLI_EXPERIMENTS_SWEEP_HISTORY_H
#define LS_CLI_EXPERIMENTS_SWEEP_HISTORY_H

#include "experiments/sweep.h"

typedef struct sweep_axis {
    ls_search_parameter search; /* its name is the option; of a list: count values */
    const char **names;         /* of a list */
} sweep_axis;

typedef struct sweep_trial {
    int64_t trial, epochs, best_epoch;
    double metric;                       /* NaN: the loss was not finite, or the trial failed */
    const char *error;                   /* why it failed; NULL = the loss */
    double values[SWEEP_MAX_PARAMETERS]; /* of a list: the index; NaN = unknown */
} sweep_trial;

typedef struct sweep_history {
    ls_context *ctx;
    const char *dir;
    json_t *file;             /* DIR/sweep.json; other texts are borrowed from it */
    const json_t *definition; /* in it */
    int metric;               /* ls__run_metric_kind */
    int64_t epochs;           /* of a complete trial */
    int n_axes;
    sweep_axis axes[SWEEP_MAX_PARAMETERS];
    int64_t n_trials;
    sweep_trial *trials;        /* by number */
    const sweep_trial **ranked; /* from the best to the worst; failed ones last */
} sweep_history;

/* "val_top1": the key of the metric in metrics.jsonl. */
const char *sweep_metric_key(int metric);
/* Whether best.safetensors in the folder of a trial has the best weights by the metric. Versions
 * whose trials had no --metric chose them by top-1, or by the loss of targets. */
bool sweep_has_weights(const char *trial_dir, int metric);
/* Whether the first of n trials that has begun is of a version without --alpha, which ignored it.
 */
bool sweep_ignores_alpha(const char *sweep_dir, int64_t n);
/* DIR/trial-007: the folder of a trial's run. */
void sweep_trial_dir(const char *sweep_dir, int64_t trial, char dir[LS__RUN_PATH_SIZE]);

/* Reads DIR/sweep.json, and the number of epochs from a trial's config.json. On failure prints the
 * reason. The caller must call sweep_history_close in any case. */
bool sweep_history_read(ls_context *ctx, const char *dir, sweep_history *out);
void sweep_history_close(sweep_history *h);

/* The text of axis i's value, or a dash. */
const char *sweep_history_text(const sweep_history *h, const sweep_trial *trial, int i,
                               char out[SWEEP_VALUE_SIZE]);

bool sweep_history_has_values(const sweep_history *h, const sweep_trial *trial);

/* The importance of all axes by the results after *epochs epochs, of the *n trials that have known
 * values: of the epochs that most trials have reached. False after printing an error. */
bool sweep_history_importance(const sweep_history *h, int64_t *epochs, int64_t *n,
                              ls_search_effect effects[SWEEP_MAX_PARAMETERS]);

#endif
