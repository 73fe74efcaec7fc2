/* pool.c: pooling, forward and backward by gathering: every output has one task that computes it,
 * backward too, where an input collects from the windows that hold it, in their order. */
#include "cpu/native/native.h"

/* Channels that are worked on together; a narrower rest is done by the same loops. */
enum { TILE = 16 };

/* Sizes of an op: x the larger side, y the smaller one. */
typedef struct geometry {
    int64_t images, groups, width; /* [images][groups][h][w][width] */
    int64_t xh, xw, yh, yw;
    int64_t kernel[2], stride[2], padding[2];
} geometry;

static geometry geometry_of(const ls__native *k, int x_operand, int y_operand)
{
    const ls__operand *x = &k->op.operands[x_operand];
    const int64_t *d = x->shape.dims, *y = k->op.operands[y_operand].shape.dims;
    const int64_t width = x->block ? x->block : d[3];
    geometry g = { .images = d[0], .groups = d[3] / width, .width = width, .xh = d[1], .xw = d[2] };
    g.yh = y[1];
    g.yw = y[2];
    memcpy(g.kernel, k->op.u.pool.kernel, sizeof g.kernel);
    memcpy(g.stride, k->op.u.pool.stride, sizeof g.stride);
    memcpy(g.padding, k->op.u.pool.padding, sizeof g.padding);
    return g;
}

/* The places of output p's window that lie inside the input: kernel places begin to end. */
static ls__range window(const geometry *g, int dim, int64_t size, int64_t p)
{
    const int64_t first = p * g->stride[dim] - g->padding[dim];
    return (ls__range){ first < 0 ? -first : 0, ls__min(g->kernel[dim], size - first) };
}

/* The outputs whose windows hold input place i. */
static ls__range holders(const geometry *g, int dim, int64_t size, int64_t i)
{
    const int64_t shifted = i + g->padding[dim], over = shifted - g->kernel[dim] + 1;
    const int64_t begin = over > 0 ? ls__divide_up(over, g->stride[dim]) : 0;
    return (ls__range){ begin, ls__min(shifted / g->stride[dim] + 1, size) };
}

/* Runs body with `tile` a constant for whole tiles and c the first channel of each. */
#define FOR_TILES(width, c, tile, body)                                                            \
    do {                                                                                           \
        int64_t c = 0;                                                                             \
        for (; c + TILE <= (width); c += TILE) {                                                   \
            enum { tile = TILE };                                                                  \
            body;                                                                                  \
        }                                                                                          \
        if (c + TILE / 2 <= (width)) {                                                             \
            enum { tile = TILE / 2 };                                                              \
            body;                                                                                  \
            c += tile;                                                                             \
        }                                                                                          \
        if (c < (width)) {                                                                         \
            const int64_t tile = (width)-c;                                                        \
            body;                                                                                  \
        }                                                                                          \
    } while (0)

/* ---- Max: x -> y index? ---- */

/* One output place, `tile` channels. The window's place (0, 0), which may lie outside, is `at`
 * places behind x. */
LS__ALWAYS_INLINE void max_window(const geometry *g, const float *x, int64_t at, ls__range rows,
                                  ls__range columns, int64_t tile, float *y, int32_t *where)
{
    float best[TILE];
    int32_t place[TILE];
    const float *first = x + (at + rows.begin * g->xw + columns.begin) * g->width;
    for (int64_t c = 0; c < tile; c++) {
        best[c] = first[c];
        place[c] = (int32_t)(rows.begin * g->kernel[1] + columns.begin);
    }
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t s = columns.begin; s < columns.end; s++) {
            const float *value = x + (at + r * g->xw + s) * g->width;
            const int32_t here = (int32_t)(r * g->kernel[1] + s);
            for (int64_t c = 0; c < tile; c++) {
                /* larger, or the first NaN */
                const int32_t take = -(!(value[c] <= best[c]) & (best[c] == best[c]));
                best[c] = take ? value[c] : best[c];
                place[c] = (here & take) | (place[c] & ~take);
            }
        }
    for (int64_t c = 0; c < tile; c++) {
        y[c] = best[c];
        where[c] = place[c];
    }
}

/* A task has some rows of output places. */
static void max_pool(const ls__native *k, int64_t task)
{
    const geometry g = geometry_of(k, 0, 1);
    const float *x = k->buffers[0];
    float *y = k->buffers[1];
    const bool bytes = k->op.operands[2].dtype == LS_U8;
    const ls__range lines = ls__piece(g.images * g.groups * g.yh, k->n_chunks, task, 1);
    for (int64_t line = lines.begin; line < lines.end; line++) {
        const int64_t plane = line / g.yh, p = line % g.yh;
        const ls__range rows = window(&g, 0, g.xh, p);
        for (int64_t q = 0; q < g.yw; q++) {
            const ls__range columns = window(&g, 1, g.xw, q);
            const int64_t h = p * g.stride[0] - g.padding[0], w = q * g.stride[1] - g.padding[1];
            const int64_t at = (plane * g.xh + h) * g.xw + w;
            const int64_t to = (line * g.yw + q) * g.width;
            int32_t where[TILE];
            FOR_TILES(g.width, c, tile, {
                max_window(&g, x + c, at, rows, columns, tile, y + to + c, where);
                if (k->buffers[2] && bytes)
                    for (int64_t i = 0; i < tile; i++)
                        ((uint8_t *)k->buffers[2])[to + c + i] = (uint8_t)where[i];
                else if (k->buffers[2])
                    memcpy((int32_t *)k->buffers[2] + to + c, where, (size_t)tile * sizeof *where);
            });
        }
    }
}

static int64_t count_chunks(const ls__native *k, int64_t lines)
{
    const int64_t x = ls__count(&k->op.operands[0]), y = ls__count(&k->op.operands[1]);
    return ls__min(ls__divide_up(x + y, LS__TASK_ELEMENTS), lines);
}

/* Blocks divide the same number of channels on both sides. */
static bool same_block(const ls__operand *a, const ls__operand *b)
{
    return ls__planes_of(a).groups == ls__planes_of(b).groups;
}

static bool plan_window(ls__native *k, int x_operand, int y_operand, bool forward,
                        ls__native_task run)
{
    if (!same_block(&k->op.operands[x_operand], &k->op.operands[y_operand])) return false;
    const geometry g = geometry_of(k, x_operand, y_operand);
    k->n_chunks = count_chunks(k, g.images * g.groups * (forward ? g.yh : g.xh));
    k->bytes = 0;
    for (int i = 0; i < k->op.n_operands; i++)
        k->bytes +=
            (double)ls__count(&k->op.operands[i]) * (double)ls_dtype_bytes(k->op.operands[i].dtype);
    ls__add_stage(k, run, k->n_chunks);
    return true;
}

static bool plan_max_pool(ls__native *k)
{
    const ls__operand *y = &k->op.operands[1], *index = &k->op.operands[2];
    return (ls__is_absent(index) || same_block(index, y)) && plan_window(k, 0, 1, true, max_pool);
}

/* dy index -> dx. One input place, `tile` channels: what comes from the windows whose maximum it
 * was. */
LS__ALWAYS_INLINE void max_holders(const geometry *g, const float *dy, const void *index,
                                   bool bytes, ls__range rows, ls__range columns, int64_t h,
                                   int64_t w, int64_t tile, float *dx)
{
    float sum[TILE] = { 0 };
    for (int64_t p = rows.begin; p < rows.end; p++)
        for (int64_t q = columns.begin; q < columns.end; q++) {
            const int64_t at = (p * g->yw + q) * g->width;
            const int32_t here = (int32_t)((h + g->padding[0] - p * g->stride[0]) * g->kernel[1] +
                                           w + g->padding[1] - q * g->stride[1]);
            if (bytes)
                for (int64_t c = 0; c < tile; c++)
                    sum[c] += ls__where(((const uint8_t *)index)[at + c] == here, dy[at + c]);
            else
                for (int64_t c = 0; c < tile; c++)
                    sum[c] += ls__where(((const int32_t *)index)[at + c] == here, dy[at + c]);
        }
    for (int64_t c = 0; c < tile; c++) dx[c] = sum[c];
}

/* A task has some rows of input places. */
static void max_pool_backward(const ls__native *k, int64_t task)
{
    const geometry g = geometry_of(k, 2, 0);
    const float *dy = k->buffers[0];
    float *dx = k->buffers[2];
    const bool bytes = k->op.operands[1].dtype == LS_U8;
    const size_t index_bytes = bytes ? sizeof(uint8_t) : sizeof(int32_t);
    const ls__range lines = ls__piece(g.images * g.groups * g.xh, k->n_chunks, task, 1);
    for (int64_t line = lines.begin; line < lines.end; line++) {
        const int64_t plane = line / g.xh, h = line % g.xh;
        const ls__range rows = holders(&g, 0, g.yh, h);
        const int64_t from = plane * g.yh * g.yw * g.width;
        for (int64_t w = 0; w < g.xw; w++) {
            const ls__range columns = holders(&g, 1, g.yw, w);
            float *to = dx + (line * g.xw + w) * g.width;
            FOR_TILES(g.width, c, tile, {
                const unsigned char *index =
                    (const unsigned char *)k->buffers[1] + (size_t)(from + c) * index_bytes;
                max_holders(&g, dy + from + c, index, bytes, rows, columns, h, w, tile, to + c);
            });
        }
    }
}

static bool plan_max_pool_backward(ls__native *k)
{
    const ls__operand *dy = &k->op.operands[0], *index = &k->op.operands[1];
    return same_block(index, dy) && plan_window(k, 2, 0, false, max_pool_backward);
}

/* ---- Average: x -> y, padded zeros counted ---- */

/* out = factor * the sum over rows and columns, counted from `at` places behind x in rows of
 * `pitch` places */
LS__ALWAYS_INLINE void scaled_sum(const float *x, int64_t at, int64_t pitch, int64_t width,
                                  ls__range rows, ls__range columns, double factor, int64_t tile,
                                  float *out)
{
    double sum[TILE] = { 0 };
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t s = columns.begin; s < columns.end; s++) {
            const float *value = x + (at + r * pitch + s) * width;
            for (int64_t c = 0; c < tile; c++) sum[c] += (double)value[c];
        }
    for (int64_t c = 0; c < tile; c++) out[c] = (float)(sum[c] * factor);
}

static void avg_pool(const ls__native *k, int64_t task)
{
    const geometry g = geometry_of(k, 0, 1);
    const float *x = k->buffers[0];
    float *y = k->buffers[1];
    const double factor = 1 / (double)(g.kernel[0] * g.kernel[1]);
    const ls__range lines = ls__piece(g.images * g.groups * g.yh, k->n_chunks, task, 1);
    for (int64_t line = lines.begin; line < lines.end; line++) {
        const int64_t plane = line / g.yh, p = line % g.yh;
        const ls__range rows = window(&g, 0, g.xh, p);
        for (int64_t q = 0; q < g.yw; q++) {
            const ls__range columns = window(&g, 1, g.xw, q);
            const int64_t h = p * g.stride[0] - g.padding[0], w = q * g.stride[1] - g.padding[1];
            const int64_t at = (plane * g.xh + h) * g.xw + w;
            float *to = y + (line * g.yw + q) * g.width;
            FOR_TILES(g.width, c, tile,
                      scaled_sum(x + c, at, g.xw, g.width, rows, columns, factor, tile, to + c));
        }
    }
}

static bool plan_avg_pool(ls__native *k)
{
    return plan_window(k, 0, 1, true, avg_pool);
}

/* dy -> dx */
static void avg_pool_backward(const ls__native *k, int64_t task)
{
    const geometry g = geometry_of(k, 1, 0);
    const float *dy = k->buffers[0];
    float *dx = k->buffers[1];
    const double factor = 1 / (double)(g.kernel[0] * g.kernel[1]);
    const ls__range lines = ls__piece(g.images * g.groups * g.xh, k->n_chunks, task, 1);
    for (int64_t line = lines.begin; line < lines.end; line++) {
        const int64_t plane = line / g.xh;
        const ls__range rows = holders(&g, 0, g.yh, line % g.xh);
        const float *from = dy + plane * g.yh * g.yw * g.width;
        for (int64_t w = 0; w < g.xw; w++) {
            const ls__range columns = holders(&g, 1, g.yw, w);
            float *to = dx + (line * g.xw + w) * g.width;
            FOR_TILES(g.width, c, tile,
                      scaled_sum(from + c, 0, g.yw, g.width, rows, columns, factor, tile, to + c));
        }
    }
}

static bool plan_avg_pool_backward(ls__native *k)
{
    return plan_window(k, 1, 0, false, avg_pool_backward);
}

/* ---- Global average: x -> y [N,C] ---- */

/* Planes of the activation at operand i, the other operand is [N,C]. */
static bool plan_global(ls__native *k, int i, ls__native_task run)
{
    const int64_t *d = k->op.operands[i].shape.dims;
    const int64_t width = k->op.operands[i].block ? k->op.operands[i].block : d[3];
    k->planes = (ls__planes){ d[0], d[3] / width, d[1] * d[2], width };
    const int64_t count = ls__count(&k->op.operands[i]);
    k->n_chunks = ls__min(ls__divide_up(count, LS__TASK_ELEMENTS), d[0] * k->planes.groups);
    k->bytes = (double)count * sizeof(float);
    ls__add_stage(k, run, k->n_chunks);
    return true;
}

static void global_avg_pool(const ls__native *k, int64_t task)
{
    const ls__planes p = k->planes;
    const float *x = k->buffers[0];
    float *y = k->buffers[1];
    const double factor = 1 / (double)p.places;
    const ls__range planes = ls__piece(p.images * p.groups, k->n_chunks, task, 1);
    for (int64_t i = planes.begin; i < planes.end; i++)
        FOR_TILES(p.width, c, tile,
                  scaled_sum(x + i * p.places * p.width + c, 0, 0, p.width, (ls__range){ 0, 1 },
                             (ls__range){ 0, p.places }, factor, tile, y + i * p.width + c));
}

static bool plan_global_avg_pool(ls__native *k)
{
    return plan_global(k, 0, global_avg_pool);
}

/* dy [N,C] -> dx */
static void global_avg_pool_backward(const ls__native *k, int64_t task)
{
    const ls__planes p = k->planes;
    const float *dy = k->buffers[0];
    float *dx = k->buffers[1];
    const double factor = 1 / (double)p.places;
    const ls__range planes = ls__piece(p.images * p.groups, k->n_chunks, task, 1);
    for (int64_t i = planes.begin; i < planes.end; i++) {
        const float *restrict from = dy + i * p.width;
        float *restrict to = dx + i * p.places * p.width;
        for (int64_t c = 0; c < p.width; c++) to[c] = (float)((double)from[c] * factor);
        for (int64_t place = 1; place < p.places; place++)
            memcpy(to + place * p.width, to, (size_t)p.width * sizeof *to);
    }
}

static bool plan_global_avg_pool_backward(ls__native *k)
{
    return plan_global(k, 1, global_avg_pool_backward);
}

const ls__native_plan LS__ISA_NAME(ls__native_pool)[LS__N_OPS] = {
    [LS__OP_MAX_POOL] = plan_max_pool,
    [LS__OP_MAX_POOL_BACKWARD] = plan_max_pool_backward,
    [LS__OP_AVG_POOL] = plan_avg_pool,
    [LS__OP_AVG_POOL_BACKWARD] = plan_avg_pool_backward,
    [LS__OP_GLOBAL_AVG_POOL] = plan_global_avg_pool,
    [LS__OP_GLOBAL_AVG_POOL_BACKWARD] = plan_global_avg_pool_backward,
};
