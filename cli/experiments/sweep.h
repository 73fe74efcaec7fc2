/* sweep.h: `lockstep sweep`: a hyperparameter search whose trials are runs of `lockstep train` in
 * child processes. */
#ifndef LS_CLI_EXPERIMENTS_SWEEP_H
#define LS_CLI_EXPERIMENTS_SWEEP_H

#include "experiment/child.h"
#include "runs/open_run.h"
#include "options/config_lines.h"
#include "run/advice.h"
#include <lockstep/search.h>

enum {
    SWEEP_MAX_PARAMETERS = 32,
    SWEEP_MAX_VALUES = 256,
    SWEEP_VALUE_SIZE = 32,
    SWEEP_MAX_COMBINATIONS = 65536
};

/* The options of the sweep itself: of the command line, or of the first section of the file. */
typedef struct sweep_values {
    int method;          /* ls_search_method */
    int metric;          /* ls__run_metric_kind */
    int on_failed_trial; /* 0 = stop, 1 = skip */
    bool force;
    int64_t trials, min_epochs, eta, startup, batch, seed, parallel;
    const char *out;
} sweep_values;

extern const ls__setting sweep_options[];

/* An option of `lockstep train` with one value, or with the values of the search. */
typedef struct sweep_parameter {
    const ls__setting *option;
    int line;
    const char *text;    /* the value as in the file */
    const char **values; /* of a list; NULL for a range */
    ls_search_parameter search;
} sweep_parameter;

/* The file of a sweep. */
typedef struct sweep_file {
    config_lines lines; /* the other texts are borrowed from it */
    int n_fixed, n_searched;
    sweep_parameter fixed[LS__MAX_SETTINGS], searched[SWEEP_MAX_PARAMETERS];
} sweep_file;

/* The result of a job. */
typedef struct sweep_result {
    int64_t trial, epochs;
    bool has_failed; /* no `value` and `best_epoch`: the loss was not finite, or see `error` */
    char *error;     /* why the trial could not train; owned. NULL: the loss, or no failure */
    double value;    /* the best value of the metric up to `epochs` */
    int64_t best_epoch;
} sweep_result;

typedef struct sweep {
    ls_context *ctx; /* trains nothing */
    sweep_values *values;
    sweep_file *file;
    ls_search *search;
    ls__children children;
    const char *out;
    char *program;
    int64_t n_images;   /* for training */
    int64_t epochs;     /* of a complete trial */
    json_t *definition; /* the options that results depend on */
    json_t *images;     /* the data of the trials' identities: "train" and "validation" */
    bool is_distinct;   /* no two trials have equal values; else as versions before drew them */
    bool ignores_alpha; /* as trials that a version without --alpha began */
    json_t *forced;     /* the list of differences of the images that --force allowed */
    int64_t n_results, capacity;
    sweep_result *results; /* by trial, then by epochs */
    double report_due;     /* when the next report may be written, in seconds of a clock */
    bool is_report_old;    /* a result came after it */
} sweep;

/* ---- sweep_file.c ---- */

/* Reads the file and sets the options of the sweep that the command line did not. On failure prints
 * file, line and reason. The caller must call sweep_file_close in any case. */
bool sweep_file_read(const char *path, cli_parsed *parsed, sweep_values *values, sweep_file *file);
void sweep_file_close(sweep_file *file);

/* Parses a range, "log(0.001, 1)" or in a grid "log(0.001, 1, 5)": sets kind, low, high and count
 * (0 = not given). On failure the kind is LS_SEARCH_LIST, unless the text begins as a range. */
bool sweep_parse_range(const char *text, ls_search_parameter *out);

/* The text of a parameter's value. The value of a list is an index. "" for NaN. */
const char *sweep_value_text(const sweep_parameter *p, double value, char out[SWEEP_VALUE_SIZE]);

/* The file's lines for config_fail, at the line of an option; at no line if the file does not have
 * the option. */
config_lines *sweep_file_at(sweep_file *file, const char *name);

/* The text of an option of [train]; NULL if the file does not have the option. */
const char *sweep_fixed_text(const sweep_file *file, const char *name);

/* ---- sweep_words.c ---- */

/* The options of a trial as words "--NAME=VALUE", which end with NULL and which the caller frees
 * with sweep_free_words. Without memory prints so and returns NULL. */
char **sweep_trial_words(const sweep *s, int64_t trial);
void sweep_free_words(char **words);
/* The same for a combination of the lists' values and the ranges' ends. Combination 0 has the first
 * value of each list and the lower end of each range. */
char **sweep_combination_words(const sweep *s, int64_t combination);
int64_t sweep_combination_count(const sweep *s); /* at most SWEEP_MAX_COMBINATIONS */
/* The same for the options that cannot change a result, which a resumed run accepts, too. */
char **sweep_resume_words(const sweep *s);
/* Parses the words into *r, whose texts are borrowed from them. False after printing why `lockstep
 * train` rejects them. */
bool sweep_parse_words(char **words, ls__run_settings *r);
/* The same, and checks that a trial of the sweep can have these options. On failure prints the
 * reason and the words. False also for words == NULL. */
bool sweep_check_words(const sweep *s, char **words, ls__run_settings *r);

/* ---- sweep_metric.c ---- */

/* The word of a metric as sweep.json has it, "val-top1" or "auc", to its number; -1 if unknown. */
int sweep_metric_find(const char *word);
/* Sets the metric of the sweep from [train] if the sweep has none. On failure prints the reason. */
bool sweep_settle_metric(const cli_parsed *parsed, sweep_values *values, sweep_file *file);
/* If the options of trials change the scale of the loss, sets LS__METRIC_CROSS_ENTROPY in place of
 * LS__METRIC_LOSS. The combinations must have been checked. */
bool sweep_settle_scale(sweep *s);

/* ---- sweep_train.c ---- */

/* Trains the jobs of a round that have no result, `parallel` at a time. Returns the exit status. */
int sweep_train(sweep *s, int64_t n, const ls_search_job *jobs);

/* ---- sweep_results.c ---- */

/* Whether the metric `a` is better than `b`. */
bool sweep_is_better(const sweep *s, double a, double b);

/* Sets is_distinct for a new sweep whose values can repeat, and for one that OUT/sweep.json, which
 * is read later, has begun so. */
void sweep_settle_repeats(sweep *s);
/* Makes the definition and reads OUT/sweep.json, if there is one. It must have the same definition
 * and images. Returns the exit status. */
int sweep_read_results(sweep *s);
/* The result of a job; NULL if there is none. */
const sweep_result *sweep_find(const sweep *s, int64_t trial, int64_t epochs);
/* The result of a trial with the most epochs; NULL if there is none. */
const sweep_result *sweep_last(const sweep *s, int64_t trial);
/* Copies the result, and takes over its `error`. False without memory. */
bool sweep_add(sweep *s, const sweep_result *result);
/* Writes OUT/sweep.json, and OUT/report.html if the last one is some seconds old: the report grows
 * with the number of trials. A report that cannot be written does not stop the sweep. Returns the
 * exit status. */
int sweep_save(sweep *s);
/* Writes OUT/report.html if a result came after it. */
void sweep_update_report(sweep *s);
void sweep_free_results(sweep *s);
/* Reads the metric of a job from the trial's folder. Returns the exit status. */
int sweep_read_metric(const sweep *s, const char *dir, sweep_result *result);

/* ---- sweep_table.c ---- */

/* Prints the table of trials and the command of the best one, and writes OUT/sweep.csv. Returns the
 * exit status. */
int sweep_print_results(const sweep *s);

#endif
