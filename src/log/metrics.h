/* metrics.h: a run's metrics, a row per epoch, as DIR/metrics.jsonl (one JSON object per line) and
 * DIR/metrics.csv. The first row of a process rewrites both files, later ones are appended and
 * flushed. If a process is killed, its last line may be incomplete. The resumed run removes it and
 * all rows of epochs after its checkpoint. Numbers are read back exactly, so that schedules that
 * depend on a metric can be replayed. */
#ifndef LS_LOG_METRICS_H
#define LS_LOG_METRICS_H

#include <jansson.h>
#include <lockstep/context.h>

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
/* column[i]: the number of that key in row i, or NaN. False if no row has one. */
bool ls__metrics_column(const json_t *rows, const char *key, double *column);
/* Keeps at most `max` of the n numbers of a column, evenly spaced, with the first and last one,
 * for a chart. Returns how many. */
int64_t ls__metrics_thin(int64_t n, int64_t max, double *column);
/* The row of an epoch, from 1, in the folder of a run, which the caller releases; NULL if the file
 * has fewer rows. Later rows are not read. */
ls_status ls__metrics_read_row(ls_context *ctx, const char *dir, int64_t epoch, json_t **row);

#endif
