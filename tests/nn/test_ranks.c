/* test_ranks.c: a training step in several ranks, here threads of one process, has the bits of one
 * rank. What several ranks can't do. */
#include "sharded_net.h"
#include "../comm/local.h"
#include "base/context.h"
#include "nn/net/net_trace.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 8 };

/* The steps of all settings whose batches have a sample for each shard. */
static int count_steps(int shards)
{
    int n = 0;
    while (n < STEPS && batch_sizes[n] >= shards) n++;
    return n;
}

/* Overwrites the samples of other ranks, which a rank's loader leaves out. */
static void spoil(ls_batch *b, int64_t begin, int64_t end)
{
    uint8_t *pixels = ls_tensor_data((ls_tensor *)b->images);
    int32_t *labels = ls_tensor_data((ls_tensor *)b->labels);
    float *targets = b->targets ? ls_tensor_data((ls_tensor *)b->targets) : NULL;
    for (int64_t i = 0; i < b->n; i++) {
        if (i >= begin && i < end) continue;
        memset(pixels + i * SIZE * SIZE * 3, 0xab, SIZE * SIZE * 3);
        labels[i] = -1;
        if (targets) memset(targets + i * CLASSES, 0, CLASSES * sizeof(float));
    }
}

typedef struct run {
    const setting *s;
    local_hub *hub;
    int rank, n_ranks, shards, threads;
    int64_t bucket_elements, audit_every;
    bool partition;
    step_values steps[STEPS];
} run;

static void open_context(const run *r, ls_context **out)
{
    const ls_context_config config = { .seed = 5,
                                       .shards = r->shards,
                                       .sync_batch_norm = r->s->synced,
                                       .threads = r->threads,
                                       .partition_optimizer = r->partition,
                                       .audit_every = r->s->synced ? 0 : r->audit_every };
    *out = ls_context_open(&config);
    if (r->hub) ck_assert_int_eq(local_comm_open(*out, r->hub, r->rank, 60, &(*out)->comm), LS_OK);
    (*out)->device_comm = (*out)->comm;
}

static void *train(void *arg)
{
    run *r = arg;
    ls_context *ctx;
    open_context(r, &ctx);
    if (ctx->comm) ctx->comm->bucket_elements = r->bucket_elements;
    trained t = build_net(r->s, ctx, BATCH);
    for (int step = 0; step < count_steps(r->shards); step++) {
        const int64_t n = batch_sizes[step];
        ls_batch b = part_of(ctx, r->s, step, 0, n);
        const int64_t first = r->shards * r->rank / r->n_ranks,
                      end = r->shards * (r->rank + 1) / r->n_ranks;
        spoil(&b, n * first / r->shards, n * end / r->shards);
        r->steps[step].n = 0;
        step_over(&t, &b, &r->steps[step]);
        close_batch(&b);
    }
    ls_context_close(&ctx);
    return NULL;
}

typedef struct layout {
    int shards, n_ranks;
    const int *machines;
    int64_t bucket_elements;
    bool partition;
    int64_t audit_every;
} layout;

/* Fails unless all ranks end each step with the values of one rank. */
static void check(const setting *s, const layout *l)
{
    static run alone, runs[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    const int shards = l->shards, n_ranks = l->n_ranks;
    local_hub *hub = local_hub_open(n_ranks, l->machines);
    alone =
        (run){ .s = s, .n_ranks = 1, .shards = shards, .threads = 1, .partition = l->partition };
    train(&alone);
    for (int i = 0; i < n_ranks; i++) {
        runs[i] = (run){ .s = s,
                         .hub = hub,
                         .rank = i,
                         .n_ranks = n_ranks,
                         .shards = shards,
                         .threads = 1 + i % 2,
                         .bucket_elements = l->bucket_elements,
                         .audit_every = l->audit_every,
                         .partition = l->partition };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, train, &runs[i]), 0);
    }
    for (int i = 0; i < n_ranks; i++) pthread_join(threads[i], NULL);
    local_hub_close(&hub);
    for (int i = 0; i < n_ranks; i++)
        for (int step = 0; step < count_steps(shards); step++) {
            char what[96];
            snprintf(what, sizeof what, "%s, %d shards, rank %d of %d, step %d", s->name, shards, i,
                     n_ranks, step);
            expect_same(&runs[i].steps[step], &alone.steps[step], what);
        }
}

static const layout layouts[] = { { 8, 2, NULL, 0, true },
                                  { 8, 3, NULL, 100, .audit_every = 1 },
                                  { 8, 8, NULL, 1, true, .audit_every = 2 },
                                  { 3, 2, NULL, 500, .audit_every = 1 },
                                  { 4, 4, (const int[]){ 0, 0, 2, 2 }, 0, true },
                                  { 8, 6, (const int[]){ 0, 0, 0, 3, 3, 3 }, 1 } };
enum { N_LAYOUTS = sizeof layouts / sizeof layouts[0] };

START_TEST(ranks_have_the_bits_of_one)
{
    const int i = _i % N_LAYOUTS;
    check(&settings[_i / N_LAYOUTS], &layouts[i]);
}
END_TEST

/* ---- What several ranks can't do ---- */

static void *step_over_few(void *arg)
{
    run *r = arg;
    ls_context *ctx;
    open_context(r, &ctx);
    trained t = build_net(&settings[0], ctx, BATCH);
    ls_batch b = part_of(ctx, &settings[0], 0, 0, r->shards - 1);
    ck_assert_int_eq(ls_net_step(t.net, t.opt, &b, LR), LS_ERR_UNSUPPORTED);
    ck_assert_str_eq(ls_context_message(ctx),
                     "net: a batch of 7 samples is smaller than the number of shards, 8; with "
                     "several ranks each shard requires a sample");
    close_batch(&b);
    ls_context_close(&ctx);
    return NULL;
}

START_TEST(each_shard_requires_a_sample)
{
    run runs[2];
    pthread_t threads[2];
    local_hub *hub = local_hub_open(2, NULL);
    for (int i = 0; i < 2; i++) {
        runs[i] = (run){
            .s = &settings[0], .hub = hub, .rank = i, .n_ranks = 2, .shards = 8, .threads = 1
        };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, step_over_few, &runs[i]), 0);
    }
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    local_hub_close(&hub);
}
END_TEST

/* ---- Audits ---- */

/* Step 0 has no fault. In step 1 an op of the forward pass of rank 1's first shard has one. */
static void *step_with_fault(void *arg)
{
    run *r = arg;
    ls_context *ctx;
    open_context(r, &ctx);
    trained t = build_net(r->s, ctx, BATCH);
    if (r->rank == 1)
        ls__net_set_injected_fault(t.net, &(ls__injected_fault){ 0, 1, .op = 3, .element = 0 });
    for (int step = 0; step < 2; step++) {
        ls_batch b = part_of(ctx, r->s, step, 0, BATCH);
        const ls_status status = ls_net_step(t.net, t.opt, &b, LR);
        ck_assert_int_eq(status, step == 0 || r->audit_every == 0 ? LS_OK : LS_ERR_MISMATCH);
        close_batch(&b);
    }
    ck_assert_str_eq(ls_context_message(ctx),
                     r->audit_every == 0
                         ? ""
                         : "epoch 0, step 1: audit: rank 1 and rank 0 computed different results "
                           "of shard 2: a processor, its memory or a library of one of them is "
                           "faulty");
    ls_context_close(&ctx);
    return NULL;
}

START_TEST(audits_find_a_fault)
{
    enum { N_RANKS = 3 };
    static run runs[N_RANKS];
    pthread_t threads[N_RANKS];
    local_hub *hub = local_hub_open(N_RANKS, NULL);
    for (int i = 0; i < N_RANKS; i++) {
        runs[i] = (run){ .s = &settings[0],
                         .hub = hub,
                         .rank = i,
                         .n_ranks = N_RANKS,
                         .shards = 6,
                         .threads = 1,
                         .audit_every = _i };
        ck_assert_int_eq(pthread_create(&threads[i], NULL, step_with_fault, &runs[i]), 0);
    }
    for (int i = 0; i < N_RANKS; i++) pthread_join(threads[i], NULL);
    local_hub_close(&hub);
}
END_TEST

TEST_PROGRAM(ranks)
{
    const int loops = run_loop("ranks: bits", ranks_have_the_bits_of_one, N_SETTINGS * N_LAYOUTS);
    const int audits = run_loop("ranks: audits", audits_find_a_fault, 2);
    return both(both(loops, audits), RUN_SUITE("ranks", each_shard_requires_a_sample));
}
