/* A net's first convolution on a CUDA device whose libraries prefer 8 channels: which nets get
 * them, in which ops, and that they change no bit. */
#include "../suite.h"
#include "has_cudnn.h"
#include "nn/net/net_state.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, SIDE = 11, OUT = 8, KERNEL = 3, CLASSES = 4, PADDED = 8, STEPS = 4 };
static const ls_conv2d_config kernel3 = { .kernel = KERNEL, .padding = 1, .bias = true };

static ls_node *tail(ls_graph *g, ls_node *x)
{
    x = ls_relu(g, ls_batch_norm(g, "norm", x, NULL));
    x = ls_relu(g, ls_conv2d(g, "second", x, OUT, &kernel3));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), CLASSES, NULL);
}

static ls_node *one_reader(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return tail(g, ls_conv2d(g, "stem", x, OUT, &kernel3));
}

static ls_node *two_convolutions(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_node *y = ls_conv2d(g, "other", x, OUT, &kernel3);
    return tail(g, ls_add(g, ls_conv2d(g, "stem", x, OUT, &kernel3), y));
}

static ls_node *named_image(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    ls_output(g, "image", x);
    return tail(g, ls_conv2d(g, "stem", x, OUT, &kernel3));
}

static ls_node *pooled_first(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2 });
    return tail(g, ls_conv2d(g, "stem", x, OUT, &kernel3));
}

static ls_node *groups(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    return tail(g, ls_conv2d(g, "stem", x, 9, &(ls_conv2d_config){ .kernel = 3, .groups = 3 }));
}

typedef struct settings {
    const char *device; /* NULL: "cuda" */
    ls_model_fn model;  /* NULL: one_reader */
    ls_precision precision;
    int channels;   /* 0: 3 */
    bool f32_image; /* instead of u8 */
    bool own_kernels;
    bool inference;
    ls_recompute recompute;
    const char *frozen;
} settings;

typedef struct run {
    ls_context *ctx;
    ls_net *net;
    ls_batch batch;
} run;

static void check(const run *r, ls_status status)
{
    ck_assert_msg(status == LS_OK, "%s", ls_context_message(r->ctx));
}

static run open_run(const settings *s)
{
    const int channels = s->channels ? s->channels : 3;
    const ls_dtype dtype = s->f32_image ? LS_F32 : LS_U8;
    const ls_shape shape = LS_SHAPE(BATCH, SIDE, SIDE, channels);
    if (s->own_kernels) setenv("LOCKSTEP_CUDA_LIBRARIES", "none", 1);
    run r = { .ctx = ls_context_open(
                  &(ls_context_config){ .device = s->device ? s->device : "cuda", .seed = 7 }) };
    unsetenv("LOCKSTEP_CUDA_LIBRARIES");
    r.net = ls_net_build(
        r.ctx, s->model ? s->model : one_reader, NULL,
        &(ls_net_config){ .input = { .image = { dtype, shape },
                                     .mean = { 0.5f, 0.4f, 0.3f },
                                     .std = { 0.2f, 0.3f, 0.25f } },
                          .loss = { s->inference ? LS_LOSS_NONE : LS_LOSS_CROSS_ENTROPY },
                          .inference = s->inference,
                          .recompute = s->recompute,
                          .precision = s->precision });
    static uint8_t pixels[4 * BATCH * SIDE * SIDE * 4];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 2654435761u >> 11);
    r.batch = (ls_batch){ .labels = ls_tensor_from_data(r.ctx, LS_I32, LS_SHAPE(BATCH),
                                                        (const int32_t[BATCH]){ 2, 0, 3 }),
                          .n = BATCH };
    if (dtype == LS_U8) r.batch.images = ls_tensor_from_data(r.ctx, LS_U8, shape, pixels);
    check(&r, ls_context_status(r.ctx));
    if (s->frozen) check(&r, ls_net_freeze(r.net, s->frozen));
    return r;
}

/* The n-th instruction of a kind, in the order of the program; NULL when there are fewer. */
static const ls__instruction *find(const ls__program *p, ls__op_kind kind, int n)
{
    for (int i = 0; i < p->n_instructions; i++)
        if (!p->instructions[i].custom && p->instructions[i].op.kind == kind && n-- == 0)
            return &p->instructions[i];
    return NULL;
}

static int64_t channels_of(const ls__instruction *in, int operand)
{
    ck_assert_ptr_nonnull(in);
    return in->op.operands[operand].shape.dims[3];
}

static const ls__program *program_of(const run *r, bool gradients)
{
    for (int i = 0; i < r->net->cache.n_programs; i++)
        if (r->net->cache.programs[i]->gradients == gradients) return r->net->cache.programs[i];
    ck_abort_msg("there is no such program");
}

static bool is_padded(const ls__program *p)
{
    return find(p, LS__OP_PAD_CHANNELS, 0) != NULL;
}

static const ls_precision halves[] = { LS_PRECISION_BF16, LS_PRECISION_F16 };
enum { N_HALVES = sizeof halves / sizeof *halves };

/* Pixels of x and rows of w are multiples of 16 bytes. The parameter and its gradient keep their
 * channels, and so does the work that is reported. */
static void check_padded(const ls__program *p, int channels)
{
    const ls__instruction *normalize = find(p, LS__OP_NORMALIZE, 0),
                          *pad = find(p, LS__OP_PAD_CHANNELS, 0), *conv = find(p, LS__OP_CONV2D, 0);
    const double flops = 2.0 * BATCH * SIDE * SIDE * OUT * KERNEL * KERNEL * channels;
    ck_assert_int_eq(channels_of(normalize, 0), channels);
    ck_assert_int_eq(channels_of(normalize, 1), PADDED);
    ck_assert_int_eq(channels_of(pad, 0), channels);
    ck_assert_int_eq(channels_of(pad, 1), PADDED);
    for (int i = 0; i < 2; i++) {
        const ls__operand *o = &conv->op.operands[i];
        ck_assert_int_eq(channels_of(conv, i), PADDED);
        ck_assert_uint_eq(PADDED * ls_dtype_bytes(o->dtype) % 16, 0);
        ck_assert_uint_eq(p->values[conv->operands[i]].offset % 16, 0);
    }
    ck_assert_int_eq(conv->operands[1], pad->operands[1]);
    ck_assert(!has_cudnn(p->ctx) || strncmp(conv->kernel->name, "cudnn ", 6) == 0);
    ck_assert_double_eq(ls__op_flops(&conv->op), flops);
    ck_assert_int_eq(channels_of(find(p, LS__OP_CONV2D, 1), 0), OUT);
    ck_assert_ptr_null(find(p, LS__OP_PAD_CHANNELS, 1));
    if (!p->gradients) return;
    const ls__instruction *weights = find(p, LS__OP_CONV2D_BACKWARD_WEIGHTS, 1),
                          *back = find(p, LS__OP_PAD_CHANNELS_BACKWARD, 0);
    ck_assert_int_eq(channels_of(weights, 0), PADDED);
    ck_assert_int_eq(channels_of(weights, 2), PADDED);
    ck_assert_double_eq(ls__op_flops(&weights->op), flops);
    ck_assert_int_eq(weights->op.operands[2].dtype, LS_F32);
    ck_assert_ptr_nonnull(back);
    ck_assert_int_eq(back->operands[0], weights->operands[2]);
    ck_assert_int_eq(channels_of(back, 1), channels);
    ck_assert_int_eq(p->values[back->operands[1]].place, LS__PLACE_GRADIENTS);
}

START_TEST(images_of_16_bits_get_8_channels)
{
    for (int i = 0; i < N_HALVES; i++)
        for (int channels = 1; channels <= 4; channels++) {
            run r = open_run(&(settings){ .precision = halves[i], .channels = channels });
            check_padded(program_of(&r, true), channels);
            check(&r, ls_net_evaluate(r.net, &r.batch));
            check_padded(program_of(&r, false), channels);
            ls_context_close(&r.ctx);
            r = open_run(
                &(settings){ .precision = halves[i], .channels = channels, .inference = true });
            check_padded(program_of(&r, false), channels);
            ls_context_close(&r.ctx);
        }
}
END_TEST

/* Where nothing is gained, or a pass of its own would be needed. */
START_TEST(other_nets_stay_as_they_are)
{
    static const settings others[] = {
        { .precision = LS_PRECISION_F32 },
        { .precision = LS_PRECISION_TF32 },
        { .precision = LS_PRECISION_BF16, .f32_image = true },
        { .precision = LS_PRECISION_BF16, .model = two_convolutions },
        { .precision = LS_PRECISION_BF16, .model = named_image },
        { .precision = LS_PRECISION_BF16, .model = pooled_first },
        { .precision = LS_PRECISION_BF16, .model = groups },
        { .precision = LS_PRECISION_F16, .own_kernels = true },
        { .precision = LS_PRECISION_F16, .device = "cpu" },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        run r = open_run(&others[i]);
        const ls__program *p = program_of(&r, true);
        ck_assert_msg(!is_padded(p), "%d", (int)i);
        if (find(p, LS__OP_NORMALIZE, 0))
            ck_assert_int_eq(channels_of(find(p, LS__OP_NORMALIZE, 0), 1), 3);
        ls_context_close(&r.ctx);
    }
}
END_TEST

typedef struct results {
    double losses[STEPS + 1];
    ls_digest weights, gradients;
    bool padded, own_stem;
    int n_again;
} results;

static results train(const settings *s)
{
    run r = open_run(s);
    results out;
    memset(&out, 0, sizeof out);
    ls_step_digest digest;
    ls_optimizer *opt = ls_sgd(r.net, &(ls_sgd_config){ .momentum = 0.9f, .clip_norm = 1 });
    for (int i = 0; i < STEPS; i++, r.batch.step++) {
        check(&r, ls_net_step(r.net, opt, &r.batch, 0.05));
        check(&r, ls_net_loss(r.net, &out.losses[i]));
    }
    check(&r, ls_net_digest(r.net, &r.batch, &digest));
    out.weights = digest.weights;
    out.gradients = digest.gradients;
    const ls__program *p = program_of(&r, true);
    out.padded = is_padded(p);
    out.own_stem = strcmp(find(p, LS__OP_CONV2D, 0)->kernel->name, "own direct") == 0;
    for (int i = 0; i < p->n_instructions; i++)
        out.n_again += p->instructions[i].again && p->instructions[i].op.kind == LS__OP_CONV2D;
    check(&r, ls_net_evaluate(r.net, &r.batch));
    check(&r, ls_net_loss(r.net, &out.losses[STEPS]));
    ls_context_close(&r.ctx);
    return out;
}

static void expect_equal(const results *a, const results *b)
{
    ck_assert_mem_eq(a->losses, b->losses, sizeof a->losses);
    ck_assert_mem_eq(&a->weights, &b->weights, sizeof a->weights);
    ck_assert_mem_eq(&a->gradients, &b->gradients, sizeof a->gradients);
}

/* Our own kernels are used, whose sums take a pixel's channels one after the other. */
START_TEST(zeros_change_no_bit)
{
    for (int i = 0; i < 2 * N_HALVES; i++) {
        settings s = { .precision = halves[i / 2], .channels = i % 2 ? 1 : 3 };
        const results padded = train(&s);
        s.own_kernels = true;
        const results plain = train(&s);
        ck_assert(padded.padded && !plain.padded);
        if (padded.own_stem) expect_equal(&padded, &plain);
    }
}
END_TEST

/* A 3x3 stem of 3 channels is cheap to recompute, with 8 as well. */
START_TEST(recomputation_keeps_the_bits)
{
    for (int i = 0; i < N_HALVES; i++) {
        settings s = { .precision = halves[i], .recompute = LS_RECOMPUTE_NONE };
        const results kept = train(&s);
        s.recompute = LS_RECOMPUTE_CHEAP;
        const results again = train(&s);
        ck_assert(kept.padded && again.padded);
        ck_assert_int_eq(kept.n_again, 0);
        ck_assert_int_eq(again.n_again, 1);
        expect_equal(&again, &kept);
    }
}
END_TEST

/* A frozen stem has no gradient to shorten. */
START_TEST(frozen_stem)
{
    run r = open_run(&(settings){ .precision = LS_PRECISION_BF16, .frozen = "stem.*" });
    ls_optimizer *opt = ls_sgd(r.net, NULL);
    check(&r, ls_net_step(r.net, opt, &r.batch, 0.05));
    ck_assert(is_padded(program_of(&r, true)));
    ck_assert_ptr_null(find(program_of(&r, true), LS__OP_PAD_CHANNELS_BACKWARD, 0));
    ls_context_close(&r.ctx);
}
END_TEST

/* The description has the layer's real size, and names the op that is not the layer's own. */
START_TEST(description)
{
    static char plain[1 << 14], padded[1 << 14];
    for (int i = 0; i < 2; i++) {
        run r = open_run(&(settings){ .precision = LS_PRECISION_BF16, .own_kernels = i == 0 });
        char *out = i ? padded : plain;
        ck_assert_int_gt(ls_net_describe(r.net, out, sizeof plain), 0);
        ls_context_close(&r.ctx);
    }
    ck_assert_ptr_nonnull(strstr(padded, "\n    pad_channels own"));
    ck_assert_ptr_null(strstr(plain, "pad_channels"));
    const size_t line = strcspn(strstr(plain, "\nstem") + 1, "\n");
    ck_assert_mem_eq(strstr(plain, "\nstem") + 1, strstr(padded, "\nstem") + 1, line);
}
END_TEST

TEST_PROGRAM(cuda_stem)
{
    return RUN_SUITE("cuda stem", images_of_16_bits_get_8_channels, other_nets_stay_as_they_are,
                     zeros_change_no_bit, recomputation_keeps_the_bits, frozen_stem, description);
}
