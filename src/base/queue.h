/* queue.h: a work queue that returns results in order.
 *
 * Items are grouped into steps of n_batch. Each step has a slot of a ring. Workers take single
 * items, the lowest step first, so several workers share a step. The caller takes finished steps in
 * order. At most n_slots steps are in progress, finished, or held by the caller. */
#ifndef LS_BASE_QUEUE_H
#define LS_BASE_QUEUE_H

#include <lockstep/context.h>

typedef struct ls__queue ls__queue;

typedef struct ls__queue_item {
    int worker; /* 0..n_workers-1, or 0 in the caller's thread */
    int slot;
    int64_t step, item; /* item of the step */
} ls__queue_item;

typedef void (*ls__queue_fn)(void *arg, const ls__queue_item *item);

/* n_workers 0: the caller's thread runs the items of a step when it takes the step. The slots of
 * the n_kept steps before the last one taken are not reused. Errors begin with `what`, a literal.
 */
ls_status ls__queue_open(ls_context *ctx, const char *what, int n_workers, int n_slots, int n_kept,
                         ls__queue_fn fn, void *arg, ls__queue **out);
/* Waits for the items in progress. Accepts NULL. */
void ls__queue_close(ls__queue **queue);

/* Starts the steps from `step` to n_steps - 1. Items 0..n_items-1 form steps of n_batch; the last
 * step may be smaller. The queue must be stopped. */
void ls__queue_start(ls__queue *queue, int64_t n_items, int64_t n_batch, int64_t step,
                     int64_t n_steps);
/* Drops all work and waits for the items in progress. No slot is in use afterwards. */
void ls__queue_stop(ls__queue *queue);

/* Frees the slot of the step that is n_kept steps before the last one taken, then waits for the
 * next step. Returns its slot, or -1 after the last step. */
int ls__queue_take(ls__queue *queue);

#endif
