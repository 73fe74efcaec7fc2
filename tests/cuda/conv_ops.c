/* conv_ops.c: the convolutions of the bundled models, read off the programs of the CPU's nets. */
#include "conv_ops.h"
#include "nn/net/net_state.h"
#include <lockstep/lockstep.h>
#include <lockstep/models.h>

#include <check.h>
#include <string.h>

static bool is_conv(ls__op_kind kind)
{
    return kind == LS__OP_CONV2D || kind == LS__OP_CONV2D_BACKWARD_DATA ||
           kind == LS__OP_CONV2D_BACKWARD_WEIGHTS;
}

/* Returns the operand that is the weights, or their gradient; the others of rank 4 are activations.
 */
static int weights_of(ls__op_kind kind)
{
    return kind == LS__OP_CONV2D_BACKWARD_WEIGHTS ? 2 : 1;
}

static void add(conv_ops *list, const ls__op *op)
{
    char text[LS__OP_TEXT_SIZE], other[LS__OP_TEXT_SIZE];
    ls__op_text(op, text, sizeof text);
    for (int i = 0; i < list->n; i++) {
        ls__op_text(&list->ops[i], other, sizeof other);
        if (strcmp(text, other) == 0) return;
    }
    ck_assert_int_lt(list->n, MAX_CONV_OPS);
    list->ops[list->n++] = *op;
}

/* The nets are built for one image, which is quick, and their ops brought to the batch. */
void conv_ops_add(conv_ops *list, const char *model, int64_t batch, int64_t side)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls_net *net =
        ls_net_build(ctx, ls_model_find(model)->function, NULL,
                     &(ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(1, side, side, 3) } },
                                       .loss = { LS_LOSS_CROSS_ENTROPY } });
    if (!net) ck_abort_msg("%s", ls_context_message(ctx));
    const ls__program *p = net->cache.programs[0];
    for (int p_index = 1; p->mode != LS_MODE_TRAIN; p_index++) p = net->cache.programs[p_index];
    const int n_before = list->n;
    for (int i = 0; i < p->n_instructions; i++) {
        ls__op op = p->instructions[i].op;
        if (p->instructions[i].custom || !is_conv(op.kind)) continue;
        for (int o = 0; o < op.n_operands; o++) {
            ls__operand *operand = &op.operands[o];
            if (operand->shape.n_dims != 4) continue;
            if (o != weights_of(op.kind)) operand->shape.dims[0] = batch;
        }
        add(list, &op);
    }
    ck_assert_int_gt(list->n, n_before);
    ls_context_close(&ctx);
}

ls__op conv_op(ls__op_kind kind, const conv_shape *s, bool bias)
{
    const int64_t p = (s->h + 2 * s->padding - s->kernel) / s->stride + 1;
    const int64_t q = (s->w + 2 * s->padding - s->kernel) / s->stride + 1;
    const ls__operand x = { LS_F32, LS_SHAPE(s->n, s->h, s->w, s->c) },
                      w = { LS_F32, LS_SHAPE(s->o, s->kernel, s->kernel, s->c / s->groups) },
                      y = { LS_F32, LS_SHAPE(s->n, p, q, s->o) }, b = { LS_F32, LS_SHAPE(s->o) },
                      none = { .shape = { .n_dims = -1 } };
    const ls__operand operands[3][4] = { { x, w, bias ? b : none, y },
                                         { y, w, x },
                                         { x, y, w, bias ? b : none } };
    ls__op op = { .kind = kind,
                  .n_operands = kind == LS__OP_CONV2D_BACKWARD_DATA ? 3 : 4,
                  .u.conv = { .kernel = { s->kernel, s->kernel },
                              .stride = { s->stride, s->stride },
                              .padding = { s->padding, s->padding },
                              .dilation = { 1, 1 },
                              .groups = s->groups } };
    memcpy(op.operands, operands[kind - LS__OP_CONV2D], sizeof operands[0]);
    return op;
}

ls__op conv_op_in(const ls__op *op, ls_dtype dtype, bool tf32)
{
    ls__op made = *op;
    made.tf32 = tf32;
    const int n = op->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS ? 2 : op->n_operands;
    for (int o = 0; o < n; o++) made.operands[o].dtype = dtype;
    return made;
}

static ls__operand channels_of(const ls__operand *activation, ls_dtype dtype)
{
    return (ls__operand){ dtype, LS_SHAPE(activation->shape.dims[3]) };
}

ls__op fused_op(ls__op_kind kind, const ls__op *conv, ls_dtype dtype)
{
    const ls__op typed = conv_op_in(conv, dtype, false);
    const ls__operand x = typed.operands[0], w = typed.operands[1], y = typed.operands[3];
    const ls__operand of_x = channels_of(&x, LS_F32), a = channels_of(&x, dtype),
                      of_y = channels_of(&y, LS_F32), a_of_y = channels_of(&y, dtype);
    ls__operand dw = w;
    dw.dtype = LS_F32;
    const struct {
        ls__op_kind kind;
        int n;
        ls__operand operands[LS__MAX_OPERANDS];
    } all[] = {
        { LS__OP_CONV2D_STATISTICS, 5, { x, w, y, of_y, of_y } },
        { LS__OP_NORM_CONV2D_STATISTICS, 7, { x, a, a, w, y, of_y, of_y } },
        { LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS, 5, { x, a, a, y, dw } },
        { LS__OP_NORM_CONV2D_BACKWARD_DATA,
          13,
          { y, w, x, of_x, of_x, of_x, of_x, x, of_x, of_x, of_x, of_x, of_x } },
        { LS__OP_NORM_FINALIZE,
          10,
          { of_y, of_y, of_y, of_y, of_y, of_y, of_y, of_y, a_of_y, a_of_y } },
    };
    ls__op made = typed;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].kind != kind) continue;
        made.kind = kind;
        made.n_operands = all[i].n;
        memcpy(made.operands, all[i].operands, sizeof made.operands);
    }
    if (kind == LS__OP_NORM_FINALIZE) {
        const int64_t *d = y.shape.dims;
        memset(&made.u, 0, sizeof made.u);
        made.u.norm.epsilon = 1e-5f;
        made.u.norm.momentum = 0.1f;
        made.u.norm.count = d[0] * d[1] * d[2];
    }
    return made;
}
