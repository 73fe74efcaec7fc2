/* run_log.h: digests of each step's inputs and results. Comparing the run logs of two runs finds
 * the step at which they diverge.
 *
 * A run log is a text file with one line per step; all lines have the same length, so that diff and
 * cmp work:
 *
 *   step, batch, loss, gradients, weights
 *
 * separated by spaces: the step in 12 digits, digests in 32 hex digits, the loss as the 16 hex
 * digits of its double, 7ff8000000000000 for every NaN. Steps and lines are counted from 0 over the
 * whole run: line i is step i. */
#ifndef LOCKSTEP_RUN_LOG_H
#define LOCKSTEP_RUN_LOG_H

#include <lockstep/net.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_step_digest {
    ls_digest batch; /* images, labels, targets and sample numbers, in order, where it has them */
    double loss;
    ls_digest gradients; /* of all parameters; zeros for frozen ones. With gradient accumulation: of
                            this batch, or in a step with an update their mean */
    ls_digest weights;   /* parameters and buffers, after the update if there is one */
} ls_step_digest;

/* The digests of the net's last step: call it after ls_net_step, or after backward and update, with
 * the batch of that step. Costs one pass over the gradients and one over the weights. With several
 * ranks (context.h) all of them call it, and get the digests of the whole batch; LS_ERR_MISMATCH as
 * for ls_run_log_step. */
LS_API ls_status ls_net_digest(ls_net *net, const ls_batch *batch, ls_step_digest *out);

/* ---- Writing ---- */

typedef struct ls_run_log ls_run_log;

/* Opens a run log for appending from step n_steps on. The first n_steps lines are kept; later
 * lines, written after the last checkpoint, are cut off. 0 creates a new file. LS_ERR_DATA if the
 * file has fewer whole lines or a line is malformed; LS_ERR_IO, also if path is a symbolic link. */
LS_API ls_run_log *ls_run_log_open(ls_context *ctx, const char *path, int64_t n_steps);
/* Appends a line and writes it to the file, so that a killed process loses none. */
LS_API ls_status ls_run_log_append(ls_run_log *log, const ls_step_digest *digest);
/* Does what ls_net_digest and ls_run_log_append do, without waiting for the device. On a GPU the
 * line is written by the next ls_run_log_step, ls_run_log_flush or ls_run_log_close. The net and
 * the log must be of one context. With several ranks (context.h) all of them call it: rank 0 writes
 * the digests of the whole batch, and LS_ERR_MISMATCH names ranks whose gradients or weights differ
 * from those of the others. */
LS_API ls_status ls_run_log_step(ls_run_log *log, ls_net *net, const ls_batch *batch);
/* Waits until all lines are on the disk. Call it before saving a checkpoint. */
LS_API ls_status ls_run_log_flush(ls_run_log *log);
LS_API void ls_run_log_close(ls_run_log **log);

/* ---- Reading ---- */

/* The number of steps in a run log. An incomplete last line (full disk, killed writer) does not
 * count. LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_DATA name the file and the line. */
LS_API ls_status ls_run_log_step_count(ls_context *ctx, const char *path, int64_t *n_steps);
/* Reads the digests of one step. LS_ERR_INVALID if the log has no such step. */
LS_API ls_status ls_run_log_read(ls_context *ctx, const char *path, int64_t step,
                                 ls_step_digest *out);

typedef struct ls_run_log_difference {
    int64_t n_a, n_b; /* number of steps of each */
    int64_t step;     /* the first that differs; -1 if all steps of both are equal */
    bool batch, loss, gradients, weights; /* which fields differ there */
    ls_step_digest a, b;                  /* of that step */
    LS_RESERVED(4);
} ls_run_log_difference;
/* The names of the fields that differ, "batch", "loss", "gradients" and "weights", which are
 * static. Returns how many. */
enum { LS_RUN_LOG_FIELDS = 4 };
LS_API int ls_run_log_fields(const ls_run_log_difference *difference,
                             const char *names[LS_RUN_LOG_FIELDS]);
/* Compares two run logs step by step, up to the end of the shorter one. */
LS_API ls_status ls_run_log_compare(ls_context *ctx, const char *a, const char *b,
                                    ls_run_log_difference *out);

LS_END_DECLARATIONS

#endif
