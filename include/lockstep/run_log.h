/* run_log.h: a digest for each step of what went in and what came out, so that two runs can be
 * compared afterwards, and the step found at which they part.
 *
 * A record is a text file of one line per step, all of one length, so that diff and cmp work on it:
 *
 *   step, batch, loss, gradients, weights
 *
 * with a space between: the step in 12 digits, digests in 32 hex digits, the loss in 16, which are
 * the bits of the double. Steps count over the whole run, from 0: line i is step i. */
#ifndef LOCKSTEP_RUN_LOG_H
#define LOCKSTEP_RUN_LOG_H

#include <lockstep/net.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_step_digest {
    ls_digest batch; /* images, labels and sample numbers, in order */
    double loss;
    ls_digest gradients; /* all parameters'; those of frozen ones are zero */
    ls_digest weights;   /* parameters and buffers, after the update */
} ls_step_digest;

/* Of the step that the net has just done: after ls_net_step, or after backward and update, with the
 * batch that it was fed. Takes one pass over each of the blocks of gradients and weights. Digests
 * do not depend on how a backend lays anything out. */
LS_API ls_status ls_net_digest(ls_net *net, const ls_batch *batch, ls_step_digest *out);

/* ---- Writing ---- */

typedef struct ls_run_log ls_run_log;

/* Opens the record for appending step n_steps: its first n_steps lines are kept, what follows them
 * (of a run that was stopped after its last checkpoint) is cut off. 0 begins anew. LS_ERR_DATA when
 * the file has fewer whole lines than that or one of them is none; LS_ERR_IO, also where path is a
 * symbolic link. */
LS_API ls_run_log *ls_run_log_open(ls_context *ctx, const char *path, int64_t n_steps);
/* Adds a line and hands it to the system, so that a killed process loses none. */
LS_API ls_status ls_run_log_append(ls_run_log *record, const ls_step_digest *digest);
/* ls_net_digest and ls_run_log_append without waiting for the device: adds the line of the step
 * that the net has just done, on a GPU with the next line, ls_run_log_flush or ls_run_log_close, at
 * the latest. The net and the record have one context. */
LS_API ls_status ls_run_log_step(ls_run_log *record, ls_net *net, const ls_batch *batch);
/* Waits until all lines are on the disk: before a checkpoint that counts on them. */
LS_API ls_status ls_run_log_flush(ls_run_log *record);
LS_API void ls_run_log_close(ls_run_log **record);

/* ---- Reading ---- */

/* How many steps a record has. A last line that was cut short, by a full disk or a killed writer,
 * does not count. LS_ERR_NOT_FOUND, LS_ERR_IO, LS_ERR_DATA name the file and the line. */
LS_API ls_status ls_run_log_count(ls_context *ctx, const char *path, int64_t *n_steps);
LS_API ls_status ls_run_log_read(ls_context *ctx, const char *path, int64_t step,
                                 ls_step_digest *out);

typedef struct ls_run_log_difference {
    int64_t n_a, n_b; /* steps of either */
    int64_t step;     /* the first that differs; -1 when all that both have are equal */
    bool batch, loss, gradients, weights; /* what differs there */
    ls_step_digest a, b;                  /* of that step */
} ls_run_log_difference;
LS_API ls_status ls_run_log_compare(ls_context *ctx, const char *a, const char *b,
                                    ls_run_log_difference *out);

LS_END_DECLARATIONS

#endif
