/* test_trace.c: a step op by op is the step that ls_net_step does, its operands can be read,
 * and a fault hits the one element that it names. */
#include "../suite.h"
#include "nn/net/net_trace.h"
#include "optim/optimizer.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4, SIZE = 8, CLASSES = 5, MAX_OPS = 128 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 16, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2, .stride = 2 });
    x = ls_relu(g, ls_conv2d(g, "conv2", x, 32, &(ls_conv2d_config){ .kernel = 3, .stride = 2 }));
    x = ls_dropout(g, ls_global_avg_pool(g, x), 0.25f);
    return ls_linear(g, "fc", x, CLASSES, NULL);
}

typedef struct side {
    ls_context *ctx;
    ls_net *net;
    ls_optimizer *opt;
    ls_tensor *images, *labels;
    ls_batch batch;
} side;

static ls_precision precision; /* of all nets */

static side open_side(int threads)
{
    side s = { .ctx = ls_context_open(&(ls_context_config){ .seed = 3, .threads = threads }) };
    const ls_net_config config = {
        .input = { .image = { LS_U8, LS_SHAPE(N, SIZE, SIZE, 3) }, .n_classes = CLASSES },
        .loss = { LS_LOSS_CROSS_ENTROPY },
        .precision = precision,
    };
    s.net = ls_net_build(s.ctx, model, NULL, &config);
    s.opt = ls_sgd(s.net, &(ls_sgd_config){ .momentum = 0.9f, .clip_norm = 1 });
    s.images = ls_tensor_open(s.ctx, LS_U8, LS_SHAPE(N, SIZE, SIZE, 3));
    s.labels = ls_tensor_open(s.ctx, LS_I32, LS_SHAPE(N));
    ck_assert_msg(ls_context_status(s.ctx) == LS_OK, "%s", ls_context_message(s.ctx));
    uint8_t *pixels = ls_tensor_data(s.images);
    for (int i = 0; i < N * SIZE * SIZE * 3; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < N; i++) ((int32_t *)ls_tensor_data(s.labels))[i] = i % CLASSES;
    s.batch = (ls_batch){ .images = s.images, .labels = s.labels, .n = N };
    return s;
}

static void begin(side *s)
{
    const ls_status status = ls__net_step_begin(s->net, &s->opt->update, &s->batch, 0.1);
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(s->ctx));
}

static void expect_same_weights(const side *a, const side *b, bool same)
{
    ls_step_digest da, db;
    ck_assert_int_eq(ls_net_digest(a->net, &a->batch, &da), LS_OK);
    ck_assert_int_eq(ls_net_digest(b->net, &b->batch, &db), LS_OK);
    ck_assert_int_eq(ls_digest_equal(da.weights, db.weights), same);
}

/* The elements, to be freed. */
static void *elements(const side *s, const ls__trace_value *value)
{
    const size_t bytes = (size_t)value->count * ls_dtype_bytes(value->dtype);
    void *out = malloc(bytes);
    ck_assert_int_eq(ls__trace_read(s->ctx, value, out), LS_OK);
    return out;
}

START_TEST(op_by_op_is_the_step)
{
    side a = open_side(1), b = open_side(3);
    ls__trace_op op;
    for (int step = 0; step < 3; step++) {
        ck_assert_int_eq(ls_net_step(a.net, a.opt, &a.batch, 0.1), LS_OK);
        begin(&b);
        int n = 0;
        for (; ls__net_step_op(b.net, &op); n++) {
            ck_assert_int_eq(op.number, n);
            ck_assert_int_eq(ls__net_step_next(b.net), LS_OK);
        }
        ck_assert_int_gt(n, 20);
        ck_assert_str_eq(op.kind, "sgd");
        expect_same_weights(&a, &b, true);
        a.batch.step = b.batch.step = step + 1;
    }
    ls_context_close(&a.ctx);
    ls_context_close(&b.ctx);
}
END_TEST

/* One that is left half-way, then another whole one. */
START_TEST(a_walk_may_be_left)
{
    side a = open_side(2);
    begin(&a);
    for (int i = 0; i < 9; i++) ck_assert_int_eq(ls__net_step_next(a.net), LS_OK);
    ck_assert_int_eq(ls_net_step(a.net, a.opt, &a.batch, 0.1), LS_OK);
    begin(&a);
    ls__trace_op op;
    while (ls__net_step_op(a.net, &op)) ck_assert_int_eq(ls__net_step_next(a.net), LS_OK);
    ck_assert_int_eq(ls__net_step_next(a.net), LS_OK); /* past the end: nothing */
    ck_assert_int_eq(ls_optimizer_step_count(a.opt), 2);
    ls_context_close(&a.ctx);
}
END_TEST

START_TEST(copies_write_what_they_read)
{
    side a = open_side(2);
    begin(&a);
    ls__trace_op op;
    int n_copies = 0;
    while (ls__net_step_op(a.net, &op)) {
        ls__trace_value in, out;
        ls__net_step_value(a.net, &op, 0, &in);
        void *before = strcmp(op.kind, "copy") == 0 ? elements(&a, &in) : NULL;
        ck_assert_int_eq(ls__net_step_next(a.net), LS_OK);
        if (!before) continue;
        ls__net_step_value(a.net, &op, 1, &out);
        ck_assert(in.input && !in.output && out.output && !out.input);
        ck_assert_int_eq(in.count, out.count);
        void *after = elements(&a, &out);
        ck_assert_mem_eq(before, after, (size_t)in.count * ls_dtype_bytes(in.dtype));
        n_copies++;
        free(after);
        free(before);
    }
    ck_assert_int_eq(n_copies, 2);
    ls_context_close(&a.ctx);
}
END_TEST

/* Looks an operand up by op, layer and role. */
static bool has_value(const ls_net *net, const char *kind, const char *name, const char *role,
                      const char *parameter, bool in_place)
{
    ls__trace_op op;
    if (!ls__net_step_op(net, &op) || strcmp(op.kind, kind) != 0 || strcmp(op.name, name) != 0)
        return false;
    for (int i = 0; i < op.n_values; i++) {
        ls__trace_value v;
        ls__net_step_value(net, &op, i, &v);
        if (strcmp(v.role, role) == 0 && (v.parameter == NULL) == (parameter == NULL) &&
            (!parameter || strcmp(v.parameter, parameter) == 0) &&
            (v.input && v.output) == in_place)
            return true;
    }
    return false;
}

START_TEST(operands_have_names)
{
    static const struct {
        const char *kind, *name, *role, *parameter;
        bool in_place;
    } wanted[] = {
        { "copy", "input", "batch", NULL, false },
        { "copy", "label", "copy", NULL, false },
        { "conv2d", "conv1", "w", "conv1.weight", false },
        { "batch_norm", "bn1", "running_var", "bn1.running_var", true },
        { "linear", "fc", "b", "fc.bias", false },
        { "conv2d_backward_weights", "conv2", "dw", "conv2.weight", false },
        { "l2_norm", "optimizer", "x", "conv1.weight", false },
        { "sgd", "optimizer", "momentum", "conv2.weight", true },
        { "sgd", "optimizer", "gradient", "fc.bias", false },
        { "sgd", "optimizer", "norm", NULL, false },
    };
    enum { N_WANTED = sizeof(wanted) / sizeof(wanted[0]) };
    side a = open_side(2);
    begin(&a);
    bool found[N_WANTED] = { false };
    ls__trace_op op;
    while (ls__net_step_op(a.net, &op)) {
        for (int i = 0; i < N_WANTED; i++)
            found[i] |= has_value(a.net, wanted[i].kind, wanted[i].name, wanted[i].role,
                                  wanted[i].parameter, wanted[i].in_place);
        ck_assert_int_eq(ls__net_step_next(a.net), LS_OK);
    }
    for (int i = 0; i < N_WANTED; i++)
        ck_assert_msg(found[i], "no %s of %s '%s'", wanted[i].role, wanted[i].kind, wanted[i].name);
    ls_context_close(&a.ctx);
}
END_TEST

/* How many bytes of an op's outputs differ between the two; *element is the first element. */
static int64_t count_different(const side *a, const side *b, const ls__trace_op *op,
                               int64_t *element)
{
    int64_t n = 0, base = 0;
    for (int i = 0; i < op->n_values; i++) {
        ls__trace_value va, vb;
        ls__net_step_value(a->net, op, i, &va);
        ls__net_step_value(b->net, op, i, &vb);
        if (!va.output) continue;
        const size_t size = ls_dtype_bytes(va.dtype);
        char *ea = elements(a, &va), *eb = elements(b, &vb);
        for (int64_t j = 0; j < va.count; j++)
            if (memcmp(ea + (size_t)j * size, eb + (size_t)j * size, size) != 0 && n++ == 0)
                *element = base + j;
        const bool is_integer = va.dtype == LS_I32 || va.dtype == LS_I64 || va.dtype == LS_U8;
        if (!is_integer || strcmp(op->kind, "copy") == 0) base += va.count;
        free(ea);
        free(eb);
    }
    return n;
}

/* How many elements of each op a fault may hit; returns how many ops there are. */
static int count_elements(int64_t out[MAX_OPS])
{
    side a = open_side(1);
    ls__trace_op op;
    int n = 0;
    begin(&a);
    for (; n < MAX_OPS && ls__net_step_op(a.net, &op); n++) {
        out[n] = ls__net_injectable_elements(a.net, &op);
        ck_assert_int_eq(ls__net_step_next(a.net), LS_OK);
    }
    ls_context_close(&a.ctx);
    return n;
}

/* The fault is injected into every op that writes something, right after it has run; the values
 * before are unchanged. */
START_TEST(a_fault_hits_one_element)
{
    static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_BF16,
                                               LS_PRECISION_F16 };
    precision = precisions[_i];
    int64_t n_elements[MAX_OPS];
    const int n_ops = count_elements(n_elements);
    int n_hit = 0;
    for (int target = 0; target < n_ops; target++) {
        if (n_elements[target] == 0) continue;
        side a = open_side(1), b = open_side(2);
        const ls__injected_fault fault = { .op = target, .element = n_elements[target] * 2 / 3 };
        ls__net_set_injected_fault(b.net, &fault);
        begin(&a);
        begin(&b);
        for (int i = 0; i <= target; i++) {
            ls__trace_op op;
            ck_assert(ls__net_step_op(a.net, &op));
            ck_assert_int_eq(ls__net_step_next(a.net), LS_OK);
            ck_assert_int_eq(ls__net_step_next(b.net), LS_OK);
            int64_t element = -1;
            const int64_t n_different = count_different(&a, &b, &op, &element);
            ck_assert_msg(n_different == (i == target), "op %d %s '%s': %lld elements differ",
                          op.number, op.kind, op.name, (long long)n_different);
            if (i == target) ck_assert_int_eq(element, fault.element);
        }
        n_hit++;
        ls_context_close(&a.ctx);
        ls_context_close(&b.ctx);
    }
    ck_assert_int_gt(n_hit, 20);
    precision = LS_PRECISION_F32;
}
END_TEST

static void expect_refusal(ls__injected_fault fault, const char *part)
{
    side a = open_side(1);
    ls__net_set_injected_fault(a.net, &fault);
    ck_assert_int_eq(ls_net_step(a.net, a.opt, &a.batch, 0.1), LS_ERR_INVALID);
    ck_assert_msg(strstr(ls_context_message(a.ctx), part), "%s", ls_context_message(a.ctx));
    ls_context_close(&a.ctx);
}

START_TEST(faults_that_cannot_be_are_refused)
{
    expect_refusal((ls__injected_fault){ .op = 1000 }, "the step has");
    expect_refusal((ls__injected_fault){ .op = 0, .element = N * SIZE * SIZE * 3 }, "copy 'input'");
    expect_refusal((ls__injected_fault){ .op = 0, .element = -1 }, "element -1");
    expect_refusal((ls__injected_fault){ .op = 1 }, "'label', which has 0 elements"); /* integers */
}
END_TEST

START_TEST(a_fault_belongs_to_one_step)
{
    side a = open_side(1), b = open_side(1);
    ls__net_set_injected_fault(
        b.net, &(ls__injected_fault){ .epoch = 1, .step = 1, .op = 2, .element = 5 });
    static const struct {
        int64_t epoch, step;
        bool same;
    } steps[] = { { 0, 0, true }, { 0, 1, true }, { 1, 0, true }, { 1, 1, false } };
    for (int i = 0; i < 4; i++) {
        a.batch.epoch = b.batch.epoch = steps[i].epoch;
        a.batch.step = b.batch.step = steps[i].step;
        ck_assert_int_eq(ls_net_step(a.net, a.opt, &a.batch, 0.1), LS_OK);
        ck_assert_int_eq(ls_net_step(b.net, b.opt, &b.batch, 0.1), LS_OK);
        expect_same_weights(&a, &b, steps[i].same);
    }
    ls_context_close(&a.ctx);
    ls_context_close(&b.ctx);
}
END_TEST

TEST_PROGRAM(trace)
{
    const int faults = run_loop("faults", a_fault_hits_one_element, 3);
    return both(faults, RUN_SUITE("trace", op_by_op_is_the_step, a_walk_may_be_left,
                                  copies_write_what_they_read, operands_have_names,
                                  faults_that_cannot_be_are_refused, a_fault_belongs_to_one_step));
}
