/* sweep.h: a sweep: its settings, its file, and the results of its trials; see lockstep/sweep.h. */
#ifndef LS_EXPERIMENT_SWEEP_H
#define LS_EXPERIMENT_SWEEP_H

#include "experiment/child.h"
#include "report/command_line.h"
#include "run/config_lines.h"
#include "run/run_state.h"
#include <lockstep/search.h>
#include <lockstep/sweep.h>

enum {
    LS__SWEEP_MAX_PARAMETERS = 32,
    LS__SWEEP_MAX_VALUES = 256,
    LS__SWEEP_MAX_COMBINATIONS = 65536
};

/* The settings of the sweep itself: those of the caller, or of the first section of the file. */
typedef struct ls__sweep_values {
    int method;          /* ls_search_method */
    int metric;          /* ls__run_metric_kind */
    int on_failed_trial; /* 0 = stop, 1 = skip */
    bool force;
    int64_t trials, min_epochs, eta, startup, batch, seed, parallel;
    const char *out;
} ls__sweep_values;

/* A setting of a run with one value, or with the values of the search. */
typedef struct ls__sweep_parameter {
    const ls_setting *setting; /* NULL if the parameter was read from sweep.json */
    int line;
    const char *text;    /* the value as in the file */
    const char **values; /* of a list; NULL for a range */
    ls_search_parameter search;
} ls__sweep_parameter;

/* The file of a sweep. */
typedef struct ls__sweep_file {
    ls__config_lines lines; /* the other texts are borrowed from it */
    int n_fixed, n_searched;
    ls__sweep_parameter fixed[LS_MAX_SETTINGS], searched[LS__SWEEP_MAX_PARAMETERS];
} ls__sweep_file;

/* The results of jobs, by trial, then by epochs. Their errors are owned. */
typedef struct ls__sweep_results {
    int64_t n, capacity;
    ls_sweep_trial *items;
} ls__sweep_results;

struct ls_sweep {
    ls_context *ctx; /* trains nothing */
    ls_sweep_config config;
    char *program, *program_name; /* copies of those of the config */
    char **texts;                 /* its settings */
    char *path, *dir;             /* copies of the arguments */
    ls__sweep_values values;
    ls_given given;
    ls__sweep_file file;
    ls_search *search;
    ls__children children;
    bool can_run;
    int64_t n_images;   /* for training */
    int64_t epochs;     /* of a complete trial */
    json_t *definition; /* the settings that results depend on */
    json_t *images;     /* the data of the trials' identities: "train" and "validation" */
    json_t *forced;     /* the list of differences of the images that `force` allowed */
    ls__sweep_results results;
    double report_due;  /* when the next report may be written, in seconds of a clock */
    bool is_report_old; /* a result came after it */
};

/* ---- sweep_file.c ---- */

/* Reads the file s->path into s->file, and into s->values the settings that s->given does not have.
 * The caller must call ls__sweep_file_close in any case. */
ls_status ls__sweep_file_read(ls_sweep *s);
void ls__sweep_file_close(ls__sweep_file *file);

/* Parses a range, "log(0.001, 1)" or in a grid "log(0.001, 1, 5)": sets kind, low, high and count
 * (0 = not given). On failure the kind is LS_SEARCH_LIST, unless the text begins as a range. */
bool ls__sweep_parse_range(const char *text, ls_search_parameter *out);

/* The text of a parameter's value. The value of a list is an index. "" for NaN. */
const char *ls__sweep_value_text(const ls__sweep_parameter *p, double value,
                                 char out[LS_SWEEP_VALUE_SIZE]);

/* ls__config_fail at the line of a setting; at no line if the file does not have it. */
bool ls__sweep_refuse(ls_sweep *s, const char *name, const char *format, ...) LS_PRINTF(3, 4);

/* The text of a setting of [train]; NULL if the file does not have it. */
const char *ls__sweep_fixed_text(const ls__sweep_file *file, const char *name);

/* ---- sweep_words.c ---- */

/* Settings of a trial; of a combination of the lists' values and the ranges' ends, where number 0
 * has the first value of each list and the lower end of each range; of all trials, those that
 * cannot change a result, which a resumed run accepts, too. */
typedef enum ls__sweep_settings_of {
    LS__SWEEP_TRIAL,
    LS__SWEEP_COMBINATION,
    LS__SWEEP_EXECUTION
} ls__sweep_settings_of;
int64_t ls__sweep_combination_count(const ls_sweep *s); /* at most LS__SWEEP_MAX_COMBINATIONS */
/* Appends the settings of that number, "NAME=VALUE" after `dashes`. */
void ls__sweep_put_settings(const ls_sweep *s, ls__sweep_settings_of which, int64_t number,
                            const char *dashes, ls__words *out);
/* Reads them into *r, whose texts are borrowed from *texts, which the caller frees in any case by
 * ls__settings_free_texts. Errors are those of 'lockstep train' with these options. */
ls_status ls__sweep_read_settings(ls_sweep *s, ls__sweep_settings_of which, int64_t number,
                                  char ***texts, ls__run_settings *r);
/* The same, and checks that a trial of the sweep can have these settings. The hint of an error has
 * the command. The texts of *r are not valid. */
ls_status ls__sweep_check_settings(ls_sweep *s, ls__sweep_settings_of which, int64_t number,
                                   ls__run_settings *r);

/* ---- sweep_metric.c ---- */

/* The word of a metric as sweep.json has it, "val-top1" or "auc", to its number; -1 if unknown. */
int ls__sweep_metric_find(const char *word);
/* "val_top1": the key of the metric in metrics.jsonl. */
const char *ls__sweep_metric_key(int metric);
/* Whether the value `a` is better than `b`. */
bool ls__sweep_is_better(int metric, double a, double b);
/* Sets the metric of the sweep from [train] if the sweep has none. */
ls_status ls__sweep_settle_metric(ls_sweep *s);
/* Whether the validation losses of two trials have the same scale. */
bool ls__sweep_have_same_scale(const ls__run_settings *a, const ls__run_settings *b);
/* For trials whose losses have several scales: sets LS__METRIC_CROSS_ENTROPY in place of
 * LS__METRIC_LOSS. */
ls_status ls__sweep_settle_scale(ls_sweep *s);

/* ---- sweep_train.c ---- */

/* Trains the jobs of a round that have no result, `parallel` at a time. Sets *end unless all have a
 * result then. */
ls_status ls__sweep_train(ls_sweep *s, int64_t n, const ls_search_job *jobs, ls_sweep_end *end);

/* ---- sweep_results.c ---- */

/* DIR/trial-007: the folder of a trial's run. Returns the length, as snprintf. */
int ls__sweep_trial_dir(const char *sweep_dir, int64_t trial, char *out, size_t size);
/* Reads the list "results" of sweep.json, the file `path`. */
ls_status ls__sweep_results_read(ls_context *ctx, const char *path, const json_t *rows,
                                 ls__sweep_results *out);
void ls__sweep_results_free(ls__sweep_results *results);

/* Makes the definition and reads OUT/sweep.json, if there is one. It must have the same definition
 * and images. Else writes the file. */
ls_status ls__sweep_open_results(ls_sweep *s);
/* The result of a job; NULL if there is none. */
const ls_sweep_trial *ls__sweep_find(const ls_sweep *s, int64_t trial, int64_t epochs);
/* Copies the result, and takes over its `error`. */
ls_status ls__sweep_add(ls_context *ctx, ls__sweep_results *results, const ls_sweep_trial *result);
/* Writes OUT/sweep.json. */
ls_status ls__sweep_results_write(ls_sweep *s);
/* Reads the metric of a job from the trial's folder. */
ls_status ls__sweep_read_metric(const ls_sweep *s, const char *dir, ls_sweep_trial *result);

/* ---- sweep_save.c ---- */

/* Writes OUT/sweep.json, and OUT/report.html if the last one is some seconds old: the report grows
 * with the number of trials. A report that cannot be written is a warning. */
ls_status ls__sweep_save(ls_sweep *s);
/* Writes OUT/report.html if a result came after it. */
void ls__sweep_update_report(ls_sweep *s);

/* Writes OUT/sweep.csv. */
ls_status ls__sweep_write_csv(const ls_sweep *s);

#endif
