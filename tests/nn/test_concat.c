/* test_concat.c: concatenations and products in a plan: which gradients are computed, what shares
 * memory, and that evaluation computes what training does. Values and gradients against PyTorch are
 * in tests/parity, against finite differences in test_gradients.c. */
#include "../suite.h"
#include "nn/net/net_state.h"
#include <lockstep/lockstep.h>
#include <string.h>

enum { BATCH = 2, SIDE = 5, CHANNELS = 3, CLASSES = 4 };

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *a = ls_conv2d(g, "a", x, 5, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    ls_node *b = ls_conv2d(g, "b", x, 5, NULL);
    ls_node *const parts[] = { x, ls_mul(g, a, ls_sigmoid(g, b)), x, b };
    x = ls_output(g, "all", ls_concat(g, 4, parts));
    x = ls_conv2d(g, "last", x, 8, NULL);
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_tensor *images, *labels;
} run;

static run open_run(ls_precision precision)
{
    run r = { .ctx = ls_context_open(&(ls_context_config){ .seed = 3, .threads = 2 }) };
    const ls_shape shape = LS_SHAPE(BATCH, SIDE, SIDE, CHANNELS);
    const int32_t labels[BATCH] = { 1, 3 };
    r.images = ls_tensor_open(r.ctx, LS_F32, shape);
    ls_tensor_random_normal(r.images, 1, 0, 1);
    r.labels = ls_tensor_from_data(r.ctx, LS_I32, LS_SHAPE(BATCH), labels);
    r.net = ls_net_build(r.ctx, model, NULL,
                         &(ls_net_config){ .input = { .image = { LS_F32, shape } },
                                           .loss = { LS_LOSS_CROSS_ENTROPY },
                                           .precision = precision });
    ck_assert_msg(r.net, "%s", ls_context_message(r.ctx));
    return r;
}

static void forward(run *r, ls_mode mode)
{
    ck_assert_int_eq(ls_net_feed(r->net, "input", r->images), LS_OK);
    ck_assert_int_eq(ls_net_feed(r->net, "label", r->labels), LS_OK);
    ck_assert_msg(ls_net_forward(r->net, mode) == LS_OK, "%s", ls_context_message(r->ctx));
}

static const ls__program *training_program(const run *r)
{
    for (int i = 0; i < r->net->cache.n_programs; i++)
        if (r->net->cache.programs[i]->gradients) return r->net->cache.programs[i];
    ck_abort_msg("there is no such program");
    return NULL;
}

static int count(const run *r, ls__op_kind kind)
{
    const ls__program *p = training_program(r);
    int n = 0;
    for (int i = 0; i < p->n_instructions; i++)
        n += !p->instructions[i].custom && p->instructions[i].op.kind == kind;
    return n;
}

START_TEST(only_wanted_gradients_are_computed)
{
    static const struct {
        const char *frozen;
        int n_sigmoid, n_mul, n_concat; /* of the backward pass */
    } cases[] = {
        { NULL, 1, 2, 2 }, { "a.*", 1, 1, 2 }, { "b.*", 0, 1, 1 }, { "[ab].*", 0, 0, 0 }
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run r = open_run(LS_PRECISION_F32);
        if (cases[i].frozen) ck_assert_int_eq(ls_net_freeze(r.net, cases[i].frozen), LS_OK);
        forward(&r, LS_MODE_TRAIN);
        ck_assert_int_eq(ls_net_backward(r.net), LS_OK);
        ck_assert_int_eq(count(&r, LS__OP_SIGMOID_BACKWARD), cases[i].n_sigmoid);
        ck_assert_int_eq(count(&r, LS__OP_MUL), 1 + cases[i].n_mul);
        ck_assert_int_eq(count(&r, LS__OP_CONCAT_BACKWARD), cases[i].n_concat);
        ck_assert_int_eq(count(&r, LS__OP_CONCAT), 4);
        ls_context_close(&r.ctx);
    }
}
END_TEST

static const ls__call *call_of(const ls__program *p, const ls__instruction *in)
{
    return &p->calls[p->graph->inputs.n + (in - p->instructions)];
}

/* Each input is copied once, and nothing else. */
START_TEST(one_memory_takes_all_inputs)
{
    run r = open_run(LS_PRECISION_F32);
    forward(&r, LS_MODE_TRAIN);
    const ls__program *p = training_program(&r);
    const ls__instruction *before = NULL;
    for (int i = 0; i < p->n_instructions; i++) {
        const ls__instruction *in = &p->instructions[i];
        if (in->custom || in->op.kind != LS__OP_CONCAT) continue;
        ck_assert_int_eq(ls__is_absent(&in->op.operands[1]), before == NULL);
        const ls__call *call = call_of(p, in);
        if (before) ck_assert_ptr_eq(call->buffers[1], call_of(p, before)->buffers[2]);
        if (before) ck_assert_ptr_eq(call->buffers[1], call->buffers[2]);
        ck_assert_ptr_ne(call->buffers[0], call->buffers[2]);
        before = in;
    }
    ck_assert_ptr_nonnull(before);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(evaluation_computes_the_same)
{
    static const ls_precision precisions[] = { LS_PRECISION_F32, LS_PRECISION_BF16,
                                               LS_PRECISION_F16 };
    enum { N_CHANNELS = 2 * CHANNELS + 10, N = BATCH * SIDE * SIDE };
    for (int i = 0; i < 3; i++) {
        run r = open_run(precisions[i]);
        static float all[2][N][N_CHANNELS], images[N][CHANNELS];
        for (int mode = 0; mode < 2; mode++) {
            forward(&r, mode ? LS_MODE_EVAL : LS_MODE_TRAIN);
            const ls_tensor *output = ls_net_output(r.net, "all");
            ck_assert_uint_eq(ls_tensor_bytes(output), sizeof all[0]);
            ck_assert_int_eq(ls_tensor_read(output, all[mode], sizeof all[0]), LS_OK);
        }
        ck_assert_mem_eq(all[0], all[1], sizeof all[0]);
        ck_assert_int_eq(ls_tensor_read(r.images, images, sizeof images), LS_OK);
        for (int pixel = 0; pixel < N; pixel++) {
            ck_assert_mem_eq(all[0][pixel], all[0][pixel] + 8, sizeof images[0]); /* x twice */
            if (i == 0) ck_assert_mem_eq(all[0][pixel], images[pixel], sizeof images[0]);
        }
        ls_context_close(&r.ctx);
    }
}
END_TEST

TEST_PROGRAM(concat)
{
    return RUN_SUITE("concat", only_wanted_gradients_are_computed, one_memory_takes_all_inputs,
                     evaluation_computes_the_same);
}
