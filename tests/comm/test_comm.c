/* test_comm.c: ranks that are threads: sums by plans, gathered bytes, time-outs, an abort; and
 * allocations that fail. */
#include "local.h"
#include "sums.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include "base/alloc.h"
#include "base/clock.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 16, N_STEPS = 3 };

/* ---- Ranks ---- */

/* The work of a rank in its thread. The test checks it afterwards. */
typedef struct rank_task {
    ls_context *ctx;
    ls__comm *comm;
    const void *arg;
    ls_status status;
    int64_t n_wrong;
    ls_status (*run)(struct rank_task *task);
} rank_task;

static void *run_task(void *arg)
{
    rank_task *task = arg;
    task->status = task->run(task);
    return NULL;
}

typedef struct ranks {
    int n;
    local_hub *hub;
    rank_task tasks[MAX_RANKS];
} ranks;

static ranks open_ranks(int n, const int *machines, double timeout_seconds)
{
    ranks r = { .n = n, .hub = local_hub_open(n, machines) };
    for (int i = 0; i < n; i++) {
        rank_task *task = &r.tasks[i];
        task->ctx = ls_context_open(&(ls_context_config){ .seed = 1, .threads = 1 });
        expect_ok(task->ctx);
        ck_assert_int_eq(local_comm_open(task->ctx, r.hub, i, timeout_seconds, &task->comm), LS_OK);
    }
    return r;
}

static void run_ranks(ranks *r, ls_status (*run)(rank_task *task), const void *arg)
{
    pthread_t threads[MAX_RANKS];
    for (int i = 0; i < r->n; i++) {
        r->tasks[i].run = run;
        r->tasks[i].arg = arg;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_task, &r->tasks[i]), 0);
    }
    for (int i = 0; i < r->n; i++) pthread_join(threads[i], NULL);
}

static void close_ranks(ranks *r)
{
    for (int i = 0; i < r->n; i++) {
        ls__comm_close(&r->tasks[i].comm);
        ck_assert_ptr_null(r->tasks[i].comm);
        ls_context_close(&r->tasks[i].ctx);
    }
    local_hub_close(&r->hub);
}

/* ---- Sums by plans ---- */

typedef struct sum_case {
    int n_shards, n_ranks, pattern;
    enum layout layout;
    int64_t count, unit;
    bool replicated;
} sum_case;

static const sum_case sum_cases[] = {
    { .n_shards = 8, .n_ranks = 1, .count = 5, .unit = 2 },
    { .n_shards = 8, .n_ranks = 2, .count = 1000, .unit = 16 },
    { .n_shards = 8, .n_ranks = 3, .count = 1000, .unit = 16 },
    { .n_shards = 13, .n_ranks = 5, .count = 999, .unit = 1, .pattern = 1 },
    { .n_shards = 8, .n_ranks = 8, .count = 40, .unit = 16, .pattern = 4 }, /* empty chunks */
    { .n_shards = 8, .n_ranks = 4, .layout = OF_2, .count = 1001, .unit = 8 },
    { .n_shards = 64, .n_ranks = 8, .layout = OF_4, .count = 300, .unit = 4, .pattern = 6 },
    { .n_shards = 12, .n_ranks = 6, .layout = OF_3, .count = 300, .unit = 4, .pattern = 5 },
    { .n_shards = 12, .n_ranks = 6, .layout = OF_2, .count = 3, .unit = 2, .pattern = 2 },
    { .n_shards = 12, .n_ranks = 7, .layout = UNEVEN, .count = 300, .unit = 4 },
    { .n_shards = 12, .n_ranks = 4, .layout = INTERLEAVED, .count = 300, .unit = 4 },
    { .n_shards = 12, .n_ranks = 5, .count = 3, .unit = 1, .pattern = 7, .replicated = true },
};
enum { N_SUM_CASES = sizeof sum_cases / sizeof sum_cases[0] };

/* rows[0] are those of the rank's shards, rows[1 + l] those of level l. */
typedef struct executor {
    ls__sum_plan plan;
    float *rows[1 + LS__MAX_LEVELS], *sum;
    ls__exchange *forth[LS__MAX_LEVELS], *back[LS__MAX_LEVELS];
} executor;

/* Elements of rows that begin with element `begin` and have `count` of them. */
static ls__message message(float *rows, int64_t begin, int64_t count, const ls__transfer *t)
{
    return (ls__message){ t->rank, rows + t->row * count + (t->begin - begin),
                          (size_t)t->count * sizeof *rows };
}

static ls_status open_exchanges(executor *x, ls__comm *comm, int64_t count, int l)
{
    ls__message sends[MAX_SHARDS * MAX_RANKS], receives[MAX_SHARDS];
    const ls__level *level = &x->plan.levels[l], whole = { .count = count };
    const ls__level *before = l > 0 ? &x->plan.levels[l - 1] : &whole;
    for (int i = 0; i < level->n_sends; i++)
        sends[i] = message(x->rows[l], before->begin, before->count, &level->sends[i]);
    for (int i = 0; i < level->n_receives; i++)
        receives[i] = message(x->rows[1 + l], level->begin, level->count, &level->receives[i]);
    LS_TRY(comm->provider->exchange_open(comm, sends, level->n_sends, receives, level->n_receives,
                                         &x->forth[l]));
    for (int i = 0; i < level->n_returns; i++)
        sends[i] = message(x->sum, 0, count, &level->returns[i]);
    for (int i = 0; i < level->n_return_receives; i++)
        receives[i] = message(x->sum, 0, count, &level->return_receives[i]);
    return comm->provider->exchange_open(comm, sends, level->n_returns, receives,
                                         level->n_return_receives, &x->back[l]);
}

static float *new_rows(int64_t n_rows, int64_t count)
{
    return calloc((size_t)(n_rows * count) + 1, sizeof(float));
}

static ls_status open_executor(executor *x, const sum_case *c, ls__comm *comm, const bool *present)
{
    const ls__sum_plan_config config = { .n_shards = c->n_shards,
                                         .present = present,
                                         .rank = comm->rank,
                                         .n_ranks = comm->n_ranks,
                                         .machines = comm->machines,
                                         .count = c->count,
                                         .unit = c->unit,
                                         .replicated = c->replicated };
    *x = (executor){ 0 };
    LS_TRY(ls__sum_plan_open(comm->ctx, &config, &x->plan));
    x->sum = new_rows(1, c->count);
    x->rows[0] = new_rows(x->plan.own.n_rows, c->count);
    for (int l = 0; l < x->plan.n_levels; l++) {
        x->rows[1 + l] = new_rows(x->plan.levels[l].n_receives, x->plan.levels[l].count);
        LS_TRY(open_exchanges(x, comm, c->count, l));
    }
    return LS_OK;
}

static void close_executor(executor *x, ls__comm *comm)
{
    for (int l = 0; l < LS__MAX_LEVELS; l++) {
        comm->provider->exchange_close(x->forth[l]);
        comm->provider->exchange_close(x->back[l]);
    }
    for (int l = 0; l < 1 + LS__MAX_LEVELS; l++) free(x->rows[l]);
    free(x->sum);
    ls__sum_plan_close(&x->plan);
}

static void fill_rows(executor *x, const sum_case *c, int rank, const bool *present, int step)
{
    float *row = x->rows[0];
    const int64_t end = ls__rank_first_shard(c->n_shards, rank + 1, c->n_ranks);
    for (int64_t s = ls__rank_first_shard(c->n_shards, rank, c->n_ranks); s < end; s++)
        for (int64_t k = 0; present[s] && k < c->count; k++) *row++ = shard_value((int)s, k, step);
    merge_rows(&x->plan.own, x->rows[0], c->count);
}

static ls_status exchange(ls__comm *comm, ls__exchange *x)
{
    LS_TRY(comm->provider->exchange_start(x));
    return ls__comm_wait(comm, x, "sum");
}

static ls_status execute(executor *x, ls__comm *comm)
{
    for (int l = 0; l < x->plan.n_levels; l++) {
        LS_TRY(exchange(comm, x->forth[l]));
        merge_rows(&x->plan.levels[l].merges, x->rows[1 + l], x->plan.levels[l].count);
    }
    const ls__level *last = &x->plan.levels[x->plan.n_levels - 1];
    memcpy(x->sum + last->begin, x->rows[x->plan.n_levels], (size_t)last->count * sizeof *x->sum);
    for (int l = x->plan.n_levels - 1; l >= 0; l--) LS_TRY(exchange(comm, x->back[l]));
    return LS_OK;
}

static ls_status sum_shards(rank_task *task)
{
    const sum_case *c = task->arg;
    executor x;
    bool present[MAX_SHARDS];
    fill_present(c->pattern, c->n_shards, present);
    ls_status status = open_executor(&x, c, task->comm, present);
    for (int step = 0; step < N_STEPS && status == LS_OK; step++) {
        fill_rows(&x, c, task->comm->rank, present, step);
        status = execute(&x, task->comm);
        for (int64_t k = 0; k < c->count; k++) {
            const float wanted = sum_by_definition(present, c->n_shards, k, step);
            task->n_wrong += memcmp(&x.sum[k], &wanted, sizeof wanted) != 0;
        }
    }
    close_executor(&x, task->comm);
    return status;
}

START_TEST(sums_of_ranks)
{
    for (int i = 0; i < N_SUM_CASES; i++) {
        int machines[MAX_RANKS];
        fill_machines(sum_cases[i].layout, sum_cases[i].n_ranks, machines);
        ranks r = open_ranks(sum_cases[i].n_ranks, machines, 60);
        run_ranks(&r, sum_shards, &sum_cases[i]);
        for (int rank = 0; rank < r.n; rank++) {
            expect_ok(r.tasks[rank].ctx);
            ck_assert_msg(r.tasks[rank].n_wrong == 0, "case %d, rank %d: %lld wrong elements", i,
                          rank, (long long)r.tasks[rank].n_wrong);
        }
        close_ranks(&r);
    }
}
END_TEST

/* ---- Gathering ---- */

static unsigned char gathered_byte(int rank, int call, size_t i)
{
    return (unsigned char)(rank * 57 + call * 31 + (int)i * 7);
}

static ls_status gather_bytes(rank_task *task)
{
    static const size_t sizes[] = { 16, 1, LS__GATHER_BYTES, 300 };
    enum { N_SIZES = sizeof sizes / sizeof sizes[0] };
    unsigned char own[LS__GATHER_BYTES], *all = malloc(MAX_RANKS * sizeof own);
    ls_status status = LS_OK;
    for (int call = 0; call < 2 * N_SIZES && status == LS_OK; call++) {
        const size_t n = sizes[call % N_SIZES];
        for (size_t i = 0; i < n; i++) own[i] = gathered_byte(task->comm->rank, call, i);
        status = ls__comm_gather(task->comm, own, n, all, "gather");
        for (size_t i = 0; status == LS_OK && i < n * (size_t)task->comm->n_ranks; i++)
            task->n_wrong += all[i] != gathered_byte((int)(i / n), call, i % n);
    }
    free(all);
    return status;
}

START_TEST(gathered_bytes)
{
    static const int counts[] = { 1, 2, 3, 8 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        ranks r = open_ranks(counts[i], NULL, 60);
        run_ranks(&r, gather_bytes, NULL);
        for (int rank = 0; rank < r.n; rank++) {
            expect_ok(r.tasks[rank].ctx);
            ck_assert_int_eq(r.tasks[rank].n_wrong, 0);
        }
        unsigned char own[LS__GATHER_BYTES + 1] = { 0 };
        expect_failure(ls__comm_gather(r.tasks[0].comm, own, sizeof own, NULL, "step 3"),
                       r.tasks[0].ctx, LS_ERR_INVALID, "step 3", "4097 bytes", "4096");
        close_ranks(&r);
    }
    ls__comm_close(NULL);
}
END_TEST

/* ---- Waits ---- */

/* All ranks but rank 1 gather; rank 1 gathers after *arg seconds, or not at all if that is
 * negative. */
static ls_status gather_late(rank_task *task)
{
    const double seconds = *(const double *)task->arg;
    const bool is_late = task->comm->rank == 1;
    int all[MAX_RANKS];
    if (is_late && seconds < 0) return LS_OK;
    if (is_late) usleep((useconds_t)(1e6 * seconds));
    return ls__comm_gather(task->comm, &task->comm->rank, sizeof(int), all, "step 17");
}

START_TEST(a_late_rank)
{
    const double late_seconds = 0.1;
    ranks r = open_ranks(3, NULL, 60);
    run_ranks(&r, gather_late, &late_seconds);
    for (int rank = 0; rank < r.n; rank++) expect_ok(r.tasks[rank].ctx);
    close_ranks(&r);
}
END_TEST

START_TEST(a_rank_that_does_not_arrive)
{
    const double never = -1;
    ranks r = open_ranks(3, NULL, 0.25);
    const double start = ls__now_seconds();
    run_ranks(&r, gather_late, &never);
    ck_assert_double_ge(ls__now_seconds() - start, 0.25);
    for (int rank = 0; rank < 3; rank += 2) {
        ck_assert_int_eq(r.tasks[rank].status, LS_ERR_TIMEOUT);
        expect_error(r.tasks[rank].ctx, LS_ERR_TIMEOUT,
                     "step 17: ", rank == 0 ? "rank 0 of 3" : "rank 2 of 3",
                     "after 0.25 seconds rank 1 has not arrived");
    }
    expect_ok(r.tasks[1].ctx);
    close_ranks(&r);
}
END_TEST

static ls_status gather_otherwise(rank_task *task)
{
    int all[MAX_RANKS];
    const char *what = task->comm->rank == 1 ? "agreement" : "results";
    return ls__comm_gather(task->comm, &task->comm->rank, sizeof(int), all, what);
}

START_TEST(a_rank_in_another_call)
{
    ranks r = open_ranks(3, NULL, 60);
    run_ranks(&r, gather_otherwise, NULL);
    expect_error(r.tasks[0].ctx, LS_ERR_MISMATCH, "results: rank 1 is in another call");
    expect_error(r.tasks[1].ctx, LS_ERR_MISMATCH, "agreement: rank 0 is in another call");
    expect_error(r.tasks[2].ctx, LS_ERR_MISMATCH, "results: rank 1 is in another call");
    int own = 0, all[3];
    expect_failure(ls__comm_gather(r.tasks[0].comm, &own, sizeof own, all, "next"), r.tasks[0].ctx,
                   LS_ERR_IO, "next: the other ranks have ended, or do not answer");
    close_ranks(&r);
}
END_TEST

/* Rank 0 waits for rank 1, which waits for rank 2, which does nothing. */
static ls_status wait_in_a_chain(rank_task *task)
{
    ls__comm *comm = task->comm;
    const int rank = comm->rank;
    int all[3], own = rank;
    LS_TRY(ls__comm_gather(comm, &own, sizeof own, all, "begin"));
    ls__exchange *chain[2] = { NULL }; /* from 1 to 0, and from 2 to 1 */
    ls_status status = LS_OK;
    for (int i = 0; i < 2 && status == LS_OK; i++) {
        const ls__message send = { i, &own, sizeof own }, receive = { i + 1, all, sizeof own };
        status = comm->provider->exchange_open(comm, &send, rank == i + 1, &receive, rank == i,
                                               &chain[i]);
    }
    if (status == LS_OK && rank < 2) status = comm->provider->exchange_start(chain[rank]);
    if (status == LS_OK && rank < 2) status = ls__comm_wait(comm, chain[rank], "step 3");
    for (int i = 0; i < 2; i++) comm->provider->exchange_close(chain[i]);
    return status;
}

START_TEST(a_rank_that_waits_for_another_is_not_named)
{
    ranks r = open_ranks(3, NULL, 0.25);
    run_ranks(&r, wait_in_a_chain, NULL);
    expect_error(r.tasks[0].ctx, LS_ERR_TIMEOUT, "step 3: rank 0 of 3", "rank 2 has not arrived");
    expect_error(r.tasks[1].ctx, LS_ERR_TIMEOUT, "step 3: rank 1 of 3", "rank 2 has not arrived");
    expect_ok(r.tasks[2].ctx);
    close_ranks(&r);
}
END_TEST

START_TEST(several_ranks_that_do_not_arrive)
{
    int all[4];
    ranks r = open_ranks(4, NULL, 0.05);
    expect_failure(ls__comm_gather(r.tasks[2].comm, &all[2], sizeof(int), all, "step 0"),
                   r.tasks[2].ctx, LS_ERR_TIMEOUT, "rank 2 of 4",
                   "after 0.05 seconds ranks 0, 1, 3 have not arrived");
    close_ranks(&r);
}
END_TEST

static ls_status fail_device_wait(rank_task *task)
{
    return ls__comm_fail_wait(task->comm, "epoch 0, step 5");
}

START_TEST(devices_that_wait)
{
    ranks r = open_ranks(3, NULL, 0.05);
    expect_failure(fail_device_wait(&r.tasks[1]), r.tasks[1].ctx, LS_ERR_TIMEOUT,
                   "epoch 0, step 5: rank 1 of 3: after 0.05 seconds ranks 0, 2 have not arrived");
    expect_failure(fail_device_wait(&r.tasks[1]), r.tasks[1].ctx, LS_ERR_IO,
                   "epoch 0, step 5: the other ranks have ended, or do not answer");
    close_ranks(&r);
    r = open_ranks(3, NULL, 5);
    run_ranks(&r, fail_device_wait, NULL);
    for (int rank = 0; rank < 3; rank++) {
        ck_assert_int_eq(r.tasks[rank].status, LS_ERR_TIMEOUT);
        expect_error(r.tasks[rank].ctx, LS_ERR_TIMEOUT, "epoch 0, step 5: rank ",
                     " of 3: after 5 seconds messages between devices have not arrived, although "
                     "all ranks answer");
    }
    close_ranks(&r);
}
END_TEST

START_TEST(a_message_that_is_not_received)
{
    int own = 5;
    ranks r = open_ranks(2, NULL, 0.05);
    ls__comm *comm = r.tasks[0].comm;
    ls__exchange *x = NULL;
    const ls__message send = { 1, &own, sizeof own };
    ck_assert_int_eq(comm->provider->exchange_open(comm, &send, 1, NULL, 0, &x), LS_OK);
    ck_assert_int_eq(comm->provider->exchange_start(x), LS_OK);
    expect_failure(ls__comm_wait(comm, x, "step 4"), comm->ctx, LS_ERR_TIMEOUT, "step 4",
                   "its messages have not been received");
    comm->provider->exchange_close(x);
    close_ranks(&r);
}
END_TEST

/* A wait sleeps rather than spins. */
START_TEST(a_wait_leaves_the_processor_to_others)
{
    int all[2];
    struct timespec used[2];
    ranks r = open_ranks(2, NULL, 0.5);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used[0]);
    expect_failure(ls__comm_gather(r.tasks[0].comm, &all[0], sizeof(int), all, "step 0"),
                   r.tasks[0].ctx, LS_ERR_TIMEOUT, "rank 1 has not arrived");
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used[1]);
    const double seconds = (double)(used[1].tv_sec - used[0].tv_sec) +
                           1e-9 * (double)(used[1].tv_nsec - used[0].tv_nsec);
    ck_assert_double_lt(seconds, 0.2); /* of 0.5 */
    close_ranks(&r);
}
END_TEST

/* ---- Aborts and misuse ---- */

/* Rank 2 aborts, all others wait for it. */
static ls_status abort_or_gather(rank_task *task)
{
    int all[MAX_RANKS];
    if (task->comm->rank != 2)
        return ls__comm_gather(task->comm, &task->comm->rank, sizeof(int), all, "step 1");
    usleep(20000);
    task->comm->provider->abort(task->comm, 74);
    return LS_OK;
}

START_TEST(an_abort_ends_all_waits)
{
    ranks r = open_ranks(4, NULL, 60);
    run_ranks(&r, abort_or_gather, NULL);
    for (int rank = 0; rank < 4; rank++) {
        if (rank == 2) continue;
        ck_assert_int_eq(r.tasks[rank].status, LS_ERR_DEVICE);
        expect_error(r.tasks[rank].ctx, LS_ERR_DEVICE, "rank 2 aborted with exit status 74");
    }
    ls__exchange *x = NULL;
    ls__comm *comm = r.tasks[0].comm;
    expect_failure(comm->provider->exchange_open(comm, NULL, 0, NULL, 0, &x), comm->ctx,
                   LS_ERR_DEVICE, "rank 2 aborted");
    ck_assert_ptr_null(x);
    close_ranks(&r);
}
END_TEST

START_TEST(messages_that_do_not_match)
{
    char sent[2] = { 1, 2 }, received[3] = { 0 };
    ranks r = open_ranks(2, NULL, 60);
    ls__comm *a = r.tasks[0].comm, *b = r.tasks[1].comm;
    ls__exchange *x = NULL, *y = NULL;
    int64_t n_left = 0;
    const ls__message sends[2] = { { 1, &sent[0], 1 }, { 1, &sent[1], 1 } };
    const ls__message receives[2] = { { 0, &received[1], 1 }, { 0, &received[0], 2 } };
    ck_assert_int_eq(a->provider->exchange_open(a, sends, 2, NULL, 0, &x), LS_OK);
    ck_assert_int_eq(b->provider->exchange_open(b, NULL, 0, receives, 2, &y), LS_OK);
    ck_assert_int_eq(a->provider->exchange_start(x), LS_OK);
    expect_failure(a->provider->exchange_start(x), a->ctx, LS_ERR_INVALID, "running already");
    ck_assert(!b->provider->exchange_has_arrived(y, 0));
    expect_failure(b->provider->exchange_start(y), b->ctx, LS_ERR_INVALID, "exchange 0", "differ");
    ck_assert_int_eq(received[1], 1); /* the first message is that of the first send */
    ck_assert(b->provider->exchange_has_arrived(y, 1));
    ck_assert_int_eq(a->provider->exchange_test(x, &n_left), LS_OK);
    ck_assert_int_eq(n_left, 1);
    a->provider->exchange_close(x);
    b->provider->exchange_close(y);
    close_ranks(&r);
}
END_TEST

START_TEST(allocation_failures)
{
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context ctx = { .allocator = a.allocator };
        local_hub *hub = local_hub_open(1, NULL);
        ls__comm *comm = NULL;
        int own = 0, all;
        ls_status status = local_comm_open(&ctx, hub, 0, 60, &comm);
        if (status == LS_OK) status = ls__comm_gather(comm, &own, sizeof own, &all, "gather");
        ck_assert_int_eq(status, failing_allocator_failed(&a) ? LS_ERR_MEMORY : LS_OK);
        expect_error(&ctx, status, "");
        if (status == LS_OK) { /* later calls allocate nothing */
            const int64_t n_requests = atomic_load(&a.n_requests);
            ck_assert_int_eq(ls__comm_gather(comm, &own, sizeof own, &all, "gather"), LS_OK);
            ck_assert_int_eq(atomic_load(&a.n_requests), n_requests);
        }
        ls__comm_close(&comm);
        local_hub_close(&hub);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (status == LS_OK) break;
        ck_assert_int_lt(n, 100);
    }
}
END_TEST

TEST_PROGRAM(comm)
{
    return RUN_SUITE("comm", sums_of_ranks, gathered_bytes, a_late_rank,
                     a_rank_that_does_not_arrive, a_rank_in_another_call,
                     a_rank_that_waits_for_another_is_not_named, several_ranks_that_do_not_arrive,
                     devices_that_wait, a_message_that_is_not_received,
                     a_wait_leaves_the_processor_to_others, an_abort_ends_all_waits,
                     messages_that_do_not_match, allocation_failures);
}
