/* test_rank_controls.c: wrong rules of training in ranks, each of which must change the weights
 * between 1 and 3 ranks. A small program does what Lockstep does (plan/shard.h), by separate passes
 * over the parts of each batch; with the right rules it has the weights of Lockstep for all numbers
 * of ranks. So the tests that compare numbers of ranks detect each of these errors. */
#include "sharded_net.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SHARDS = 8, MAX_STEPS = 3 }; /* the last batch is short */

typedef struct rules {
    const char *name;
    enum { TREE, RING, ARRIVAL } order; /* of the sum */
    bool by_rank_norms, by_rank_draws, mean_of_means, rounds_messages;
} rules;

static const rules right = { "the rules of Lockstep" };
static const rules wrong[] = {
    { "sums of ranks are added in a ring", .order = RING },
    { "sums of ranks are added as they arrive", .order = ARRIVAL },
    { "batch norms have statistics of a rank", .by_rank_norms = true },
    { "draws are named by rank and sample of the rank", .by_rank_draws = true },
    { "means of ranks are averaged", .mean_of_means = true },
    { "messages are rounded to bf16", .rounds_messages = true },
};
enum { N_WRONG = sizeof wrong / sizeof wrong[0] };

/* A part of a batch that is computed in one pass. */
typedef struct part {
    int rank;
    int64_t begin, end, first_of_rank; /* samples */
} part;

static int64_t first_sample(int64_t n, int rank, int n_ranks)
{
    return n * (SHARDS * rank / n_ranks) / SHARDS;
}

static int rank_of(int shard, int n_ranks)
{
    int rank = 0;
    while (SHARDS * (rank + 1) / n_ranks <= shard) rank++;
    return rank;
}

static part part_at(const rules *r, int i, int64_t n, int n_ranks)
{
    const int rank = r->by_rank_norms ? i : rank_of(i, n_ranks);
    const int64_t first = first_sample(n, rank, n_ranks);
    if (r->by_rank_norms) return (part){ rank, first, first_sample(n, rank + 1, n_ranks), first };
    return (part){ rank, n * i / SHARDS, n * (i + 1) / SHARDS, first };
}

/* Draws which images are inverted. */
static void invert_some(const rules *r, ls_batch *b, const part *p, int step)
{
    const int64_t bytes = SIZE * SIZE * 3;
    uint8_t *pixels = ls_tensor_data((ls_tensor *)b->images);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t sample = p->begin + i - (r->by_rank_draws ? p->first_of_rank : 0);
        uint32_t words[4];
        ls_random_words(5,
                        &(ls_draw){ .stream = LS_RANDOM_USER,
                                    .layer = r->by_rank_draws ? (uint32_t)p->rank : 0,
                                    .step = (uint64_t)step,
                                    .sample = (uint64_t)sample },
                        words);
        for (int64_t k = 0; words[0] & 1 && k < bytes; k++) pixels[i * bytes + k] ^= 255;
    }
}

/* ---- Sums: rows [n_rows, n], into the first ---- */

static float rounded(float value)
{
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    word = (word + 0x7fff + (word >> 16 & 1)) & 0xffff0000; /* finite, to nearest even */
    memcpy(&value, &word, sizeof word);
    return value;
}

static void add(float *to, const float *from, int64_t n, bool rounds)
{
    for (int64_t i = 0; i < n; i++) to[i] += rounds ? rounded(from[i]) : from[i];
}

static void add_in_tree(const rules *r, float *rows, const part *parts, int n_rows, int64_t n)
{
    for (int step = 1; step < n_rows; step *= 2)
        for (int i = 0; i + step < n_rows; i += 2 * step)
            add(rows + i * n, rows + (i + step) * n, n,
                r->rounds_messages && parts[i].rank != parts[i + step].rank);
}

/* Each rank's rows one after the other, then the ranks: in a ring the sum of the first chunk begins
 * at rank 1; the last rank is the first to arrive. */
static void add_ranks(const rules *r, float *rows, const part *parts, int n_ranks, int64_t n)
{
    float *sums[SHARDS] = { NULL };
    for (int i = 0; i < SHARDS; i++) {
        float **sum = &sums[parts[i].rank];
        if (*sum)
            add(*sum, rows + i * n, n, false);
        else
            *sum = rows + i * n;
    }
    const int first = r->order == RING ? 1 % n_ranks : n_ranks - 1;
    for (int k = 1; k < n_ranks; k++)
        add(sums[first], sums[r->order == RING ? (first + k) % n_ranks : first - k], n, false);
    memmove(rows, sums[first], (size_t)n * sizeof *rows);
}

/* ---- Steps ---- */

static float weight_of(const setting *s, const ls_batch *b)
{
    double sum = 0;
    const int32_t *labels = ls_tensor_data_const(b->labels);
    for (int64_t i = 0; i < b->n; i++) sum += (double)class_weight(s, labels[i]);
    return (float)sum;
}

/* The gradients of a part times its weight, then the weight. */
static void put_gradients(const rules *r, const setting *s, trained *t, const part *p, int step,
                          step_values *out)
{
    ls_batch b = part_of(t->ctx, s, step, p->begin, p->end);
    const float weight = weight_of(s, &b);
    invert_some(r, &b, p, step);
    ck_assert_int_eq(ls_net_step(t->net, NULL, &b, 0), LS_OK);
    out->n = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(t->net); i++) {
        const ls_parameter_info info = ls_net_parameter_at(t->net, i);
        if (info.gradient) put_tensor(out, info.gradient);
    }
    for (int64_t i = 0; i < out->n; i++) out->of[i] *= weight;
    put(out, &weight, 1);
    close_batch(&b);
}

static void update(trained *t, const float *gradients)
{
    for (int64_t i = 0; i < ls_net_parameter_count(t->net); i++) {
        ls_tensor *to = ls_net_parameter_at(t->net, i).gradient;
        if (!to) continue;
        ck_assert_int_eq(ls_tensor_write(to, gradients, ls_tensor_bytes(to)), LS_OK);
        gradients += ls_tensor_element_count(to);
    }
    ck_assert_int_eq(ls_optimizer_step(t->opt, LR), LS_OK);
}

/* Divides the rows of each rank by the sum of its weights, which may be 0: labels that are -1. */
static void take_means(float *rows, const part *parts, int64_t n)
{
    float weights[SHARDS] = { 0 };
    for (int i = 0; i < SHARDS; i++) weights[parts[i].rank] += rows[i * n + n - 1];
    for (int i = 0; i < SHARDS; i++) {
        const float divisor = weights[parts[i].rank] == 0 ? 1 : weights[parts[i].rank];
        for (int64_t k = 0; k < n; k++) rows[i * n + k] /= divisor;
    }
}

static void step_in_ranks(const rules *r, const setting *s, trained *t, int n_ranks, int step)
{
    static float rows[SHARDS * MAX_VALUES];
    static step_values leaf;
    part parts[SHARDS];
    const int n_rows = r->by_rank_norms ? n_ranks : SHARDS;
    for (int i = 0; i < n_rows; i++) {
        parts[i] = part_at(r, i, batch_sizes[step], n_ranks);
        put_gradients(r, s, t, &parts[i], step, &leaf);
        memcpy(rows + i * leaf.n, leaf.of, (size_t)leaf.n * sizeof *rows);
    }
    if (r->mean_of_means) take_means(rows, parts, leaf.n);
    if (r->order == TREE)
        add_in_tree(r, rows, parts, n_rows, leaf.n);
    else
        add_ranks(r, rows, parts, n_ranks, leaf.n);
    const float divisor = r->mean_of_means ? (float)n_ranks : rows[leaf.n - 1];
    for (int64_t i = 0; i < leaf.n; i++) rows[i] /= divisor;
    update(t, rows);
}

static void put_weights(const trained *t, step_values *out)
{
    out->n = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(t->net); i++) {
        const ls_parameter_info info = ls_net_parameter_at(t->net, i);
        if (info.gradient) put_tensor(out, info.value);
    }
}

static const setting *const trained_setting = &settings[1]; /* with class weights */

static void train(const rules *r, int n_ranks, step_values *weights)
{
    trained t = open_net(trained_setting, 1, BATCH, 1);
    for (int step = 0; step < MAX_STEPS; step++)
        step_in_ranks(r, trained_setting, &t, n_ranks, step);
    put_weights(&t, weights);
    ls_context_close(&t.ctx);
}

static void train_by_lockstep(step_values *weights)
{
    trained t = open_net(trained_setting, SHARDS, BATCH, 1);
    for (int step = 0; step < MAX_STEPS; step++) {
        ls_batch b = part_of(t.ctx, trained_setting, step, 0, batch_sizes[step]);
        invert_some(&right, &b, &(part){ .end = b.n }, step);
        ck_assert_int_eq(ls_net_step(t.net, t.opt, &b, LR), LS_OK);
        close_batch(&b);
    }
    put_weights(&t, weights);
    ls_context_close(&t.ctx);
}

/* ---- Tests ---- */

static step_values of_one, of_ranks;

START_TEST(right_rules_have_the_weights_of_lockstep)
{
    train_by_lockstep(&of_one);
    for (int n = 1; n <= SHARDS; n++) {
        char what[32];
        snprintf(what, sizeof what, "%d ranks", n);
        train(&right, n, &of_ranks);
        expect_same(&of_ranks, &of_one, what);
    }
}
END_TEST

START_TEST(a_wrong_rule_changes_the_weights)
{
    train(&wrong[_i], 1, &of_one);
    train(&wrong[_i], 3, &of_ranks);
    for (int64_t i = 0; i < of_ranks.n; i++) ck_assert(isfinite(of_ranks.of[i]));
    ck_assert_int_eq(of_ranks.n, of_one.n);
    ck_assert_msg(memcmp(of_ranks.of, of_one.of, (size_t)of_one.n * sizeof(float)) != 0,
                  "%s: 3 ranks have the weights of 1", wrong[_i].name);
}
END_TEST

TEST_PROGRAM(rank_controls)
{
    const int controls = run_loop("ranks: wrong rules", a_wrong_rule_changes_the_weights, N_WRONG);
    return both(controls, RUN_SUITE("ranks: rules", right_rules_have_the_weights_of_lockstep));
}
