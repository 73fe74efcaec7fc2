/* queue.h: work for threads, taken and handed out in order.
 *
 * An epoch's items are cut into steps of n_batch. Each step is made in a slot of a ring; workers
 * take single items, the lowest step first, so several of them share a step; the caller takes
 * finished steps in order. At most n_slots steps are under way, finished, or in the caller's hands.
 * The queue knows nothing of images. */
#ifndef LS_DATA_LOADER_QUEUE_H
#define LS_DATA_LOADER_QUEUE_H

#include <lockstep/context.h>

typedef struct ls__queue ls__queue;

typedef struct ls__queue_item {
    int worker; /* 0..n_workers-1, or 0 in the caller's thread */
    int slot;
    int64_t step, item; /* item of the step */
} ls__queue_item;

typedef void (*ls__queue_fn)(void *arg, const ls__queue_item *item);

/* n_workers 0: the caller's thread makes each step when it takes it. n_kept: slots of so many steps
 * before the last one taken are not used either. */
ls_status ls__queue_open(ls_context *ctx, int n_workers, int n_slots, int n_kept, ls__queue_fn fn,
                         void *arg, ls__queue **out);
/* Waits for the items in hand. Accepts NULL. */
void ls__queue_close(ls__queue **queue);

/* Work from `step` to n_steps, of n_items in steps of n_batch; the last step may be smaller. Must
 * be stopped. */
void ls__queue_start(ls__queue *queue, int64_t n_items, int64_t n_batch, int64_t step,
                     int64_t n_steps);
/* Drops all work and waits for the items in hand; then no slot is used. */
void ls__queue_stop(ls__queue *queue);

/* Gives back the slot of the step taken before (n_kept steps before that one), then waits for the
 * next step. Its slot, or -1 after the last one. */
int ls__queue_take(ls__queue *queue);

#endif
