/* report.h: the parts of a report (lockstep/report.h): what the run folders contain, and the
 * sections of the page. */
#ifndef LS_RUN_REPORT_H
#define LS_RUN_REPORT_H

#include "run/html.h"
#include <jansson.h>

/* A run folder's files; NULL where one is missing, except for metrics, which are an array. */
typedef struct ls__report_run {
    const char *dir;
    json_t *metrics; /* a row per epoch */
    json_t *config, *manifest, *evaluation;
    char *first_batch; /* data URI of first_batch.jpg */
} ls__report_run;

ls_status ls__report_load(ls_context *ctx, const char *dir, ls__report_run *out);
void ls__report_free(const ls_context *ctx, ls__report_run *run);

/* An option of config.json, such as "model"; NULL if it is missing. */
static inline const json_t *ls__report_option(const ls__report_run *run, const char *key)
{
    return json_object_get(json_object_get(run->config, "options"), key);
}

/* Sections. */
ls_status ls__report_put_curves(ls__html *html, int n, const ls__report_run *runs);
void ls__report_put_settings(ls__html *html, int n, const ls__report_run *runs);
void ls__report_put_environment(ls__html *html, int n, const ls__report_run *runs);
/* Of a run with an evaluation; more: one of several. */
void ls__report_put_evaluation(ls__html *html, const ls__report_run *run);
void ls__report_put_first_batch(ls__html *html, const ls__report_run *run);

#endif
