/* layout.c: reorders between layouts, padding of channels, and the normalisation of bytes. */
#include "base/element.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/element.h"

/* Places that are copied together, so that both sides' lines stay in the cache meanwhile. */
enum { TILE = 16 };

/* How an activation lies: as ls__planes, but images of one group are not joined. */
static ls__planes planes_of(const ls__operand *operand)
{
    const int64_t *d = operand->shape.dims;
    const int64_t width = operand->block ? operand->block : d[3];
    return (ls__planes){ d[0], d[3] / width, d[1] * d[2], width };
}

/* Where channel c of an image's first place lies. */
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

/* ---- y = the first channels of x, then zeros: REORDER, PAD_CHANNELS and its backward. ---- */

/* `run` channels lie together on both sides. from NULL: zeros. */
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

static void transfer(const ls__ops_kernel *k, int64_t task)
{
    const ls__planes x = planes_of(&k->op.operands[0]), y = planes_of(&k->op.operands[1]);
    const int64_t x_channels = x.groups * x.width, y_channels = y.groups * y.width;
    const int64_t n_common = ls__min(x_channels, y_channels);
    int64_t run = common_divisor(common_divisor(x.width, y.width), n_common);
    if (run > TILE && run % TILE == 0) run = TILE;
    const ls__range tiles =
        ls__part(x.images * ls__divide_up(x.places, TILE), k->n_chunks, task, 1);
    for (int64_t t = tiles.begin; t < tiles.end; t++) {
        const int64_t n_tiles = ls__divide_up(x.places, TILE);
        const int64_t image = t / n_tiles, place = t % n_tiles * TILE;
        const int64_t places = ls__min(TILE, x.places - place);
        for (int64_t c = 0; c < y_channels; c += run) {
            const ls__element *from =
                (const ls__element *)k->buffers[0] + channel_offset(&x, image, c) + place * x.width;
            ls__element *to =
                (ls__element *)k->buffers[1] + channel_offset(&y, image, c) + place * y.width;
            copy_run(c < n_common ? from : NULL, x.width, to, y.width, places, run);
        }
    }
}

static bool plan_transfer(ls__ops_kernel *k)
{
    const ls__operand *operand = &k->op.operands[0];
    if (operand->dtype != ls__element_type || operand->shape.n_dims != 4) return false;
    const ls__planes x = planes_of(&k->op.operands[0]);
    const int64_t count = ls__count(&k->op.operands[0]) + ls__count(&k->op.operands[1]);
    k->n_chunks = ls__min(ls__divide_up(count, 2 * LS__TASK_ELEMENTS),
                          x.images * ls__divide_up(x.places, TILE));
    k->bytes = (double)count * sizeof(ls__element);
    ls__add_stage(k, transfer, k->n_chunks);
    return true;
}

/* ---- y = (x / 255 - mean[c]) / std[c], from a table of what each byte becomes; zeros in the
 * channels that x does not have. ---- */

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

/* `channels` bytes a place become one value each, `step` apart from place to place. */
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
    const ls__range places = ls__part(x.images * x.places, k->n_chunks, task, 1);
    for (int64_t p = places.begin; p < places.end;) {
        const int64_t image = p / x.places, place = p % x.places;
        const int64_t n = ls__min(x.places - place, places.end - p);
        const uint8_t *from = (const uint8_t *)k->buffers[0] + p * x.width;
        for (int64_t c = 0; c < y.groups * y.width; c += y.width) {
            const int64_t n_common = c < x.width ? ls__min(x.width - c, y.width) : 0;
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

static bool plan_normalize(ls__ops_kernel *k)
{
    const ls__operand *x = &k->op.operands[0], *y = &k->op.operands[1];
    if (y->dtype != ls__element_type || x->shape.n_dims != 4 || x->shape.dims[3] > 4 ||
        x->dtype != LS_U8)
        return false;
    const int64_t count = ls__count(y);
    k->n_chunks = ls__min(ls__divide_up(count, LS__TASK_ELEMENTS), count / y->shape.dims[3]);
    k->kernel.workspace_bytes = (size_t)(x->shape.dims[3] * BYTES) * sizeof(ls__element);
    k->bytes = (double)count * sizeof(ls__element) + (double)ls__count(x);
    ls__add_stage(k, fill_table, 1);
    ls__add_stage(k, normalize, k->n_chunks);
    return true;
}

const ls__ops_plan LS__ELEMENT_NAME(ls__ops_layout)[LS__N_OPS] = {
    [LS__OP_REORDER] = plan_transfer,
    [LS__OP_NORMALIZE] = plan_normalize,
    [LS__OP_PAD_CHANNELS] = plan_transfer,
    [LS__OP_PAD_CHANNELS_BACKWARD] = plan_transfer,
};
