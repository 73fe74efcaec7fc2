/* report.h: the parts of a report (lockstep/report.h): what the run folders contain, and the
 * sections of the page. */
#ifndef LS_REPORT_REPORT_H
#define LS_REPORT_REPORT_H

#include "report/html.h"
#include <jansson.h>

/* The files of a run folder that a report reads. */
typedef enum ls__report_part {
    LS__REPORT_METRICS,
    LS__REPORT_CONFIG,
    LS__REPORT_MANIFEST,
    LS__REPORT_EVALUATION,
    LS__REPORT_FIRST_BATCH,
    LS__REPORT_LOG
} ls__report_part;
enum { LS__REPORT_PART_COUNT = LS__REPORT_LOG + 1 };

/* Their contents; NULL where one is missing or damaged. */
typedef struct ls__report_run {
    const char *dir;
    char *problems[LS__REPORT_PART_COUNT]; /* why a part is left out: "DIR/config.json: line 3: ..."
                                              NULL = it is there, or no run needs it */
    json_t *metrics;                       /* a row per epoch */
    json_t *config, *manifest, *evaluation;
    char *first_batch;     /* data URI of first_batch.jpg */
    json_t *first_samples; /* first_batch.json */
    char *log;             /* log.txt */
} ls__report_run;

/* A damaged file is a warning and a problem. LS_ERR_DATA for a folder without a run;
 * LS_ERR_MEMORY. */
ls_status ls__report_load(ls_context *ctx, const char *dir, ls__report_run *out);
void ls__report_free(const ls_context *ctx, ls__report_run *run);

/* An option of config.json, such as "model"; NULL if it is missing. */
static inline const json_t *ls__report_option(const ls__report_run *run, const char *key)
{
    return json_object_get(json_object_get(run->config, "options"), key);
}

/* In place of a part of the runs: a sentence for each that has a problem. */
void ls__report_put_problems(ls__html *html, int n, const ls__report_run *runs,
                             ls__report_part part);

/* Sections. */
void ls__report_put_curves(ls__html *html, int n, const ls__report_run *runs);
void ls__report_put_settings(ls__html *html, int n, const ls__report_run *runs);
void ls__report_put_environment(ls__html *html, int n, const ls__report_run *runs);
/* The section of a run with an evaluation, or a damaged one. best_epoch: by the metric that
 * decides; 0 = none. */
void ls__report_put_evaluation(ls__html *html, const ls__report_run *run, long long best_epoch);
/* The commands and warnings of its log, whose lines are ended in place. */
void ls__report_put_sessions(ls__html *html, const ls__report_run *run);
/* How many training images each class has, from config.json. */
void ls__report_put_class_images(ls__html *html, const ls__report_run *run);
void ls__report_put_first_batch(ls__html *html, const ls__report_run *run);

#endif
