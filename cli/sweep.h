/* sweep.h: `lockstep sweep`: a hyperparameter search whose trials are runs of `lockstep train` in
 * child processes. */
#ifndef LS_CLI_SWEEP_H
#define LS_CLI_SWEEP_H

#include "config_lines.h"
#include "run.h"
#include <lockstep/search.h>

enum {
    SWEEP_MAX_PARAMETERS = 32,
    SWEEP_MAX_VALUES = 256,
    SWEEP_VALUE_SIZE = 32,
    SWEEP_MAX_COMBINATIONS = 65536
};

/* The options of the sweep itself: of the command line, or of the first section of the file. */
typedef struct sweep_values {
    int method; /* ls_search_method */
    int by_loss;
    int on_failed_trial; /* 0 = stop, 1 = skip */
    bool force;
    int64_t trials, min_epochs, eta, startup, batch, seed, parallel;
    const char *out;
} sweep_values;

extern const cli_option sweep_options[];

/* An option of `lockstep train` with one value, or with the values of the search. */
typedef struct sweep_parameter {
    const cli_option *option;
    int line;
    const char *text;    /* the value as in the file */
    const char **values; /* of a list; NULL for a range */
    ls_search_parameter search;
} sweep_parameter;

/* The file of a sweep. */
typedef struct sweep_file {
    config_lines lines; /* the other texts are borrowed from it */
    int n_fixed, n_searched;
    sweep_parameter fixed[MAX_OPTIONS], searched[SWEEP_MAX_PARAMETERS];
} sweep_file;

/* The result of a job. */
typedef struct sweep_result {
    int64_t trial, epochs;
    bool has_diverged; /* it has no `value` and `best_epoch`: the loss was not finite, or `error` */
    char *error;       /* why it could not train; owned; else NULL */
    double value;      /* the best one up to `epochs` */
    int64_t best_epoch;
} sweep_result;

typedef struct sweep {
    ls_context *ctx; /* trains nothing */
    const sweep_values *values;
    sweep_file *file;
    ls_search *search;
    const char *out;
    char *program;
    int64_t n_images;   /* for training */
    int64_t epochs;     /* of a complete trial */
    json_t *definition; /* the options that results depend on */
    json_t *images;     /* the data of the trials' identities: "train" and "validation" */
    json_t *forced;     /* the list of differences of the images that --force allowed */
    int64_t n_results, capacity;
    sweep_result *results; /* by trial, then by epochs */
} sweep;

/* ---- sweep_file.c ---- */

/* Reads the file and sets the options of the sweep that the command line did not. On failure prints
 * file, line and reason. The caller must call sweep_file_close in any case. */
bool sweep_file_read(const char *path, cli_parsed *parsed, sweep_values *values, sweep_file *file);
void sweep_file_close(sweep_file *file);

/* The text of a value: of a list the one with this index. */
const char *sweep_value_text(const sweep_parameter *p, double value, char out[SWEEP_VALUE_SIZE]);

/* Of the file, for config_fail, at the line of an option; of no line if the file does not have it.
 */
config_lines *sweep_file_at(sweep_file *file, const char *name);

/* The value in [train] of an option; NULL if it has none. */
const char *sweep_fixed_text(const sweep_file *file, const char *name);

/* ---- sweep_words.c ---- */

/* The options of a trial as words "--NAME=VALUE", which end with NULL and which the caller frees
 * with sweep_free_words; NULL without memory. */
char **sweep_trial_words(const sweep *s, int64_t trial);
void sweep_free_words(char **words);
/* The same of a combination of the lists' values and the ranges' ends. Number 0 has the first value
 * of each list and the lower end of each range. */
char **sweep_combination_words(const sweep *s, int64_t combination);
int64_t sweep_combination_count(const sweep *s); /* at most SWEEP_MAX_COMBINATIONS */
/* Those that cannot change a result, which a resumed run may have, too. */
char **sweep_resume_words(const sweep *s);
/* Sets *r, whose texts are borrowed from the words; prints why they are no command line of
 * `lockstep train`. */
bool sweep_parse_words(char **words, recipe *r);
/* Also whether a trial can have them; else prints why not, and the trial. */
bool sweep_check_words(const sweep *s, char **words, recipe *r);

/* ---- sweep_train.c ---- */

/* Trains the jobs of a round that have no result, `parallel` at a time. Returns the exit status. */
int sweep_train(sweep *s, int64_t n, const ls_search_job *jobs);

/* ---- sweep_results.c ---- */

/* Makes the definition and reads OUT/sweep.json, if there is one, which must be of this sweep and
 * of these images. Returns the exit status. */
int sweep_read_results(sweep *s);
const sweep_result *sweep_find(const sweep *s, int64_t trial, int64_t epochs);
/* Takes over the error; false without memory. */
bool sweep_add(sweep *s, const sweep_result *result);
/* Writes OUT/sweep.json and OUT/report.html. A report that cannot be written does not stop the
 * sweep. Returns the exit status. */
int sweep_save(const sweep *s);
void sweep_free_results(sweep *s);
/* Reads the metric of a job from the trial's folder. Returns the exit status. */
int sweep_read_metric(const sweep *s, const char *dir, sweep_result *result);
/* The table on stdout, OUT/sweep.csv, and the command of the best trial. */
int sweep_report(const sweep *s);

#endif
