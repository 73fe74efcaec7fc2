/* metrics.h: a run's metrics, a row per epoch, as DIR/metrics.jsonl (one JSON object per line) and
 * DIR/metrics.csv. The first row of a process rewrites both files, later ones are appended and
 * flushed. If a process is killed, its last line may be incomplete. The resumed run removes it and
 * all rows of epochs after its checkpoint. Numbers are read back exactly, so that schedules that
 * depend on a metric can be replayed. */
#ifndef LS_LOG_METRICS_H
#define LS_LOG_METRICS_H

#include <jansson.h>
#include <lockstep/context.h>

/* The values of an evaluation that may decide which epoch of a run is the best; see
 * ls_trainer_config.metric. A run has them as "val_NAME" in its metrics. X(name, member of
 * ls_evaluation_result, whether the lowest value is the best, whether it reads
 * ls_evaluation_config.auc, title and axis of its chart, the axis's end or 0) */
#define LS__EVALUATION_METRICS(X)                                                                  \
    X(macro_recall, macro.recall, false, false, "Macro recall", "macro recall", 1)                 \
    X(macro_f1, macro.f1, false, false, "Macro F1", "macro F1", 1)                                 \
    X(auc, auc, false, true, "Mean area under the ROC curves", "AUC", 1)                           \
    X(cross_entropy, cross_entropy, true, false, "Cross-entropy", "cross-entropy", 0)

typedef struct ls__metrics ls__metrics;

/* Keeps the rows up to epoch last_epoch, all of which must be in the file, and removes later rows
 * from both files. */
ls_status ls__metrics_open(ls_context *ctx, const char *dir, int64_t last_epoch, ls__metrics **out);
/* Adds a row, a flat object of numbers and nulls, to both files. Takes over the reference; NULL is
 * LS_ERR_MEMORY. */
ls_status ls__metrics_append(ls__metrics *metrics, json_t *row);
void ls__metrics_close(ls__metrics **metrics);

/* All whole rows in the folder of a run, as an array that the caller releases; empty before the end
 * of the first epoch. */
ls_status ls__metrics_read(ls_context *ctx, const char *dir, json_t **rows);
/* The epochs and the numbers of a key for a chart, *n of each, at most `max`, evenly spaced, with
 * the first and last one; NaN for a row without the number. columns: space for twice as many
 * numbers as rows; the values begin at columns + rows. False if no row has one. */
bool ls__metrics_curve(const json_t *rows, const char *key, int64_t max, double *columns,
                       int64_t *n);
/* The row of an epoch, from 1, in the folder of a run, which the caller releases; NULL if the file
 * has fewer rows. Later rows are not read. */
ls_status ls__metrics_read_row(ls_context *ctx, const char *dir, int64_t epoch, json_t **row);

#endif
