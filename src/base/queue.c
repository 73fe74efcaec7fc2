/* queue.c: a ring of slots under one mutex. Locking takes about 50 nanoseconds, an item at least
 * several microseconds. */
#include "base/queue.h"

#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/signals.h"
#include <pthread.h>

typedef struct worker {
    ls__queue *queue;
    pthread_t handle;
    int index;
} worker;

struct ls__queue {
    ls_context *ctx;
    const char *what;
    ls__queue_fn fn;
    void *arg;
    int n_workers, n_started, n_slots, n_kept;
    worker *workers; /* n_workers */

    /* The mutex guards all fields below. */
    pthread_mutex_t mutex;
    pthread_cond_t work;   /* there is an item to take, or quit */
    pthread_cond_t finish; /* a step is finished, or no worker is busy */
    bool quit;
    int64_t n_items, n_batch, n_steps;
    int64_t open_step, open_item; /* the next item to take */
    int64_t taken_steps;          /* the caller has taken the steps below this one */
    int64_t free_steps;           /* the slots of the steps below this one are free */
    int n_busy;                   /* workers that run an item */
    int64_t *n_unfinished;        /* by slot: items of its step */
};

static int queue_slot(const ls__queue *queue, int64_t step)
{
    return (int)(step % queue->n_slots);
}

static int64_t items_in(const ls__queue *queue, int64_t step)
{
    return ls__min_i64(queue->n_items - step * queue->n_batch, queue->n_batch);
}

static bool has_item(const ls__queue *queue)
{
    return queue->open_step < queue->n_steps &&
           queue->open_step < queue->free_steps + queue->n_slots;
}

/* Must hold the mutex, and has_item. */
static ls__queue_item take_item(ls__queue *queue, int worker_index)
{
    const ls__queue_item item = { worker_index, queue_slot(queue, queue->open_step),
                                  queue->open_step, queue->open_item };
    const int64_t n = items_in(queue, item.step);
    if (item.item == 0) queue->n_unfinished[item.slot] = n;
    if (++queue->open_item == n) {
        queue->open_item = 0;
        queue->open_step++;
    }
    return item;
}

static void *run_worker(void *arg)
{
    const worker *self = arg;
    ls__queue *queue = self->queue;
    pthread_mutex_lock(&queue->mutex);
    while (!queue->quit) {
        if (!has_item(queue)) {
            pthread_cond_wait(&queue->work, &queue->mutex);
            continue;
        }
        const ls__queue_item item = take_item(queue, self->index);
        queue->n_busy++;
        pthread_mutex_unlock(&queue->mutex);
        queue->fn(queue->arg, &item);
        pthread_mutex_lock(&queue->mutex);
        queue->n_busy--;
        queue->n_unfinished[item.slot]--;
        if (queue->n_unfinished[item.slot] == 0 || queue->n_busy == 0)
            pthread_cond_signal(&queue->finish);
    }
    pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

/* Starts the workers with all signals blocked, so that handlers run in the program's threads. */
static ls_status queue_start_workers(ls__queue *queue)
{
    sigset_t before;
    ls__block_signals(&before);
    int error = 0;
    while (queue->n_started < queue->n_workers && error == 0) {
        worker *w = &queue->workers[queue->n_started];
        *w = (worker){ .queue = queue, .index = queue->n_started };
        error = pthread_create(&w->handle, NULL, run_worker, w);
        queue->n_started += error == 0;
    }
    ls__restore_signals(&before);
    if (error == 0) return LS_OK;
    char text[LS__ERRNO_TEXT_SIZE];
    return ls__fail(queue->ctx, LS_ERR_DEVICE, "%s: cannot start worker %d of %d: %s", queue->what,
                    queue->n_started + 1, queue->n_workers,
                    ls__errno_text(error, text, sizeof(text)));
}

ls_status ls__queue_open(ls_context *ctx, const char *what, int n_workers, int n_slots, int n_kept,
                         ls__queue_fn fn, void *arg, ls__queue **out)
{
    *out = NULL;
    ls__queue *queue = ls__zalloc(ctx, sizeof(*queue));
    if (!queue) return ls__fail_memory(ctx, what, sizeof(*queue));
    *queue = (ls__queue){ .ctx = ctx,
                          .what = what,
                          .fn = fn,
                          .arg = arg,
                          .n_workers = n_workers,
                          .n_slots = n_slots,
                          .n_kept = n_kept };
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->work, NULL);
    pthread_cond_init(&queue->finish, NULL);
    queue->n_unfinished = ls__zalloc(ctx, (size_t)n_slots * sizeof(int64_t));
    queue->workers = ls__zalloc(ctx, (size_t)n_workers * sizeof(worker));
    const ls_status status = queue->n_unfinished && queue->workers
                                 ? queue_start_workers(queue)
                                 : ls__fail_memory(ctx, what, (size_t)n_workers * sizeof(worker));
    if (status == LS_OK)
        *out = queue;
    else
        ls__queue_close(&queue);
    return status;
}

static void queue_join_workers(ls__queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->quit = true;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
    for (int i = 0; i < queue->n_started; i++) pthread_join(queue->workers[i].handle, NULL);
    pthread_cond_destroy(&queue->finish);
    pthread_cond_destroy(&queue->work);
    pthread_mutex_destroy(&queue->mutex);
}

void ls__queue_close(ls__queue **queue)
{
    ls__queue *q = *queue;
    if (!q) return;
    if (!ls__is_forked(q->ctx)) queue_join_workers(q);
    ls__free(q->ctx, q->workers);
    ls__free(q->ctx, q->n_unfinished);
    ls__free(q->ctx, q);
    *queue = NULL;
}

void ls__queue_stop(ls__queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    queue->n_steps = queue->open_step = queue->taken_steps = queue->free_steps = 0;
    while (queue->n_busy > 0) pthread_cond_wait(&queue->finish, &queue->mutex);
    pthread_mutex_unlock(&queue->mutex);
}

void ls__queue_start(ls__queue *queue, int64_t n_items, int64_t n_batch, int64_t step,
                     int64_t n_steps)
{
    pthread_mutex_lock(&queue->mutex);
    queue->n_items = n_items;
    queue->n_batch = n_batch;
    queue->n_steps = n_steps;
    queue->open_item = 0;
    queue->open_step = queue->taken_steps = queue->free_steps = step;
    pthread_cond_broadcast(&queue->work);
    pthread_mutex_unlock(&queue->mutex);
}

int ls__queue_take(ls__queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    const int64_t done = queue->taken_steps - queue->n_kept;
    if (done > queue->free_steps) queue->free_steps = done;
    int slot = -1;
    if (queue->taken_steps < queue->n_steps) {
        slot = queue_slot(queue, queue->taken_steps);
        if (queue->n_workers == 0) {
            for (int64_t left = items_in(queue, queue->taken_steps); left > 0; left--) {
                const ls__queue_item item = take_item(queue, 0);
                queue->fn(queue->arg, &item);
            }
        } else {
            pthread_cond_broadcast(&queue->work);
            while (queue->open_step <= queue->taken_steps || queue->n_unfinished[slot] > 0)
                pthread_cond_wait(&queue->finish, &queue->mutex);
        }
        queue->taken_steps++;
    }
    pthread_mutex_unlock(&queue->mutex);
    return slot;
}
