/* The thread pool: every task once, with any number of threads, awake or asleep. */
#include "base/threads.h"

#include "base/context.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static const int thread_counts[] = { 1, 2, 3, 5, 16, 64 };
enum { N_THREAD_COUNTS = sizeof(thread_counts) / sizeof(thread_counts[0]), MAX_TASKS = 5000 };

/* Plain memory on purpose: the thread sanitizer then checks that runs order it. */
typedef struct work {
    int n_threads;
    int runs[MAX_TASKS];
    int thread[MAX_TASKS];
} work;

static void count_task(void *arg, int64_t task, int thread)
{
    work *w = arg;
    w->runs[task]++;
    w->thread[task] = thread;
}

static ls__threads *open_pool(ls_context *ctx, int n_threads)
{
    ls__threads *pool = NULL;
    ck_assert_int_eq(ls__threads_open(ctx, n_threads, NULL, &pool), LS_OK);
    ck_assert_int_eq(ls__threads_count(pool), n_threads);
    return pool;
}

START_TEST(every_task_runs_once)
{
    static const int64_t task_counts[] = { 0, 1, 2, 3, 7, 64, 1000, MAX_TASKS };
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ls_context ctx = { .allocator = a.allocator };
    for (int i = 0; i < N_THREAD_COUNTS; i++) {
        ls__threads *pool = open_pool(&ctx, thread_counts[i]);
        const int64_t n_requests = atomic_load(&a.n_requests);
        for (size_t k = 0; k < sizeof(task_counts) / sizeof(task_counts[0]); k++) {
            static work w;
            memset(&w, 0, sizeof(w));
            ls__threads_run(pool, task_counts[k], count_task, &w);
            for (int64_t t = 0; t < MAX_TASKS; t++) {
                ck_assert_int_eq(w.runs[t], t < task_counts[k]);
                ck_assert(w.thread[t] >= 0 && w.thread[t] < thread_counts[i]);
            }
        }
        ck_assert_int_eq(atomic_load(&a.n_requests), n_requests); /* a run allocates nothing */
        ls__threads_close(&pool);
        ck_assert_ptr_null(pool);
    }
    ck_assert_int_eq(failing_allocator_live(&a), 0);
}
END_TEST

START_TEST(many_short_runs_with_and_without_sleep)
{
    ls_context ctx = { .allocator = { 0 } };
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ctx.allocator = a.allocator;
    for (int i = 0; i < N_THREAD_COUNTS; i++) {
        ls__threads *pool = open_pool(&ctx, thread_counts[i]);
        static work w;
        memset(&w, 0, sizeof(w));
        enum { RUNS = 2000 };
        for (int run = 0; run < RUNS; run++) {
            ls__threads_run(pool, 1 + run % 5, count_task, &w);
            if (run % 100 == 0) usleep(200); /* long enough for all to sleep */
        }
        for (int t = 0; t < 5; t++) ck_assert_int_eq(w.runs[t], RUNS * (5 - t) / 5);
        ls__threads_close(&pool);
    }
}
END_TEST

/* Task 0 waits until task 1 has begun: they must run at the same time. */
static void meet(void *arg, int64_t task, int thread)
{
    atomic_int *begun = arg;
    (void)task;
    (void)thread;
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < 4) usleep(10);
}

START_TEST(threads_work_at_the_same_time)
{
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ls_context ctx = { .allocator = a.allocator };
    ls__threads *pool = open_pool(&ctx, 4);
    for (int run = 0; run < 20; run++) {
        atomic_int begun;
        atomic_init(&begun, 0);
        ls__threads_run(pool, 4, meet, &begun);
        usleep(500);
    }
    ls__threads_close(&pool);
}
END_TEST

static atomic_int n_started;

static bool start(void)
{
    atomic_fetch_add(&n_started, 1);
    return true;
}

static bool start_or_fail(void)
{
    return atomic_fetch_add(&n_started, 1) != 2;
}

START_TEST(start_runs_once_in_each_new_thread)
{
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ls_context ctx = { .allocator = a.allocator };
    ls__threads *pool = NULL;
    ck_assert_int_eq(ls__threads_open(&ctx, 7, start, &pool), LS_OK);
    ck_assert_int_eq(atomic_load(&n_started), 6);
    ls__threads_close(&pool);
    ls__threads_close(&pool);
    atomic_store(&n_started, 0);
    ck_assert_int_eq(ls__threads_open(&ctx, 7, start_or_fail, &pool), LS_ERR_MEMORY);
    ck_assert_ptr_null(pool);
    ck_assert_str_eq(ctx.message, "thread pool: out of memory in 1 of 7 threads");
}
END_TEST

START_TEST(a_thousand_threads)
{
    failing_allocator a;
    failing_allocator_init(&a, 0);
    ls_context ctx = { .allocator = a.allocator };
    ls__threads *pool = open_pool(&ctx, 1024);
    static work w;
    ls__threads_run(pool, MAX_TASKS, count_task, &w);
    for (int t = 0; t < MAX_TASKS; t++) ck_assert_int_eq(w.runs[t], 1);
    ls__threads_close(&pool);
}
END_TEST

START_TEST(misuse_and_failure)
{
    failing_allocator a;
    ls__threads *pool = NULL;
    for (int64_t fail_at = 1;; fail_at++) {
        failing_allocator_init(&a, fail_at);
        ls_context ctx = { .allocator = a.allocator };
        const ls_status status = ls__threads_open(&ctx, 3, NULL, &pool);
        ck_assert_int_eq(status, failing_allocator_failed(&a) ? LS_ERR_MEMORY : LS_OK);
        expect_error(&ctx, status, "");
        ck_assert(!pool == (status != LS_OK));
        ls__threads_close(&pool);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (status == LS_OK) break;
    }
    ls_context ctx = { .allocator = a.allocator };
    ck_assert_int_eq(ls__threads_open(&ctx, 0, NULL, &pool), LS_ERR_INVALID);
    ck_assert_ptr_null(pool);
}
END_TEST

TEST_PROGRAM(threads)
{
    return RUN_SUITE("threads", every_task_runs_once, many_short_runs_with_and_without_sleep,
                     threads_work_at_the_same_time, start_runs_once_in_each_new_thread,
                     a_thousand_threads, misuse_and_failure);
}
