/* threads.c: a pool of threads that take tasks from one counter.
 *
 * `remaining` says how many tasks of the present run are not taken yet. Taking one is a
 * compare-and-swap from k > 0 to k-1; whoever succeeds holds an unfinished task, so the run, and
 * with it fn, arg and n_tasks, stays as it is until the taker adds to `finished`. Threads that come
 * too late find 0 and touch nothing: a run never waits for a thread that slept. */
#include "base/threads.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

/* How long a thread without work looks for some before it sleeps. Waking a sleeper costs some 50
 * microseconds (futex), and the kernels of one step follow each other within a few. */
static const double SPIN_SECONDS = 50e-6;

typedef struct worker {
    ls__threads *pool;
    pthread_t handle;
    int index;
} worker;

struct ls__threads {
    ls_context *ctx;
    int n_threads; /* the caller's among them */
    int n_started; /* workers to join */
    bool spin;
    bool (*start)(void);
    int n_ready, n_failed; /* workers that have run it; those in which it failed */
    worker *workers;       /* n_threads - 1 */
    ls__observe_fn observe;
    void *observer;

    /* the present run */
    ls__task_fn fn;
    void *arg;
    int64_t n_tasks;
    _Alignas(LS__ALIGNMENT) _Atomic int64_t remaining;
    _Alignas(LS__ALIGNMENT) _Atomic int64_t finished;

    /* Sleep and waking. Each side first announces itself (n_sleeping, caller_sleeps) or its event
     * (remaining, finished), then looks at the other's, all sequentially consistent: one of them
     * sees the other, so no wake-up is lost. */
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

static bool is_done(ls__threads *pool)
{
    return atomic_load(&pool->finished) == pool->n_tasks;
}

/* Looks for a while; false when the condition did not come true. */
static bool spin_for(ls__threads *pool, bool (*condition)(ls__threads *pool))
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

/* Takes tasks until none is left. */
static void work_off(ls__threads *pool, int thread)
{
    int64_t k = atomic_load(&pool->remaining);
    while (k > 0 && !atomic_compare_exchange_weak(&pool->remaining, &k, k - 1)) {
    }
    if (k <= 0) return;

    /* an unfinished task is held from here on: the run's fields are stable */
    const ls__task_fn fn = pool->fn;
    void *arg = pool->arg;
    const int64_t n_tasks = pool->n_tasks;
    int64_t n_run = 0;
    while (k > 0) {
        fn(arg, n_tasks - k, thread);
        n_run++;
        k = atomic_load(&pool->remaining);
        while (k > 0 && !atomic_compare_exchange_weak(&pool->remaining, &k, k - 1)) {
        }
    }
    if (atomic_fetch_add(&pool->finished, n_run) + n_run != n_tasks) return;
    /* the last one; from here on the run's fields may be another run's */
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
        if (!spin_for(pool, has_work)) {
            pthread_mutex_lock(&pool->mutex);
            atomic_fetch_add(&pool->n_sleeping, 1);
            while (!has_work(pool)) pthread_cond_wait(&pool->work, &pool->mutex);
            atomic_fetch_sub(&pool->n_sleeping, 1);
            pthread_mutex_unlock(&pool->mutex);
        }
        if (atomic_load(&pool->stop)) return NULL;
        work_off(pool, self->index);
    }
}

static void wake_workers(ls__threads *pool, int64_t n_wanted)
{
    const int n_sleeping = atomic_load(&pool->n_sleeping);
    if (n_sleeping == 0) return;
    pthread_mutex_lock(&pool->mutex);
    if (n_wanted >= n_sleeping) {
        pthread_cond_broadcast(&pool->work);
    } else {
        for (int64_t i = 0; i < n_wanted; i++) pthread_cond_signal(&pool->work);
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
    work_off(pool, 0);
    if (spin_for(pool, is_done)) return;
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, true);
    while (!is_done(pool)) pthread_cond_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->mutex);
}

/* Starts the workers with all signals blocked: handlers run in the user's threads. Waits for them,
 * because what they allocate at their start must not be missing later. */
static ls_status start_workers(ls__threads *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = 0;
    for (int i = 0; i < pool->n_threads - 1 && !error; i++) {
        pool->workers[i] = (worker){ .pool = pool, .index = i + 1 };
        error = pthread_create(&pool->workers[i].handle, NULL, worker_main, &pool->workers[i]);
        if (!error) pool->n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
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
    if (n_threads < 1) {
        return ls__fail(ctx, LS_ERR_INVALID, "thread pool: got %d threads, wanted at least 1",
                        n_threads);
    }
    const size_t n_workers = (size_t)n_threads - 1;
    ls__threads *pool = ls__zalloc(ctx, sizeof(*pool));
    if (!pool) return ls__fail_memory(ctx, "thread pool", sizeof(*pool));
    pool->ctx = ctx;
    pool->n_threads = n_threads;
    pool->start = start;
    pool->spin = n_threads <= ls__available_processors();
    atomic_init(&pool->remaining, 0);
    atomic_init(&pool->finished, 0);
    atomic_init(&pool->n_sleeping, 0);
    atomic_init(&pool->caller_sleeps, false);
    atomic_init(&pool->stop, false);
    pthread_mutex_init(&pool->mutex, NULL); /* these cannot fail with default attributes */
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);

    ls_status status = LS_OK;
    pool->workers = ls__zalloc(ctx, n_workers * sizeof(*pool->workers));
    if (!pool->workers) {
        status = ls__fail_memory(ctx, "thread pool", n_workers * sizeof(*pool->workers));
    } else {
        status = start_workers(pool);
    }
    if (status != LS_OK) {
        ls__threads_close(&pool);
        return status;
    }
    *out = pool;
    return LS_OK;
}

void ls__threads_close(ls__threads **threads)
{
    ls__threads *pool = *threads;
    *threads = NULL;
    if (!pool) return;
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->n_started; i++) pthread_join(pool->workers[i].handle, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    ls__free(pool->ctx, pool->workers);
    ls__free(pool->ctx, pool);
}

int ls__threads_count(const ls__threads *threads)
{
    return threads->n_threads;
}
