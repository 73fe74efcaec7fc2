/* layout.c: padding and concatenation of channels, and the normalisation of bytes. */
#include "arith/element.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/element.h"

/* ---- Copies of channels: PAD_CHANNELS, CONCAT, and their backward. ---- */

/* Channels from..from+n-1 of `memory` are copied to channels to..to+n-1 of y. */
typedef struct channel_range {
    const ls__element *memory; /* NULL: zeros */
    int64_t channels;          /* of memory */
    int64_t from, to, n;
} channel_range;

/* The sources of y's channels, at most three ranges. Returns their number. */
static int find_ranges(const ls__ops_kernel *k, channel_range *out)
{
    const ls__op *op = &k->op;
    const int last = op->n_operands - 1;
    const int64_t x = ls__channels_of(&op->operands[0]), y = ls__channels_of(&op->operands[last]);
    const bool concat = ls__op_traits_of(op->kind)->config == LS__CONFIG_CONCAT;
    const int64_t offset = concat ? op->u.concat.offset : 0, end = offset + x;
    if (x >= y) {
        out[0] = (channel_range){ k->buffers[0], x, offset, 0, y };
        return 1;
    }
    out[0] = (channel_range){ k->buffers[0], x, 0, offset, x };
    const ls__element *rest = last == 2 ? k->buffers[1] : NULL;
    if (rest == k->buffers[last]) return 1;
    out[1] = (channel_range){ rest, y, 0, 0, offset };
    out[2] = (channel_range){ rest, y, end, end, y - end };
    return 3;
}

static void copy_places(const channel_range *r, ls__element *y, int64_t y_channels,
                        ls__range places)
{
    const size_t bytes = (size_t)r->n * sizeof *y;
    for (int64_t p = places.begin; p < places.end; p++) {
        ls__element *to = y + p * y_channels + r->to;
        if (r->memory)
            memcpy(to, r->memory + p * r->channels + r->from, bytes);
        else
            memset(to, 0, bytes);
    }
}

static void transfer(const ls__ops_kernel *k, int64_t task)
{
    const int last = k->op.n_operands - 1;
    const int64_t y_channels = ls__channels_of(&k->op.operands[last]);
    const int64_t n_places = ls__count(&k->op.operands[last]) / y_channels;
    const ls__range places = ls__share(n_places, k->n_chunks, task, 1);
    channel_range ranges[3];
    const int n_ranges = find_ranges(k, ranges);
    for (const channel_range *r = ranges; r < ranges + n_ranges; r++)
        copy_places(r, k->buffers[last], y_channels, places);
}

static bool prepare_transfer(ls__ops_kernel *k)
{
    const ls__operand *x = &k->op.operands[0];
    if (x->dtype != ls__element_type) return false;
    int64_t count = 0;
    for (int i = 0; i < k->op.n_operands; i++) count += ls__count(&k->op.operands[i]);
    k->n_chunks =
        ls__min_i64(ls__divide_up(count, 2 * LS__TASK_ELEMENTS), ls__count(x) / ls__channels_of(x));
    ls__add_phase(k, transfer, k->n_chunks);
    return true;
}

/* ---- NORMALIZE: y = (x / 255 - mean[c]) / std[c], from a table of the results of all bytes; zeros
 * in the channels that x does not have. ---- */

enum { BYTES = 256, MAX_CHANNELS = 4 };

static void fill_table(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *mean = k->op.u.normalize.mean, *std = k->op.u.normalize.std;
    ls__element *table = (ls__element *)k->workspace;
    for (int64_t c = 0; c < k->op.operands[0].shape.dims[3]; c++)
        for (int64_t byte = 0; byte < BYTES; byte++)
            table[c * BYTES + byte] = ls__put(ls__normalize((uint8_t)byte, mean[c], std[c]));
}

/* x and y: of `n` places. */
LS__ALWAYS_INLINE void look_up(const ls__element *restrict table, const uint8_t *restrict x,
                               int64_t x_channels, ls__element *restrict y, int64_t y_channels,
                               int64_t n)
{
    for (int64_t p = 0; p < n; p++, x += x_channels, y += y_channels) {
        for (int64_t c = 0; c < x_channels; c++) y[c] = table[c * BYTES + x[c]];
        for (int64_t c = x_channels; c < y_channels; c++) y[c] = 0;
    }
}

static void normalize(const ls__ops_kernel *k, int64_t task)
{
    const int64_t xc = ls__channels_of(&k->op.operands[0]);
    const int64_t yc = ls__channels_of(&k->op.operands[1]);
    const ls__element *table = (const ls__element *)k->workspace;
    const ls__range places = ls__share(ls__count(&k->op.operands[0]) / xc, k->n_chunks, task, 1);
    const uint8_t *x = (const uint8_t *)k->buffers[0] + places.begin * xc;
    ls__element *y = (ls__element *)k->buffers[1] + places.begin * yc;
    const int64_t n = places.end - places.begin;
    if (xc == 3 && yc == 3)
        look_up(table, x, 3, y, 3, n);
    else if (xc == 1 && yc == 1)
        look_up(table, x, 1, y, 1, n);
    else
        look_up(table, x, xc, y, yc, n);
}

static bool prepare_normalize(ls__ops_kernel *k)
{
    const ls__operand *x = &k->op.operands[0], *y = &k->op.operands[1];
    if (y->dtype != ls__element_type || x->shape.dims[3] > MAX_CHANNELS) return false;
    const int64_t count = ls__count(y);
    k->n_chunks = ls__min_i64(ls__divide_up(count, LS__TASK_ELEMENTS), count / y->shape.dims[3]);
    k->kernel.workspace_bytes = (size_t)(x->shape.dims[3] * BYTES) * sizeof(ls__element);
    ls__add_phase(k, fill_table, 1);
    ls__add_phase(k, normalize, k->n_chunks);
    return true;
}

const ls__ops_prepare LS__ELEMENT_NAME(ls__ops_layout)[LS__N_OPS] = {
    [LS__OP_NORMALIZE] = prepare_normalize,
    [LS__OP_CONCAT] = prepare_transfer,
    [LS__OP_CONCAT_BACKWARD] = prepare_transfer,
    [LS__OP_PAD_CHANNELS] = prepare_transfer,
    [LS__OP_PAD_CHANNELS_BACKWARD] = prepare_transfer,
};
