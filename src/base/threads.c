/* threads.c: a pool of threads that take tasks from one counter.
 *
 * `remaining` is the number of tasks of the current run that no thread has taken. A thread takes a
 * task by a compare-and-swap from k > 0 to k-1. It then holds an unfinished task, so fn, arg and
 * n_tasks stay valid until it adds to `finished`. A thread that finds 0 accesses nothing, so a run
 * never waits for a sleeping thread. */
#include "base/threads.h"

#include "base/alloc.h"
#include "base/available.h"
#include "base/clock.h"
#include "base/context.h"
#include "base/error.h"
#include "base/signals.h"
#include <pthread.h>
#include <stdatomic.h>

/* A thread without work polls for this time before it sleeps. Waking a thread takes about 50
 * microseconds (futex); the kernels of one step follow each other within a few microseconds. */
static const double SPIN_SECONDS = 50e-6;

typedef struct worker {
    ls__threads *pool;
    pthread_t handle;
    int index;
} worker;

struct ls__threads {
    ls_context *ctx;
    int n_threads; /* includes the caller's */
    int n_started; /* workers to join */
    bool spin;
    bool (*start)(void);
    int n_ready, n_failed; /* workers in which `start` has returned; in which it failed */
    worker *workers;       /* n_threads - 1 */
    ls__observe_fn observe;
    void *observer;

    /* the current run */
    ls__task_fn fn;
    void *arg;
    int64_t n_tasks;
    _Alignas(LS__ALIGNMENT) _Atomic int64_t remaining;
    _Alignas(LS__ALIGNMENT) _Atomic int64_t finished;

    /* Sleeping and waking. A sleeper writes n_sleeping or caller_sleeps, then reads remaining or
     * finished; a waker writes those, then reads the former. All accesses are sequentially
     * consistent, so at least one of the two sees the other, and no wake-up is lost. */
    _Alignas(LS__ALIGNMENT) _Atomic int n_sleeping;
    atomic_bool caller_sleeps;
    atomic_bool stop;
    pthread_mutex_t mutex;
    pthread_cond_t work; /* remaining > 0 or stop */
    pthread_cond_t done; /* finished == n_tasks, or n_ready changed */
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

static bool has_work(ls__threads *pool)
{
    return atomic_load(&pool->remaining) > 0 || atomic_load(&pool->stop);
}

static bool tasks_are_done(ls__threads *pool)
{
    return atomic_load(&pool->finished) == pool->n_tasks;
}

/* Polls for SPIN_SECONDS; returns whether the condition became true. */
static bool poll_condition(ls__threads *pool, bool (*condition)(ls__threads *pool))
{
    if (!pool->spin) return condition(pool);
    const double until = ls__now_seconds() + SPIN_SECONDS;
    do {
        for (int i = 0; i < 32; i++) {
            if (condition(pool)) return true;
            relax();
        }
    } while (ls__now_seconds() < until);
    return false;
}

/* Takes a task: returns k > 0 for task n_tasks - k, or 0. */
static int64_t take_task(ls__threads *pool)
{
    int64_t k = atomic_load(&pool->remaining);
    while (k > 0 && !atomic_compare_exchange_weak(&pool->remaining, &k, k - 1)) continue;
    return k;
}

static void run_tasks(ls__threads *pool, int thread)
{
    int64_t k = take_task(pool);
    if (k <= 0) return;
    /* an unfinished task is held, so the run's fields are stable */
    const ls__task_fn fn = pool->fn;
    void *arg = pool->arg;
    const int64_t n_tasks = pool->n_tasks;
    int64_t n_run = 0;
    for (; k > 0; k = take_task(pool), n_run++) fn(arg, n_tasks - k, thread);
    if (atomic_fetch_add(&pool->finished, n_run) + n_run != n_tasks) return;
    /* this was the last task; the caller may begin another run now */
    if (thread != 0 && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->mutex);
    }
}

static void *worker_main(void *arg)
{
    const worker *self = arg;
    ls__threads *pool = self->pool;
    const bool failed = pool->start && !pool->start();
    pthread_mutex_lock(&pool->mutex);
    pool->n_ready++;
    pool->n_failed += failed;
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
    for (;;) {
        if (!poll_condition(pool, has_work)) {
            pthread_mutex_lock(&pool->mutex);
            atomic_fetch_add(&pool->n_sleeping, 1);
            while (!has_work(pool)) pthread_cond_wait(&pool->work, &pool->mutex);
            atomic_fetch_sub(&pool->n_sleeping, 1);
            pthread_mutex_unlock(&pool->mutex);
        }
        if (atomic_load(&pool->stop)) return NULL;
        run_tasks(pool, self->index);
    }
}

static void wake_workers(ls__threads *pool, int64_t n)
{
    const int n_sleeping = atomic_load(&pool->n_sleeping);
    if (n_sleeping == 0) return;
    pthread_mutex_lock(&pool->mutex);
    if (n >= n_sleeping) {
        pthread_cond_broadcast(&pool->work);
    } else {
        for (int64_t i = 0; i < n; i++) pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->mutex);
}

void ls__threads_observe(ls__threads *pool, ls__observe_fn observe, void *user)
{
    pool->observe = observe;
    pool->observer = user;
}

static void run_observed(const ls__threads *pool, int64_t n_tasks, ls__task_fn fn, void *arg)
{
    for (int64_t i = 0; i < n_tasks; i++) {
        const double start = ls__now_seconds();
        fn(arg, i, 0);
        pool->observe(pool->observer, i == 0 ? n_tasks : 0, ls__now_seconds() - start);
    }
}

void ls__threads_run(ls__threads *pool, int64_t n_tasks, ls__task_fn fn, void *arg)
{
    if (pool->observe) {
        run_observed(pool, n_tasks, fn, arg);
        return;
    }
    if (n_tasks <= 1 || pool->n_threads == 1) {
        for (int64_t i = 0; i < n_tasks; i++) fn(arg, i, 0);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->n_tasks = n_tasks;
    atomic_store(&pool->finished, 0);
    atomic_store(&pool->remaining, n_tasks);
    wake_workers(pool, n_tasks - 1);
    run_tasks(pool, 0);
    if (poll_condition(pool, tasks_are_done)) return;
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, true);
    while (!tasks_are_done(pool)) pthread_cond_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->mutex);
}

/* Starts the workers with all signals blocked, so that handlers run in the user's threads. Waits
 * for them, so that a failed allocation in `start` is reported here. */
static ls_status pool_start_workers(ls__threads *pool)
{
    sigset_t before;
    ls__block_signals(&before);
    int error = 0;
    for (int i = 0; i < pool->n_threads - 1 && !error; i++) {
        pool->workers[i] = (worker){ .pool = pool, .index = i + 1 };
        error = pthread_create(&pool->workers[i].handle, NULL, worker_main, &pool->workers[i]);
        if (!error) pool->n_started++;
    }
    ls__restore_signals(&before);
    pthread_mutex_lock(&pool->mutex);
    while (pool->n_ready < pool->n_started) pthread_cond_wait(&pool->done, &pool->mutex);
    pthread_mutex_unlock(&pool->mutex);
    if (!error && pool->n_failed == 0) return LS_OK;
    if (!error)
        return ls__fail(pool->ctx, LS_ERR_MEMORY, "thread pool: out of memory in %d of %d threads",
                        pool->n_failed, pool->n_threads);
    char reason[LS__ERRNO_TEXT_SIZE];
    return ls__fail(pool->ctx, LS_ERR_MEMORY, "thread pool: thread %d of %d did not start: %s",
                    pool->n_started + 2, pool->n_threads,
                    ls__errno_text(error, reason, sizeof(reason)));
}

ls_status ls__threads_open(ls_context *ctx, int n_threads, bool (*start)(void), ls__threads **out)
{
    *out = NULL;
    if (n_threads < 1)
        return ls__fail(ctx, LS_ERR_INVALID, "thread pool: got %d threads, expected at least 1",
                        n_threads);
    const size_t n_workers = (size_t)n_threads - 1;
    ls__threads *pool = ls__zalloc(ctx, sizeof(*pool));
    if (!pool) return ls__fail_memory(ctx, "thread pool", sizeof(*pool));
    *pool = (ls__threads){ .ctx = ctx,
                           .n_threads = n_threads,
                           .start = start,
                           .spin = n_threads <= ls__available_processors() };
    pthread_mutex_init(&pool->mutex, NULL); /* these cannot fail with default attributes */
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->workers = ls__zalloc(ctx, n_workers * sizeof(*pool->workers));
    const ls_status status =
        pool->workers ? pool_start_workers(pool)
                      : ls__fail_memory(ctx, "thread pool", n_workers * sizeof(*pool->workers));
    if (status == LS_OK)
        *out = pool;
    else
        ls__threads_close(&pool);
    return status;
}

static void pool_join_workers(ls__threads *pool)
{
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->n_started; i++) pthread_join(pool->workers[i].handle, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
}

void ls__threads_close(ls__threads **threads)
{
    ls__threads *pool = *threads;
    *threads = NULL;
    if (!pool) return;
    if (!ls__is_forked(pool->ctx)) pool_join_workers(pool);
    ls__free(pool->ctx, pool->workers);
    ls__free(pool->ctx, pool);
}

int ls__threads_count(const ls__threads *threads)
{
    return threads->n_threads;
}
