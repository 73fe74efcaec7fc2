/* test_shards.c: a training batch cut into shards: against separate passes over its parts, whose
 * results are added by the rule of cpu/tree.h; on several numbers of threads; what can't be cut. */
#include "sharded_net.h"
#include "cpu/tree.h"
#include "nn/net/net_trace.h"
#include "optim/optimizer.h"
#include <stdio.h>
#include <string.h>

/* ---- The separate passes ---- */

/* The results of a shard: gradients and running statistics, in the order of the net, then loss and
 * top-1 count. */
static void put_results(step_values *v, const ls_net *net, bool buffers, float factor)
{
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(net, i);
        const int64_t begin = v->n;
        if ((p.gradient == NULL) == buffers) put_tensor(v, p.gradient ? p.gradient : p.value);
        for (int64_t j = begin; j < v->n; j++) v->of[j] *= factor;
    }
}

/* Sets gradients or buffers from values. */
static const float *set_tensors(ls_net *net, bool buffers, const float *from)
{
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(net, i);
        ls_tensor *to = buffers ? p.value : p.gradient;
        if ((p.gradient == NULL) != buffers) continue;
        ck_assert_int_eq(ls_tensor_write(to, from, ls_tensor_bytes(to)), LS_OK);
        from += ls_tensor_element_count(to);
    }
    return from;
}

static bool is_updated(const setting *s, const char *buffer)
{
    return !s->frozen || strncmp(buffer, "bn2.", 4) != 0;
}

/* Only buffers that steps update are set to 0. */
static void clear_statistics(const setting *s, ls_net *net)
{
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(net, i);
        if (p.kind == LS_PARAMETER_BUFFER && is_updated(s, p.name))
            ck_assert_int_eq(ls_tensor_fill(p.value, 0), LS_OK);
    }
}

static float weight_of(const setting *s, const ls_batch *b)
{
    double sum = 0;
    const int32_t *labels = ls_tensor_data_const(b->labels);
    for (int64_t i = 0; i < b->n; i++) sum += (double)class_weight(s, labels[i]);
    return s->soft ? (float)b->n : (float)sum;
}

/* Adds rows by the rule of cpu/tree.h; rows without samples are left out. Returns the row of the
 * sum. */
static const float *add_rows(float *rows, const bool *present, int n_rows, int64_t n)
{
    bool there[64], all = true;
    for (int i = 0; i < n_rows; i++) all &= there[i] = present[i];
    if (all) ls__tree_sum(rows, rows + n, n, n_rows, n);
    for (int step = 1; step < n_rows && !all; step *= 2)
        for (int row = 0; row + step < n_rows; row += 2 * step) {
            float *to = rows + row * n, *from = to + step * n;
            for (int64_t i = 0; i < n && there[row + step]; i++)
                to[i] = there[row] ? to[i] + from[i] : from[i];
            there[row] |= there[row + step];
        }
    return rows;
}

/* A step with shards of `t`, which has none. */
static void step_separately(const setting *s, trained *t, int n_shards, int step, step_values *out)
{
    static float rows[8 * MAX_VALUES];
    static step_values before, leaf;
    bool present[8] = { false };
    int64_t n_present = 0, width = 0, n_gradients = 0;
    before.n = 0;
    put_results(&before, t->net, true, 1);
    const int64_t n = batch_sizes[step];
    for (int shard = 0; shard < n_shards; shard++) {
        const int64_t begin = n * shard / n_shards, end = n * (shard + 1) / n_shards;
        if (begin == end) continue;
        ls_batch b = part_of(t->ctx, s, step, begin, end);
        double loss, top1;
        set_tensors(t->net, true, before.of);
        clear_statistics(s, t->net);
        ck_assert_int_eq(ls_net_step(t->net, NULL, &b, 0), LS_OK);
        ck_assert_int_eq(ls_net_loss(t->net, &loss), LS_OK);
        ck_assert_int_eq(ls_net_metric(t->net, "top1", &top1), LS_OK);
        const float w = weight_of(s, &b);
        leaf.n = 0;
        put_results(&leaf, t->net, false, w);
        n_gradients = leaf.n;
        put_results(&leaf, t->net, true, 1);
        put(&leaf, (const float[]){ w, w * (float)loss, (float)(top1 * (double)b.n) }, 3);
        width = leaf.n;
        memcpy(rows + shard * width, leaf.of, (size_t)width * sizeof(float));
        present[shard] = true;
        n_present++;
        close_batch(&b);
    }
    float *sum = (float *)add_rows(rows, present, n_shards, width), *counts = sum + width - 3;
    const float divisor = counts[0] == 0 ? 1 : counts[0];
    for (int64_t i = 0; i < n_gradients; i++) sum[i] /= divisor;
    set_tensors(t->net, false, sum);
    float *statistic = sum + n_gradients;
    int64_t at = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(t->net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(t->net, i);
        if (p.gradient) continue;
        const double momentum = (double)(strncmp(p.name, "bn2", 3) == 0 ? 0.3f : 0.1f);
        for (int64_t j = 0; j < ls_tensor_element_count(p.value); j++, at++)
            statistic[at] = is_updated(s, p.name)
                                ? (float)((1 - momentum) * (double)before.of[at] +
                                          (double)statistic[at] / (double)n_present)
                                : before.of[at];
    }
    set_tensors(t->net, true, statistic);
    if (s->accumulate > 1 && step % s->accumulate == 0)
        ck_assert_int_eq(ls_optimizer_accumulate(t->opt), LS_OK);
    else
        ck_assert_int_eq(ls_optimizer_step(t->opt, LR), LS_OK);
    if (t->of_biases) ck_assert_int_eq(ls_optimizer_step(t->of_biases, LR), LS_OK);
    put_net(out, t, (double)(counts[1] / divisor), (double)counts[2] / (double)n);
}

/* ---- Tests ---- */

static const int shard_counts[] = { 2, 3, 4, 8 };
enum { N_COUNTS = sizeof shard_counts / sizeof shard_counts[0] };

START_TEST(a_step_is_the_sum_of_separate_passes)
{
    static step_values got, wanted;
    const setting *s = &settings[_i / N_COUNTS];
    const int n = shard_counts[_i % N_COUNTS];
    trained apart = open_net(s, 1, BATCH / n, 2);
    for (int threads = 1; threads <= 3; threads++) {
        trained t = open_net(s, n, BATCH, threads);
        for (int step = 0; step < STEPS; step++) {
            char what[64];
            snprintf(what, sizeof what, "%s, %d shards, step %d", s->name, n, step);
            got.n = 0;
            step_with_shards(s, &t, step, &got);
            if (threads == 1) {
                wanted.n = 0;
                step_separately(s, &apart, n, step, &wanted);
                expect_same(&got, &wanted, what);
            }
        }
        /* `wanted` is what all numbers of threads end with. */
        expect_same(&got, &wanted, "threads");
        ls_context_close(&t.ctx);
    }
    ls_context_close(&apart.ctx);
}
END_TEST

START_TEST(one_shard_is_no_shard)
{
    static step_values values_of[2];
    const setting *s = &settings[1];
    for (int shards = 0; shards < 2; shards++) {
        trained t = open_net(s, shards, BATCH, 2);
        for (int step = 0; step < STEPS; step++) {
            values_of[shards].n = 0;
            step_with_shards(s, &t, step, &values_of[shards]);
        }
        ck_assert_ptr_nonnull(ls_net_output(t.net, "output"));
        ls_context_close(&t.ctx);
    }
    expect_same(&values_of[1], &values_of[0], "one shard");
}
END_TEST

/* ---- Draws ---- */

enum { DRAWS = 12, WIDE = 5 };

/* Sample i reads its own WIDE weights alone, so that their gradient is 0 where it is dropped. */
static ls_node *drops(ls_graph *g, ls_node *x, const void *options)
{
    const int kind = *(const int *)options;
    x = kind == 0   ? ls_dropout(g, x, 0.5f)
        : kind == 1 ? ls_stochastic_depth(g, x, 0.5f, LS_STOCHASTIC_DEPTH_ROW)
                    : ls_stochastic_depth(g, x, 0.5f, LS_STOCHASTIC_DEPTH_BATCH);
    return ls_linear(g, "fc", x, 2, NULL);
}

static void dropped(int kind, int shards, bool out[DRAWS * WIDE])
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 3, .shards = shards });
    const ls_shape shape = LS_SHAPE(DRAWS, DRAWS * WIDE);
    const ls_net_config config = { .input = { .image = { LS_F32, shape }, .n_classes = 2 },
                                   .loss = { LS_LOSS_CROSS_ENTROPY } };
    ls_net *net = ls_net_build(ctx, drops, &kind, &config);
    expect_ok(ctx);
    float x[DRAWS * DRAWS * WIDE] = { 0 }, gradient[2 * DRAWS * WIDE];
    const int32_t labels[DRAWS] = { 0 };
    for (int i = 0; i < DRAWS; i++)
        for (int j = 0; j < WIDE; j++) x[i * DRAWS * WIDE + i * WIDE + j] = 1;
    const ls_batch b = { .images = ls_tensor_from_data(ctx, LS_F32, shape, x),
                         .labels = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(DRAWS), labels),
                         .step = 7 };
    ck_assert_int_eq(ls_net_step(net, NULL, &b, 0), LS_OK);
    const ls_tensor *fc = ls_net_parameter_at(net, 0).gradient;
    ck_assert_int_eq(ls_tensor_read(fc, gradient, sizeof gradient), LS_OK);
    for (int i = 0; i < DRAWS * WIDE; i++) out[i] = gradient[i] == 0;
    ls_context_close(&ctx);
}

START_TEST(draws_are_those_of_the_whole_batch)
{
    bool whole[DRAWS * WIDE], cut[DRAWS * WIDE];
    int n_dropped = 0;
    dropped(_i, 1, whole);
    for (int i = 0; i < DRAWS * WIDE; i++) n_dropped += whole[i];
    ck_assert(_i == 2 || (n_dropped > 0 && n_dropped < DRAWS * WIDE));
    for (int shards = 2; shards <= 4; shards++) {
        dropped(_i, shards, cut);
        ck_assert_mem_eq(cut, whole, sizeof whole);
    }
}
END_TEST

/* ---- One list of calls ---- */

/* Numbers of calls by name. */
typedef struct counts {
    int convs, sums, updates, inputs, moments, statistics;
} counts;

static void count(counts *n, const ls__trace_op *op)
{
    n->convs += strcmp(op->kind, "conv2d") == 0;
    n->sums += strcmp(op->kind, "shard_sum") == 0;
    n->updates += strcmp(op->kind, "sgd") == 0;
    n->inputs += strcmp(op->kind, "copy") == 0 && strcmp(op->name, "shard") != 0;
    n->moments += strcmp(op->kind, "norm_moments") == 0;
}

static void trace_step(const setting *s, trained *t, step_values *out)
{
    ls_batch b = part_of(t->ctx, s, 0, 0, BATCH);
    ls__trace_op op;
    counts n = { 0 };
    ck_assert_int_eq(ls__net_step_begin(t->net, ls__optimizer_update_of(t->opt, &b), &b, LR),
                     LS_OK);
    while (ls__net_step_op(t->net, &op)) {
        count(&n, &op);
        if (strcmp(op.kind, "copy") == 0 && strcmp(op.name, "input") == 0) {
            ls__trace_value value;
            ls__net_step_value(t->net, &op, 0, &value);
            const size_t image = SIZE * SIZE * 3;
            const uint8_t *all = ls_tensor_data_const(b.images);
            ck_assert_ptr_eq(value.memory, all + (size_t)(n.inputs / 2) * 6 * image);
        }
        /* A synchronised norm reads the sums of all shards. */
        if (strcmp(op.kind, "norm_statistics") == 0)
            ck_assert_int_ge(n.moments, 4 * (1 + n.statistics++ / 4));
        ck_assert_int_eq(ls__net_step_next(t->net), LS_OK);
    }
    ck_assert_int_eq(n.convs, 4 * 3);
    ck_assert_int_eq(n.inputs, 4 * 2);
    ck_assert_int_eq(n.sums, 4 * 3);
    ck_assert_int_eq(n.updates, 1);
    ck_assert_int_eq(n.moments, s->synced ? 4 * 3 : 0);
    double loss, top1;
    ck_assert_int_eq(ls_net_loss(t->net, &loss), LS_OK);
    ck_assert_int_eq(ls_net_metric(t->net, "top1", &top1), LS_OK);
    put_net(out, t, loss, top1);
    close_batch(&b);
}

START_TEST(a_trace_shows_each_shard)
{
    const setting *s = &settings[_i * FIRST_SYNCED];
    static step_values traced, wanted;
    traced.n = wanted.n = 0;
    trained t = open_net(s, 4, BATCH, 1);
    step_with_shards(s, &t, 0, &wanted);
    ls_context_close(&t.ctx);
    t = open_net(s, 4, BATCH, 1);
    trace_step(s, &t, &traced);
    ls_context_close(&t.ctx);
    expect_same(&traced, &wanted, s->name);
}
END_TEST

/* ---- Errors ---- */

static ls_node *sums_of_losses(ls_graph *g, ls_node *x, const void *options)
{
    x = small(g, x, NULL);
    ls_node *label = ls_input(g, "label", (ls_spec){ LS_I32, LS_SHAPE(BATCH) });
    ls_node *loss = ls_cross_entropy(g, x, label, NULL);
    if (*(const bool *)options) {
        ls_loss(g, "sum", ls_add(g, loss, loss), 1);
    } else {
        ls_loss(g, "a", loss, 1);
        ls_loss(g, "b", ls_cross_entropy(g, x, label, NULL), 1);
    }
    return x;
}

START_TEST(what_cannot_be_cut_is_refused)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .shards = -1 });
    ck_assert_int_eq(ls_context_status(ctx), LS_ERR_INVALID);
    ls_context_close(&ctx);
    ctx = ls_context_open(&(ls_context_config){ .shards = 5 });
    ls_net_config config = small_config(BATCH);
    ck_assert_ptr_null(ls_net_build(ctx, small, NULL, &config));
    expect_error(ctx, LS_ERR_INVALID, "batch size is 24", "5 shards");
    config = small_config(25);
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    expect_ok(ctx);
    data d = make_data(ctx, 25, 8);
    ck_assert_int_eq(ls_net_feed(net, "input", d.images), LS_OK);
    ck_assert_int_eq(ls_net_feed(net, "label", d.labels), LS_OK);
    expect_failure(ls_net_forward(net, LS_MODE_TRAIN), ctx, LS_ERR_UNSUPPORTED, "ls_net_forward",
                   "5 shards", "ls_net_step");
    ck_assert_int_eq(ls_net_step(net, NULL, &d.batch, 0), LS_OK);
    ck_assert_ptr_null(ls_net_output(net, "output"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "ls_net_output 'output'", "5 shards");
    ck_assert_int_eq(ls_net_evaluate(net, &d.batch), LS_OK);
    ck_assert_ptr_nonnull(ls_net_output(net, "output"));
    ls_context_close(&ctx);

    ctx = ls_context_open(&(ls_context_config){ .shards = 2 });
    config = small_config(BATCH);
    config.loss = (ls_loss_config){ 0 };
    for (int sum = 0; sum < 2; sum++) {
        ck_assert_ptr_null(ls_net_build(ctx, sums_of_losses, &(bool){ sum }, &config));
        if (sum)
            expect_error(ctx, LS_ERR_UNSUPPORTED, "loss 'sum'", "add", "2 shards");
        else
            expect_error(ctx, LS_ERR_UNSUPPORTED, "loss 'a'", "2 shards", "the only loss");
    }
    /* Inference has no shards. */
    config.inference = true;
    config.input.image.shape.dims[0] = 3;
    net = ls_net_build(ctx, small, NULL, &config);
    expect_ok(ctx);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(shards)
{
    const int loops = run_loop("shards: separate passes", a_step_is_the_sum_of_separate_passes,
                               FIRST_SYNCED * N_COUNTS);
    const int draws = run_loop("shards: draws", draws_are_those_of_the_whole_batch, 3);
    const int traces = run_loop("shards: traces", a_trace_shows_each_shard, 2);
    const int rest = RUN_SUITE("shards", one_shard_is_no_shard, what_cannot_be_cut_is_refused);
    return both(both(loops, draws), both(traces, rest));
}
