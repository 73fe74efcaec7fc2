/* test_layout.c: private layouts. The backend's costs are bent so that the search wants blocked
 * activations, mixes them, or wants them for some ops only; the results must stay those of the
 * dense layout. */
#include "cpu/cpu.h"
#include "base/context.h"
#include "../suite.h"
#include "backend/backend.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, SIZE = 6, K = 4 };

static const ls__backend *real;
static enum { DENSE, BLOCKED, FORWARD_ONLY } taste;

static bool is_blocked(const ls__operand *o)
{
    return o->shape.n_dims == 4 && o->block > 0 && o->block < o->shape.dims[3];
}

static int bent_candidates(ls__device *device, const ls__op *op, ls__candidate *out, int max)
{
    const int n = real->candidates(device, op, out, max);
    bool any = false;
    for (int i = 0; i < op->n_operands; i++) any |= is_blocked(&op->operands[i]);
    const bool convolution = ls__op_is_convolution(op->kind) && !ls__op_is_optional(op->kind);
    const bool wanted = taste == BLOCKED || (taste == FORWARD_ONLY && op->kind == LS__OP_CONV2D);
    for (int i = 0; i < n; i++) {
        if (op->kind == LS__OP_REORDER)
            out[i].cost_ms = 1;
        else
            out[i].cost_ms = convolution ? (any == wanted ? 10 : 1000) : 1;
    }
    return n;
}

static int bent_blocks(const ls__device *device, const ls_shape *shape, int64_t *out, int max)
{
    (void)device;
    int n = 0;
    out[n++] = shape->dims[3];
    if (n < max && shape->dims[3] % 4 == 0 && shape->dims[3] > 4) out[n++] = 4;
    return n;
}

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_batch_norm(g, "bn0",
                                 ls_conv2d(g, "conv0", x, 8,
                                           &(ls_conv2d_config){ .kernel = 3, .padding = 1 }),
                                 NULL));
    ls_node *y = ls_batch_norm(
        g, "bn1", ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 }),
        NULL);
    x = ls_relu(g, ls_add(g, y, x));
    x = ls_dropout(g, x, 0.2f);
    x = ls_max_pool(g, x, &(ls_pool_config){ .kernel = 2 });
    x = ls_conv2d(g, "conv2", x, 12, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    ls_node *const parts[] = { x, ls_pad_channels(g, x, 16), ls_sigmoid(g, x),
                               ls_mul(g, x, ls_sigmoid(g, x)) };
    x = ls_output(g, "map", ls_concat(g, 4, parts));
    x = ls_conv2d(g, "conv3", x, 8, NULL);
    return ls_linear(g, "fc", ls_flatten(g, x), K, NULL);
}

typedef struct result {
    double loss;
    float gradients[8192];
    int64_t n;
    bool blocked;
} result;

static void run(int how, result *out)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 2 });
    ((ls__cpu *)ctx->device)->portable = false; /* the reference has all kernels */
    real = ctx->device->backend;
    ls__backend bent = *real;
    bent.candidates = bent_candidates;
    bent.blocks = bent_blocks;
    taste = how;
    ctx->device->backend = &bent;
    const ls_shape shape = LS_SHAPE(N, SIZE, SIZE, 3);
    const int32_t labels[N] = { 2, 0, 3 };
    ls_tensor *x = ls_tensor_open(ctx, LS_F32, shape),
              *label = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(N), labels);
    ls_tensor_random_normal(x, 1, 0, 1);
    ls_net *net = ls_net_build(ctx, model, NULL,
                               &(ls_net_config){ .input = { .image = { LS_F32, shape } },
                                                 .loss = { LS_LOSS_CROSS_ENTROPY } });
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    static char text[65536];
    ck_assert_int_gt(ls_net_describe(net, text, sizeof text), 0);
    out->blocked = strstr(text, "[block 4]") != NULL;
    ck_assert_int_eq(ls_net_feed(net, "input", x), LS_OK);
    ck_assert_int_eq(ls_net_feed(net, "label", label), LS_OK);
    ck_assert_int_eq(ls_net_forward(net, LS_MODE_TRAIN), LS_OK);
    ck_assert_int_eq(ls_net_backward(net), LS_OK);
    ck_assert_int_eq(ls_net_loss(net, &out->loss), LS_OK);
    out->n = 0;
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_tensor *gradient = ls_net_parameter_at(net, i).gradient;
        if (!gradient) continue;
        memcpy(out->gradients + out->n, ls_tensor_data_const(gradient), ls_tensor_bytes(gradient));
        out->n += ls_tensor_element_count(gradient);
    }
    const ls_tensor *map = ls_net_output(net, "map"); /* dense whatever the layout inside */
    memcpy(out->gradients + out->n, ls_tensor_data_const(map), ls_tensor_bytes(map));
    out->n += ls_tensor_element_count(map);
    ck_assert_int_le(out->n, 8192);
    ctx->device->backend = real;
    ls_context_close(&ctx);
}

START_TEST(layouts_change_no_result)
{
    static result dense, other;
    run(DENSE, &dense);
    ck_assert(!dense.blocked);
    static const int tastes[] = { BLOCKED, FORWARD_ONLY };
    for (int t = 0; t < 2; t++) {
        run(tastes[t], &other);
        ck_assert(other.blocked);
        ck_assert_double_eq_tol(other.loss, dense.loss, 1e-6);
        ck_assert_int_eq(other.n, dense.n);
        for (int64_t i = 0; i < dense.n; i++)
            ck_assert_float_eq_tol(other.gradients[i], dense.gradients[i], 2e-5);
    }
}
END_TEST

TEST_PROGRAM(layout)
{
    return RUN_SUITE("layout", layouts_change_no_result);
}
