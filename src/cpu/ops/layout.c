/* layout.c: reorders between layouts, padding and concatenation of channels, and the normalisation
 * of bytes. */
#include "arith/element.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/element.h"

/* Places that are copied together, so that the cache lines of both sides stay in the cache. */
enum { TILE = 16 };

/* Returns ls__planes_of, but keeps the images of one group apart. */
static ls__planes planes_of(const ls__operand *operand)
{
    const int64_t *d = operand->shape.dims;
    if (operand->shape.n_dims == 2) return (ls__planes){ 1, 1, d[0], d[1] };
    const int64_t width = operand->block ? operand->block : d[3];
    return (ls__planes){ d[0], d[3] / width, d[1] * d[2], width };
}

/* The offset of channel c of an image's first place. */
static int64_t channel_offset(const ls__planes *p, int64_t image, int64_t c)
{
    return (image * p->groups + c / p->width) * p->places * p->width + c % p->width;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- Copies of channels: REORDER, PAD_CHANNELS, CONCAT, and their backward. ---- */

/* Copies `run` channels, which are adjacent on both sides. from NULL: zeros. */
LS__ALWAYS_INLINE void copy_places(const ls__element *from, int64_t from_width, ls__element *to,
                                   int64_t to_width, int64_t places, int64_t run)
{
    for (int64_t p = 0; p < places; p++)
        for (int64_t c = 0; c < run; c++)
            to[p * to_width + c] = from ? from[p * from_width + c] : 0;
}

static void copy_run(const ls__element *from, int64_t from_width, ls__element *to, int64_t to_width,
                     int64_t places, int64_t run)
{
    if (!from)
        copy_places(NULL, 0, to, to_width, places, run);
    else if (run == 16)
        copy_places(from, from_width, to, to_width, places, 16);
    else if (run == 8)
        copy_places(from, from_width, to, to_width, places, 8);
    else if (run == 1)
        copy_places(from, from_width, to, to_width, places, 1);
    else
        copy_places(from, from_width, to, to_width, places, run);
}

/* Channels from..from+n-1 of `memory` are copied to channels to..to+n-1 of y, `run` at a time. */
typedef struct channel_range {
    ls__planes planes;         /* of memory */
    const ls__element *memory; /* NULL: zeros */
    int64_t from, to, n, run;
} channel_range;

static void add_range(channel_range *list, int *n, const ls__planes *y, channel_range range)
{
    if (range.n == 0) return;
    range.run = common_divisor(common_divisor(range.planes.width, y->width), range.n);
    range.run = common_divisor(common_divisor(range.run, range.from), range.to);
    if (range.run > TILE && range.run % TILE == 0) range.run = TILE;
    list[(*n)++] = range;
}

/* The sources of y's channels, at most three ranges. Returns their number. */
static int find_ranges(const ls__ops_kernel *k, channel_range *out)
{
    const ls__op *op = &k->op;
    const int last = op->n_operands - 1;
    const ls__planes x = planes_of(&op->operands[0]), y = planes_of(&op->operands[last]);
    const int64_t x_channels = x.groups * x.width, y_channels = y.groups * y.width;
    const bool concat = ls__op_traits_of(op->kind)->config == LS__CONFIG_CONCAT;
    const int64_t offset = concat ? op->u.concat.offset : 0;
    int n = 0;
    if (x_channels >= y_channels) {
        add_range(out, &n, &y, (channel_range){ x, k->buffers[0], offset, 0, y_channels, 0 });
        return n;
    }
    add_range(out, &n, &y, (channel_range){ x, k->buffers[0], 0, offset, x_channels, 0 });
    const ls__element *rest = last == 2 ? k->buffers[1] : NULL;
    if (rest == k->buffers[last]) return n;
    const int64_t end = offset + x_channels;
    add_range(out, &n, &y, (channel_range){ y, rest, 0, 0, offset, 0 });
    add_range(out, &n, &y, (channel_range){ y, rest, end, end, y_channels - end, 0 });
    return n;
}

static void transfer(const ls__ops_kernel *k, int64_t task)
{
    const int last = k->op.n_operands - 1;
    const ls__planes y = planes_of(&k->op.operands[last]);
    channel_range ranges[3];
    const int n_ranges = find_ranges(k, ranges);
    const int64_t n_tiles = ls__divide_up(y.places, TILE);
    const ls__range tiles = ls__share(y.images * n_tiles, k->n_chunks, task, 1);
    for (int64_t t = tiles.begin; t < tiles.end; t++) {
        const int64_t image = t / n_tiles, place = t % n_tiles * TILE;
        const int64_t places = ls__min_i64(TILE, y.places - place);
        for (const channel_range *r = ranges; r < ranges + n_ranges; r++) {
            const ls__planes *x = &r->planes;
            for (int64_t c = 0; c < r->n; c += r->run) {
                const ls__element *from = r->memory;
                if (from) from += channel_offset(x, image, r->from + c) + place * x->width;
                ls__element *to = (ls__element *)k->buffers[last] +
                                  channel_offset(&y, image, r->to + c) + place * y.width;
                copy_run(from, x->width, to, y.width, places, r->run);
            }
        }
    }
}

static bool prepare_transfer(ls__ops_kernel *k)
{
    const ls__operand *operand = &k->op.operands[0];
    const bool concat = ls__op_traits_of(k->op.kind)->config == LS__CONFIG_CONCAT;
    if (operand->dtype != ls__element_type) return false;
    if (operand->shape.n_dims != 4 && !(concat && operand->shape.n_dims == 2)) return false;
    const ls__planes x = planes_of(operand);
    int64_t count = 0;
    for (int i = 0; i < k->op.n_operands; i++) count += ls__count(&k->op.operands[i]);
    k->n_chunks = ls__min_i64(ls__divide_up(count, 2 * LS__TASK_ELEMENTS),
                              x.images * ls__divide_up(x.places, TILE));
    k->bytes = (double)count * sizeof(ls__element);
    ls__add_phase(k, transfer, k->n_chunks);
    return true;
}

/* ---- NORMALIZE: y = (x / 255 - mean[c]) / std[c], from a table of the results of all bytes; zeros
 * in the channels that x does not have. ---- */

enum { BYTES = 256 };

static void fill_table(const ls__ops_kernel *k, int64_t task)
{
    (void)task;
    const float *mean = k->op.u.normalize.mean, *std = k->op.u.normalize.std;
    ls__element *table = (ls__element *)k->workspace;
    for (int64_t c = 0; c < k->op.operands[0].shape.dims[3]; c++)
        for (int64_t byte = 0; byte < BYTES; byte++)
            table[c * BYTES + byte] = ls__put(ls__normalize((uint8_t)byte, mean[c], std[c]));
}

/* The first n of a place's `channels` bytes become a value each. Places of y are `step` apart. */
LS__ALWAYS_INLINE void look_up(const ls__element *restrict table, const uint8_t *restrict x,
                               int64_t channels, ls__element *restrict y, int64_t step,
                               int64_t places, int64_t n)
{
    for (int64_t p = 0; p < places; p++)
        for (int64_t c = 0; c < n; c++) y[p * step + c] = table[c * BYTES + x[p * channels + c]];
}

static void normalize(const ls__ops_kernel *k, int64_t task)
{
    const ls__planes x = planes_of(&k->op.operands[0]), y = planes_of(&k->op.operands[1]);
    const ls__element *table = (const ls__element *)k->workspace;
    const ls__range places = ls__share(x.images * x.places, k->n_chunks, task, 1);
    for (int64_t p = places.begin; p < places.end;) {
        const int64_t image = p / x.places, place = p % x.places;
        const int64_t n = ls__min_i64(x.places - place, places.end - p);
        const uint8_t *from = (const uint8_t *)k->buffers[0] + p * x.width;
        for (int64_t c = 0; c < y.groups * y.width; c += y.width) {
            const int64_t n_common = c < x.width ? ls__min_i64(x.width - c, y.width) : 0;
            ls__element *to =
                (ls__element *)k->buffers[1] + channel_offset(&y, image, c) + place * y.width;
            if (n_common == 3 && x.width == 3 && y.width == 3)
                look_up(table, from, 3, to, 3, n, 3);
            else if (n_common == 1 && x.width == 1 && y.width == 1)
                look_up(table, from, 1, to, 1, n, 1);
            else if (n_common > 0)
                look_up(table + c * BYTES, from + c, x.width, to, y.width, n, n_common);
            for (int64_t i = 0; n_common < y.width && i < n; i++)
                for (int64_t j = n_common; j < y.width; j++) to[i * y.width + j] = 0;
        }
        p += n;
    }
}

static bool prepare_normalize(ls__ops_kernel *k)
{
    const ls__operand *x = &k->op.operands[0], *y = &k->op.operands[1];
    if (y->dtype != ls__element_type || x->shape.n_dims != 4 || x->shape.dims[3] > 4 ||
        x->dtype != LS_U8)
        return false;
    const int64_t count = ls__count(y);
    k->n_chunks = ls__min_i64(ls__divide_up(count, LS__TASK_ELEMENTS), count / y->shape.dims[3]);
    k->kernel.workspace_bytes = (size_t)(x->shape.dims[3] * BYTES) * sizeof(ls__element);
    k->bytes = (double)count * sizeof(ls__element) + (double)ls__count(x);
    ls__add_phase(k, fill_table, 1);
    ls__add_phase(k, normalize, k->n_chunks);
    return true;
}

const ls__ops_prepare LS__ELEMENT_NAME(ls__ops_layout)[LS__N_OPS] = {
    [LS__OP_REORDER] = prepare_transfer,      [LS__OP_NORMALIZE] = prepare_normalize,
    [LS__OP_CONCAT] = prepare_transfer,       [LS__OP_CONCAT_BACKWARD] = prepare_transfer,
    [LS__OP_PAD_CHANNELS] = prepare_transfer, [LS__OP_PAD_CHANNELS_BACKWARD] = prepare_transfer,
};
