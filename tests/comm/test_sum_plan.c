/* test_sum_plan.c: plans as data, run by ranks that are simulated in one loop: the bits of the sum
 * for all numbers of shards and ranks, each transfer, and the bytes that are sent. */
#include "sums.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include "base/alloc.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = MAX_SHARDS, MAX_COUNT = 2 * MAX_RANKS + 1, MEMORY = 1 << 20 };

/* All ranks of one configuration. rows[0] are the shards' of a rank, rows[1 + l] those of level l.
 */
typedef struct simulation {
    ls_context ctx;
    ls__sum_plan_config config;
    bool present[MAX_SHARDS];
    int machines[MAX_RANKS];
    int machine_size; /* of two levels, or 0 */
    ls__sum_plan plans[MAX_RANKS];
    float *rows[MAX_RANKS][1 + LS__MAX_LEVELS], *sums[MAX_RANKS];
    int64_t sent, sent_across; /* elements, to other ranks and to other machines */
    int64_t n_used;            /* of memory */
} simulation;

static float memory[MEMORY];
static float values[MAX_SHARDS][MAX_COUNT];

static void wrong(const simulation *s, const char *what)
{
    ck_abort_msg("%s: %d shards, %d ranks, machines of %d, %d elements, unit %d%s; present[0] %d",
                 what, (int)s->config.n_shards, s->config.n_ranks, s->machine_size,
                 (int)s->config.count, (int)s->config.unit,
                 s->config.replicated ? ", replicated" : "", s->present[0]);
}

static float *take(simulation *s, int64_t n)
{
    float *rows = memory + s->n_used;
    s->n_used += n;
    if (s->n_used > MEMORY) wrong(s, "memory is short");
    for (int64_t i = 0; i < n; i++) rows[i] = NAN;
    return rows;
}

/* ---- Opening ---- */

static void open_rank(simulation *s, int rank)
{
    ls__sum_plan *plan = &s->plans[rank];
    const int64_t count = s->config.count;
    const int n_shards = (int)s->config.n_shards, n_ranks = s->config.n_ranks;
    const int64_t first = n_shards * rank / n_ranks, end = n_shards * (rank + 1) / n_ranks;
    s->config.rank = rank;
    if (ls__sum_plan_open(&s->ctx, &s->config, plan) != LS_OK) wrong(s, s->ctx.message);
    if (ls__rank_first_shard(n_shards, rank, n_ranks) != first) wrong(s, "first shard");
    if (plan->n_levels != (s->machine_size && !s->config.replicated ? 2 : 1)) wrong(s, "levels");
    int n = 0;
    float *own = s->rows[rank][0] = take(s, (end - first) * count);
    for (int64_t shard = first; shard < end; shard++)
        if (s->present[shard])
            memcpy(own + n++ * count, values[shard], (size_t)count * sizeof *own);
    if (n != plan->own.n_rows) wrong(s, "rows of the own shards");
    if (plan->own.n_sums != count_pieces(s->present, n_shards, first, end)) wrong(s, "pieces");
    merge_rows(&plan->own, own, count);
    for (int l = 0; l < plan->n_levels; l++) {
        const ls__level *level = &plan->levels[l];
        s->rows[rank][1 + l] = take(s, level->n_receives * level->count);
    }
    s->sums[rank] = take(s, count);
}

/* ---- Transfers ---- */

typedef struct transfers {
    const ls__transfer *sends, *receives;
    int n_sends, n_receives;
} transfers;

static transfers transfers_of(const simulation *s, int rank, int l, bool back)
{
    const ls__level *level = &s->plans[rank].levels[l];
    return back ? (transfers){ level->returns, level->return_receives, level->n_returns,
                               level->n_return_receives }
                : (transfers){ level->sends, level->receives, level->n_sends, level->n_receives };
}

/* The elements of a transfer at a rank, in the rows of a level, -1 = of its shards. */
static float *elements(const simulation *s, int rank, int l, const ls__transfer *t)
{
    const ls__sum_plan *plan = &s->plans[rank];
    const ls__level whole = { .count = s->config.count };
    const ls__level *level = l < 0 ? &whole : &plan->levels[l];
    const int n_rows = l < 0 ? plan->own.n_rows : level->merges.n_rows;
    if (t->row < 0 || t->row >= n_rows) wrong(s, "a row that is not there");
    if (t->begin < level->begin || t->begin + t->count > level->begin + level->count)
        wrong(s, "elements that are not there");
    return s->rows[rank][1 + l] + t->row * level->count + (t->begin - level->begin);
}

/* Returns the elements in the sum, on the way back. */
static float *returned(const simulation *s, int rank, const ls__transfer *t)
{
    if (t->row != 0 || t->begin < 0 || t->begin + t->count > s->config.count)
        wrong(s, "returned elements");
    return s->sums[rank] + t->begin;
}

/* Transfers of one pair of sender and receiver, in order. */
typedef struct pair {
    int n_sent, n_received;
    uint64_t rows;
    const ls__transfer *sent[MAX_SHARDS];
} pair;

static pair pairs[MAX_RANKS][MAX_RANKS];

static void send_all(simulation *s, int from, int l, bool back)
{
    const transfers t = transfers_of(s, from, l, back);
    for (int to = 0; to < s->config.n_ranks; to++) {
        pairs[from][to].n_sent = pairs[from][to].n_received = 0;
        pairs[from][to].rows = 0;
    }
    for (int i = 0; i < t.n_sends; i++) {
        const ls__transfer *send = &t.sends[i];
        if (send->rank < 0 || send->rank >= s->config.n_ranks || send->count <= 0)
            wrong(s, "a send to nobody, or of nothing");
        if (!s->config.replicated && send->begin % s->config.unit != 0) wrong(s, "unit");
        pair *p = &pairs[from][send->rank];
        if (p->rows >> send->row & 1) wrong(s, "a message that is sent twice");
        p->rows |= (uint64_t)1 << send->row;
        p->sent[p->n_sent++] = send;
        if (send->rank == from) continue;
        s->sent += send->count;
        if (s->machines[from] != s->machines[send->rank]) s->sent_across += send->count;
    }
}

static void receive_all(simulation *s, int to, int l, bool back)
{
    const transfers t = transfers_of(s, to, l, back);
    const ls__level *level = &s->plans[to].levels[l];
    int64_t n_elements = 0;
    for (int i = 0; i < t.n_receives; i++) {
        const ls__transfer *receive = &t.receives[i];
        pair *p = &pairs[receive->rank][to];
        if (p->n_received == p->n_sent) wrong(s, "a receive without a send");
        const ls__transfer *send = p->sent[p->n_received++];
        if (send->begin != receive->begin || send->count != receive->count)
            wrong(s, "other elements are sent than received");
        const float *from =
            back ? returned(s, receive->rank, send) : elements(s, receive->rank, l - 1, send);
        float *own = back ? returned(s, to, receive) : elements(s, to, l, receive);
        /* All is NAN before it is received. */
        for (int64_t k = 0; k < receive->count; k++)
            if (!isnan(own[k])) wrong(s, "an element that is received twice");
        memcpy(own, from, (size_t)receive->count * sizeof *own);
        n_elements += receive->count;
    }
    for (int from = 0; from < s->config.n_ranks; from++)
        if (pairs[from][to].n_received != pairs[from][to].n_sent)
            wrong(s, "a send without receive");
    const int64_t all = l > 0 ? s->plans[to].levels[l - 1].count : s->config.count;
    const int64_t wanted = back ? all - level->count : level->merges.n_rows * level->count;
    if (n_elements != wanted) wrong(s, "not all elements are received");
}

static void exchange(simulation *s, int l, bool back)
{
    for (int r = 0; r < s->config.n_ranks; r++) send_all(s, r, l, back);
    for (int r = 0; r < s->config.n_ranks; r++) receive_all(s, r, l, back);
}

static void run_level(simulation *s, int l)
{
    exchange(s, l, false);
    for (int r = 0; r < s->config.n_ranks; r++) {
        const ls__level *level = &s->plans[r].levels[l];
        float *rows = s->rows[r][1 + l];
        if (level->merges.n_rows != level->n_receives) wrong(s, "rows to merge");
        merge_rows(&level->merges, rows, level->count);
        if (l < s->plans[r].n_levels - 1 || level->count == 0) continue;
        if (level->merges.n_sums != 1) wrong(s, "more than one sum");
        memcpy(s->sums[r] + level->begin, rows, (size_t)level->count * sizeof *rows);
    }
}

/* ---- What is sent ---- */

/* Summed over ranks: their pieces, or those of machines of so many ranks. */
static int64_t all_pieces(const simulation *s, int n_ranks)
{
    const int n_shards = (int)s->config.n_shards, n = s->config.n_ranks;
    int64_t pieces = 0;
    for (int r = 0; r < n; r += n_ranks)
        pieces +=
            count_pieces(s->present, n_shards, n_shards * r / n, n_shards * (r + n_ranks) / n);
    return pieces;
}

/* A member of a group of n sends p + 1 times (n - 1) / n of its elements on average, for p pieces.
 */
static void check_sent(const simulation *s)
{
    const int n = s->config.n_ranks, size = s->machine_size ? s->machine_size : n;
    const int64_t count = s->config.count, n_machines = n / size;
    const int64_t within = (all_pieces(s, 1) + n) * (size - 1) * count / size;
    const int64_t across =
        (all_pieces(s, size) + n_machines) * (n_machines - 1) * count / n_machines;
    if (s->sent != within + across) wrong(s, "elements sent");
    if (s->machine_size && s->sent_across != across) wrong(s, "elements sent to other machines");
}

/* ---- Runs ---- */

static void run(simulation *s, const float *wanted)
{
    const int n = s->config.n_ranks;
    s->n_used = s->sent = s->sent_across = 0;
    for (int r = 0; r < n; r++) open_rank(s, r);
    const int n_levels = s->plans[0].n_levels;
    for (int l = 0; l < n_levels; l++) run_level(s, l);
    for (int l = n_levels - 1; l >= 0; l--) exchange(s, l, true);
    for (int r = 0; r < n; r++) {
        if (memcmp(s->sums[r], wanted, (size_t)s->config.count * sizeof *wanted) != 0)
            wrong(s, "bits");
    }
    if (s->config.count % (n * s->config.unit) == 0 && !s->config.replicated) check_sent(s);
    for (int r = 0; r < n; r++) ls__sum_plan_close(&s->plans[r]);
}

static void run_counts(simulation *s, const float *wanted, int which)
{
    const int n = s->config.n_ranks;
    const struct {
        int count, unit;
        bool replicated;
    } odd[] = { { .count = 1, .unit = 4 },
                { .count = 2 * n - 1, .unit = 2 },
                { .count = 2 * n + 1, .unit = 3 },
                { .count = 3, .unit = 1, .replicated = true } };
    s->config.replicated = false;
    s->config.count = 2 * n;
    s->config.unit = 2;
    run(s, wanted);
    s->config.count = odd[which % 4].count;
    s->config.unit = odd[which % 4].unit;
    s->config.replicated = odd[which % 4].replicated;
    run(s, wanted);
}

static simulation *new_simulation(void)
{
    static simulation s;
    s = (simulation){ .ctx.allocator = ls__default_allocator };
    s.config.machines = s.machines;
    for (int i = 0; i < MAX_SHARDS; i++)
        for (int k = 0; k < MAX_COUNT; k++) values[i][k] = shard_value(i, k, 0);
    return &s;
}

static void set_present(simulation *s, int n_shards, int pattern, float *wanted)
{
    fill_present(pattern, n_shards, s->present);
    s->config.n_shards = n_shards;
    s->config.present = pattern ? s->present : NULL;
    for (int k = 0; k < MAX_COUNT; k++) wanted[k] = sum_by_definition(s->present, n_shards, k, 0);
}

START_TEST(all_numbers_of_shards_and_ranks)
{
    simulation *s = new_simulation();
    float wanted[MAX_COUNT];
    for (int n_shards = 1; n_shards <= MAX_SHARDS; n_shards += cases_step())
        for (int pattern = 0; pattern < N_PATTERNS; pattern++) {
            set_present(s, n_shards, pattern, wanted);
            for (int n = 1; n <= n_shards; n++)
                for (int layout = 0; layout < N_LAYOUTS; layout++) {
                    s->config.n_ranks = n;
                    s->machine_size = fill_machines(layout, n, s->machines);
                    /* Layouts of one level have the same plan, so only an eighth of them runs, and
                     * a third of the patterns of many shards. */
                    const int which = layout + pattern + n + n_shards;
                    if (layout > 0 && s->machine_size == 0 && which % 8 > 0) continue;
                    if (pattern > 0 && n_shards > 16 && which % 3 > 0) continue;
                    run_counts(s, wanted, which);
                }
        }
}
END_TEST

/* The table in numbers of scale-out: elements sent per rank and element, for all of one machine. */
START_TEST(known_traffic)
{
    static const struct {
        int n_shards, n_ranks;
        double sent;
    } cases[] = { { 8, 2, 1 },     { 8, 8, 1.75 },  { 8, 3, 1.78 },  { 8, 5, 1.76 },
                  { 8, 6, 1.67 },  { 8, 7, 1.71 },  { 12, 3, 1.33 }, { 16, 3, 2.22 },
                  { 16, 6, 2.22 }, { 64, 3, 3.11 }, { 64, 6, 3.33 }, { 64, 12, 3.06 } };
    simulation *s = new_simulation();
    float wanted[MAX_COUNT];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int n = cases[i].n_ranks;
        set_present(s, cases[i].n_shards, 0, wanted);
        s->config.n_ranks = n;
        s->machine_size = fill_machines(ONE_MACHINE, n, s->machines);
        s->config.count = 2 * n;
        s->config.unit = 1;
        run(s, wanted);
        ck_assert_double_eq_tol((double)s->sent / (n * 2.0 * n), cases[i].sent, 0.005);
    }
    /* 2 x 4 ranks: each machine sends 2 (1 - 1/2) times the elements to the other one. */
    set_present(s, 8, 0, wanted);
    s->config.n_ranks = 8;
    s->config.count = 16;
    s->machine_size = fill_machines(OF_4, 8, s->machines);
    run(s, wanted);
    ck_assert_int_eq(s->sent_across, 2 * 16);
}
END_TEST

/* The test of bits has a meaning only if sums depend on their order. */
START_TEST(sums_depend_on_their_order)
{
    bool all[MAX_SHARDS];
    fill_present(0, MAX_SHARDS, all);
    for (int n_shards = 4; n_shards <= MAX_SHARDS; n_shards++) {
        int n_different = 0;
        for (int k = 0; k < MAX_COUNT; k++) {
            float sum = 0;
            for (int shard = 0; shard < n_shards; shard++) sum += shard_value(shard, k, 0);
            n_different += sum != sum_by_definition(all, n_shards, k, 0);
        }
        ck_assert_int_gt(n_different, MAX_COUNT / 10);
    }
}
END_TEST

START_TEST(invalid_configs)
{
    ls_context ctx = { .allocator = ls__default_allocator };
    ls__sum_plan plan;
    const bool none[4] = { false };
    const ls__sum_plan_config valid = { .n_shards = 4, .n_ranks = 2, .count = 8, .unit = 1 };
    ls__sum_plan_config c = valid;
    c.n_ranks = 5;
    expect_failure(ls__sum_plan_open(&ctx, &c, &plan), &ctx, LS_ERR_INVALID, "5 ranks", "4 shards");
    c.n_ranks = 0;
    expect_failure(ls__sum_plan_open(&ctx, &c, &plan), &ctx, LS_ERR_INVALID, "0 ranks", "4 shards");
    c = valid, c.n_shards = 65;
    expect_failure(ls__sum_plan_open(&ctx, &c, &plan), &ctx, LS_ERR_INVALID, "65 shards", "64");
    c = valid, c.rank = 2;
    expect_failure(ls__sum_plan_open(&ctx, &c, &plan), &ctx, LS_ERR_INVALID, "rank 2 of 2");
    c = valid, c.count = 0;
    expect_failure(ls__sum_plan_open(&ctx, &c, &plan), &ctx, LS_ERR_INVALID, "0 elements");
    c = valid, c.unit = 0;
    expect_failure(ls__sum_plan_open(&ctx, &c, &plan), &ctx, LS_ERR_INVALID, "units of 0");
    c = valid, c.present = none;
    expect_failure(ls__sum_plan_open(&ctx, &c, &plan), &ctx, LS_ERR_INVALID, "none of 4 shards");
    ck_assert_int_eq(plan.n_levels, 0);
    ls__sum_plan_close(&plan);
    ls__sum_plan_close(NULL);
}
END_TEST

START_TEST(large_counts)
{
    static const int64_t units[] = { 1, INT64_MAX / 65, INT64_MAX };
    ls_context ctx = { .allocator = ls__default_allocator };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        ls__sum_plan plan;
        const ls__sum_plan_config c = {
            .n_shards = 64, .rank = 62, .n_ranks = 63, .count = INT64_MAX, .unit = units[i]
        };
        ck_assert_int_eq(ls__sum_plan_open(&ctx, &c, &plan), LS_OK);
        const ls__level *level = &plan.levels[0];
        ck_assert_int_eq(level->begin + level->count, INT64_MAX);
        ck_assert_int_eq(level->begin % c.unit, 0);
        ck_assert_int_ge(level->begin, units[i] == INT64_MAX ? 0 : INT64_MAX / 65 * 62);
        ls__sum_plan_close(&plan);
    }
}
END_TEST

START_TEST(allocation_failures)
{
    const int machines[4] = { 0, 0, 2, 2 };
    const ls__sum_plan_config c = {
        .n_shards = 8, .n_ranks = 4, .machines = machines, .count = 9, .unit = 2
    };
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context ctx = { .allocator = a.allocator };
        ls__sum_plan plan;
        const ls_status status = ls__sum_plan_open(&ctx, &c, &plan);
        ck_assert_int_eq(status, failing_allocator_failed(&a) ? LS_ERR_MEMORY : LS_OK);
        if (status == LS_OK) ls__sum_plan_close(&plan);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (status == LS_OK) break;
        ls__sum_plan_close(&plan); /* is closed already */
        ck_assert_int_lt(n, 100);
    }
}
END_TEST

TEST_PROGRAM(sum_plan)
{
    return RUN_SUITE("sum_plan", all_numbers_of_shards_and_ranks, known_traffic,
                     sums_depend_on_their_order, invalid_configs, large_counts,
                     allocation_failures);
}
