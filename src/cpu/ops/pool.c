/* pool.c: pooling, forward and backward by gathering: one task computes each result. Backward, the
 * gradient of an input place is the sum over the windows that contain it, in their order. */
#include "cpu/ops/ops.h"
#include "cpu/simd/mixed.h"

/* Channels that a loop keeps in registers. */
enum { TILE = 16, HALF_TILE = 8 };

/* Sizes of an op; backward, x and y are dx and dy. GLOBAL_AVG_POOL has one window: all places, as
 * one row. */
typedef struct geometry {
    int64_t images, width; /* width: channels */
    int64_t xh, xw, yh, yw;
    int64_t kernel[2], stride[2], padding[2];
    double average_factor; /* 1 / (kernel[0] * kernel[1]) */
} geometry;

static geometry geometry_of(const ls__ops_kernel *k, int x_operand, int y_operand)
{
    const int64_t *d = k->op.operands[x_operand].shape.dims;
    const int64_t *y = k->op.operands[y_operand].shape.dims;
    geometry g = { .images = d[0], .width = d[3] };
    if (ls__op_traits_of(k->op.kind)->config != LS__CONFIG_POOL) { /* global */
        g.xh = g.yh = g.yw = g.kernel[0] = g.stride[0] = g.stride[1] = 1;
        g.xw = g.kernel[1] = d[1] * d[2];
    } else {
        g.xh = d[1];
        g.xw = d[2];
        g.yh = y[1];
        g.yw = y[2];
        memcpy(g.kernel, k->op.u.pool.kernel, sizeof g.kernel);
        memcpy(g.stride, k->op.u.pool.stride, sizeof g.stride);
        memcpy(g.padding, k->op.u.pool.padding, sizeof g.padding);
    }
    g.average_factor = 1 / (double)(g.kernel[0] * g.kernel[1]);
    return g;
}

/* The rows or columns of output p's window that are inside the input. */
static ls__range window(const geometry *g, int dim, int64_t size, int64_t p)
{
    const int64_t first = p * g->stride[dim] - g->padding[dim];
    return (ls__range){ first < 0 ? -first : 0, ls__min_i64(g->kernel[dim], size - first) };
}

/* The outputs whose windows contain input place i. */
static ls__range outputs_of(const geometry *g, int dim, int64_t size, int64_t i)
{
    const int64_t shifted = i + g->padding[dim], over = shifted - g->kernel[dim] + 1;
    const int64_t begin = over > 0 ? ls__divide_up(over, g->stride[dim]) : 0;
    return (ls__range){ begin, ls__min_i64(shifted / g->stride[dim] + 1, size) };
}

/* Calls f(n_vectors, used, c, ...) for vectors of channels from c on; f reads and writes their
 * first `used` elements. If the last vector would not be whole, it begins earlier, at channels that
 * are already computed. If there are fewer channels than a vector has elements, `spill` says that
 * whole vectors may be read and written: the other elements belong to the next places, which are
 * written later. */
#define FOR_VECTORS(width, spill, f, ...)                                                          \
    do {                                                                                           \
        int64_t c_ = 0;                                                                            \
        for (; c_ + TILE <= (width); c_ += TILE) f(TILE / LS__WIDTH, LS__WIDTH, c_, __VA_ARGS__);  \
        for (; c_ + LS__WIDTH <= (width); c_ += LS__WIDTH) f(1, LS__WIDTH, c_, __VA_ARGS__);       \
        if (c_ == (width)) break;                                                                  \
        if (c_ > 0)                                                                                \
            f(1, LS__WIDTH, (width)-LS__WIDTH, __VA_ARGS__);                                       \
        else if (spill)                                                                            \
            f(1, LS__WIDTH, 0, __VA_ARGS__);                                                       \
        else                                                                                       \
            f(1, (int)(width), 0, __VA_ARGS__);                                                    \
    } while (0)

/* Calls f(tile, c, ...) for tiles from channel c on, single(c, ...) for each remaining channel. */
#define FOR_TILES(width, f, single, ...)                                                           \
    do {                                                                                           \
        int64_t c_ = 0;                                                                            \
        for (; c_ + TILE <= (width); c_ += TILE) f(TILE, c_, __VA_ARGS__);                         \
        for (; c_ + HALF_TILE <= (width); c_ += HALF_TILE) f(HALF_TILE, c_, __VA_ARGS__);          \
        for (; c_ < (width); c_++) single(c_, __VA_ARGS__);                                        \
    } while (0)

/* Rows x columns of places of an activation. Place (0, 0), which may be outside of it, is `at`
 * places after `values`; a row of the activation has `pitch` places. */
typedef struct region {
    const ls__element *values;
    int64_t at, pitch, width;
    ls__range rows, columns;
} region;

LS__ALWAYS_INLINE int64_t region_offset(const region *w, int64_t r, int64_t s)
{
    return (w->at + r * w->pitch + s) * w->width;
}

/* Whether a vector at the last place ends before `end`. */
LS__ALWAYS_INLINE bool region_spills(const region *w, int64_t end)
{
    return region_offset(w, w->rows.end - 1, w->columns.end - 1) + LS__WIDTH <= end;
}

/* A place whose value is computed from a region of operand 0. */
typedef struct target {
    int64_t row, column;
    int64_t offset, end; /* in memory: of the place, and of the task's last one */
} target;

typedef void (*place_fn)(const ls__ops_kernel *k, const geometry *g, const region *w,
                         const target *at);

/* Calls f for the places of a task, which has some rows of them: forward those of y, each with its
 * window in x, else those of dx, each with the outputs whose windows contain it. */
LS__ALWAYS_INLINE void for_places(const ls__ops_kernel *k, int64_t task, int x_operand,
                                  int y_operand, bool forward, place_fn f)
{
    const geometry g = geometry_of(k, x_operand, y_operand);
    const int64_t height = forward ? g.yh : g.xh, width = forward ? g.yw : g.xw;
    const ls__range lines = ls__share(g.images * height, k->n_chunks, task, 1);
    region w = { .values = k->buffers[0], .pitch = forward ? g.xw : g.yw, .width = g.width };
    for (int64_t line = lines.begin; line < lines.end; line++) {
        const int64_t image = line / height;
        target at = { .row = line % height, .end = lines.end * width * g.width };
        w.rows = forward ? window(&g, 0, g.xh, at.row) : outputs_of(&g, 0, g.yh, at.row);
        for (at.column = 0; at.column < width; at.column++) {
            const int64_t h = at.row * g.stride[0] - g.padding[0];
            w.at = forward ? (image * g.xh + h) * g.xw + at.column * g.stride[1] - g.padding[1]
                           : image * g.yh * g.yw;
            w.columns =
                forward ? window(&g, 1, g.xw, at.column) : outputs_of(&g, 1, g.yw, at.column);
            at.offset = (line * width + at.column) * g.width;
            f(k, &g, &w, &at);
        }
    }
}

/* ---- Max: x -> y index? ---- */

/* The results: a maximum and its index in the window. */
typedef struct maximum {
    ls__element *y;
    uint8_t *bytes; /* of the index: one of these two, or none */
    int32_t *words;
    int64_t kernel_width;
} maximum;

LS__ALWAYS_INLINE void store_index(const maximum *m, int64_t c, ls__vi index, int used)
{
    if (m->bytes) ls__store_first_bytes(m->bytes + c, index, used);
    if (m->words) memcpy(m->words + c, &index, (size_t)used * sizeof *m->words);
}

LS__ALWAYS_INLINE void max_vectors(int n, int used, int64_t c, const region *w, const maximum *m)
{
    ls__vf best[TILE / LS__WIDTH];
    ls__vi index[TILE / LS__WIDTH];
    const ls__element *first = w->values + region_offset(w, w->rows.begin, w->columns.begin) + c;
    for (int i = 0; i < n; i++) {
        best[i] = ls__load_first(first + i * LS__WIDTH, used);
        index[i] = (ls__vi){ 0 } + (int32_t)(w->rows.begin * m->kernel_width + w->columns.begin);
    }
    for (int64_t r = w->rows.begin; r < w->rows.end; r++)
        for (int64_t s = w->columns.begin; s < w->columns.end; s++) {
            const ls__element *from = w->values + region_offset(w, r, s) + c;
            const ls__vi here = (ls__vi){ 0 } + (int32_t)(r * m->kernel_width + s);
            for (int i = 0; i < n; i++) {
                const ls__vf value = ls__load_first(from + i * LS__WIDTH, used);
                /* larger, or the first NaN */
                const ls__vi take = ~(value <= best[i]) & (best[i] == best[i]);
                best[i] = ls__select(take, value, best[i]);
                index[i] = (take & here) | (~take & index[i]);
            }
        }
    for (int i = 0; i < n; i++) {
        ls__store_first(m->y + c + i * LS__WIDTH, best[i], used);
        store_index(m, c + i * LS__WIDTH, index[i], used);
    }
}

LS__ALWAYS_INLINE void max_place(const ls__ops_kernel *k, const geometry *g, const region *w,
                                 const target *at)
{
    const bool indexed = k->buffers[2], bytes = k->op.operands[2].dtype == LS_U8;
    const int64_t inputs = g->images * g->xh * g->xw * g->width;
    const maximum m = { (ls__element *)k->buffers[1] + at->offset,
                        indexed && bytes ? (uint8_t *)k->buffers[2] + at->offset : NULL,
                        indexed && !bytes ? (int32_t *)k->buffers[2] + at->offset : NULL,
                        g->kernel[1] };
    const bool spill = at->offset + LS__WIDTH <= at->end && region_spills(w, inputs);
    FOR_VECTORS(g->width, spill, max_vectors, w, &m);
}

static void max_pool(const ls__ops_kernel *k, int64_t task)
{
    for_places(k, task, 0, 1, true, max_place);
}

/* dy index -> dx: the gradient of an input place is the sum over the windows of which it was the
 * maximum. */
typedef struct origin {
    const uint8_t *bytes; /* of the index: one of these two */
    const int32_t *words;
    /* The input place's index in the window of output (0, 0). It decreases by the steps from output
     * to output. */
    int64_t place, row_step, column_step;
    ls__element *dx;
} origin;

LS__ALWAYS_INLINE ls__vi load_index(const origin *o, int64_t at, int used)
{
    if (o->bytes) return ls__load_first_bytes(o->bytes + at, used);
    ls__vi index = { 0 };
    memcpy(&index, o->words + at, (size_t)used * sizeof *o->words);
    return index;
}

LS__ALWAYS_INLINE void max_vectors_backward(int n, int used, int64_t c, const region *dy,
                                            const origin *o)
{
    ls__vf sum[TILE / LS__WIDTH];
    for (int i = 0; i < n; i++) sum[i] = (ls__vf){ 0 };
    for (int64_t p = dy->rows.begin; p < dy->rows.end; p++)
        for (int64_t q = dy->columns.begin; q < dy->columns.end; q++) {
            const int64_t at = region_offset(dy, p, q) + c;
            const int64_t place = o->place - p * o->row_step - q * o->column_step;
            const ls__vi here = (ls__vi){ 0 } + (int32_t)place;
            for (int i = 0; i < n; i++) {
                const ls__vi index = load_index(o, at + i * LS__WIDTH, used);
                const ls__vf gradient = ls__load_first(dy->values + at + i * LS__WIDTH, used);
                sum[i] += (ls__vf)((index == here) & (ls__vi)gradient);
            }
        }
    for (int i = 0; i < n; i++) ls__store_first(o->dx + c + i * LS__WIDTH, sum[i], used);
}

static origin origin_of(const ls__ops_kernel *k, const geometry *g)
{
    origin o = { .row_step = g->stride[0] * g->kernel[1], .column_step = g->stride[1] };
    if (k->op.operands[1].dtype == LS_U8)
        o.bytes = k->buffers[1];
    else
        o.words = k->buffers[1];
    return o;
}

LS__ALWAYS_INLINE void max_place_backward(const ls__ops_kernel *k, const geometry *g,
                                          const region *dy, const target *at)
{
    const int64_t outputs = g->images * g->yh * g->yw * g->width;
    origin o = origin_of(k, g);
    o.place = (at->row + g->padding[0]) * g->kernel[1] + at->column + g->padding[1];
    o.dx = (ls__element *)k->buffers[2] + at->offset;
    const bool spill = at->offset + LS__WIDTH <= at->end && region_spills(dy, outputs);
    FOR_VECTORS(g->width, spill, max_vectors_backward, dy, &o);
}

static void max_pool_backward(const ls__ops_kernel *k, int64_t task)
{
    for_places(k, task, 2, 0, false, max_place_backward);
}

/* If windows tile the input, each output writes the gradients of its window: without divisions, and
 * dy is read once. */
typedef struct whole_window {
    const ls__element *dy;
    int64_t at, width, pitch, kernel[2]; /* pitch: of dx, in elements */
} whole_window;

LS__ALWAYS_INLINE void max_window_backward(int n, int used, int64_t c, const whole_window *w,
                                           const origin *o)
{
    for (int i = 0; i < n; i++, c += LS__WIDTH) {
        const ls__vi index = load_index(o, w->at + c, used);
        const ls__vi gradient = (ls__vi)ls__load_first(w->dy + w->at + c, used);
        ls__vi here = { 0 };
        for (int64_t r = 0; r < w->kernel[0]; r++)
            for (int64_t s = 0; s < w->kernel[1]; s++, here += 1)
                /* added to 0, which makes -0 to 0, as if windows overlapped */
                ls__store_first(o->dx + r * w->pitch + s * w->width + c,
                                (ls__vf){ 0 } + (ls__vf)((index == here) & gradient), used);
    }
}

static bool windows_tile(const geometry *g)
{
    const int64_t x[2] = { g->xh, g->xw }, y[2] = { g->yh, g->yw };
    for (int i = 0; i < 2; i++)
        if (g->stride[i] != g->kernel[i] || g->padding[i] != 0 || x[i] != y[i] * g->stride[i])
            return false;
    return true;
}

/* A task has some rows of output places. */
static void max_pool_backward_tiles(const ls__ops_kernel *k, int64_t task)
{
    const geometry g = geometry_of(k, 2, 0);
    const ls__range lines = ls__share(g.images * g.yh, k->n_chunks, task, 1);
    origin o = origin_of(k, &g);
    whole_window w = { .dy = k->buffers[0],
                       .width = g.width,
                       .pitch = g.xw * g.width,
                       .kernel = { g.kernel[0], g.kernel[1] } };
    for (int64_t line = lines.begin; line < lines.end; line++)
        for (int64_t q = 0; q < g.yw; q++) {
            w.at = (line * g.yw + q) * g.width;
            o.dx = (ls__element *)k->buffers[2] + line * g.kernel[0] * w.pitch +
                   q * g.kernel[1] * g.width;
            /* a row of dx has at least as many elements */
            const bool spill = (g.yw - q) * g.width >= LS__WIDTH;
            FOR_VECTORS(g.width, spill, max_window_backward, &w, &o);
        }
}

/* ---- Average: x -> y, padded zeros counted; dy -> dx ---- */

/* y = factor * the sum over a region, in double */
LS__ALWAYS_INLINE void average_tile(int tile, int64_t c, const region *w, double factor,
                                    ls__element *y)
{
    const int n = tile / LS__HALF_WIDTH;
    ls__vd sum[TILE / LS__HALF_WIDTH];
    for (int i = 0; i < n; i++) sum[i] = (ls__vd){ 0 };
    for (int64_t r = w->rows.begin; r < w->rows.end; r++)
        for (int64_t s = w->columns.begin; s < w->columns.end; s++) {
            const ls__element *from = w->values + region_offset(w, r, s) + c;
            for (int i = 0; i < n; i++) sum[i] += ls__load_double(from + i * LS__HALF_WIDTH);
        }
    for (int i = 0; i < n; i++) ls__store_double(y + c + i * LS__HALF_WIDTH, sum[i] * factor);
}

static inline void average_single(int64_t c, const region *w, double factor, ls__element *y)
{
    double sum = 0;
    for (int64_t r = w->rows.begin; r < w->rows.end; r++)
        for (int64_t s = w->columns.begin; s < w->columns.end; s++)
            sum += (double)ls__get(w->values[region_offset(w, r, s) + c]);
    y[c] = ls__put((float)(sum * factor));
}

LS__ALWAYS_INLINE void average_place(const ls__ops_kernel *k, const geometry *g, const region *w,
                                     const target *at)
{
    ls__element *y = (ls__element *)k->buffers[1] + at->offset;
    FOR_TILES(g->width, average_tile, average_single, w, g->average_factor, y);
}

static void avg_pool(const ls__ops_kernel *k, int64_t task)
{
    for_places(k, task, 0, 1, true, average_place);
}

static void avg_pool_backward(const ls__ops_kernel *k, int64_t task)
{
    for_places(k, task, 1, 0, false, average_place);
}

/* ---- Global average: x -> y [N,C] ---- */

/* dy [N,C] -> dx */
static void global_avg_pool_backward(const ls__ops_kernel *k, int64_t task)
{
    const int64_t *d = k->op.operands[1].shape.dims, places = d[1] * d[2], width = d[3];
    const ls__element *dy = k->buffers[0];
    ls__element *dx = k->buffers[1];
    const double factor = 1 / (double)places;
    const ls__range images = ls__share(d[0], k->n_chunks, task, 1);
    for (int64_t i = images.begin; i < images.end; i++) {
        const ls__element *restrict from = dy + i * width;
        ls__element *restrict to = dx + i * places * width;
        for (int64_t c = 0; c < width; c++)
            to[c] = ls__put((float)((double)ls__get(from[c]) * factor));
        for (int64_t place = 1; place < places; place++)
            memcpy(to + place * width, to, (size_t)width * sizeof *to);
    }
}

/* ---- Preparation: the operands of x and y, or of dx and dy, and the tasks over rows of places: of
 * y if `forward`, else of x. ---- */

static bool prepare_pool(ls__ops_kernel *k)
{
    static const struct {
        int x, y;
        bool forward;
        ls__ops_task run;
    } ops[LS__N_OPS] = {
        [LS__OP_MAX_POOL] = { 0, 1, true, max_pool },
        [LS__OP_MAX_POOL_BACKWARD] = { 2, 0, false, max_pool_backward },
        [LS__OP_AVG_POOL] = { 0, 1, true, avg_pool },
        [LS__OP_AVG_POOL_BACKWARD] = { 1, 0, false, avg_pool_backward },
        [LS__OP_GLOBAL_AVG_POOL] = { 0, 1, true, avg_pool },
        [LS__OP_GLOBAL_AVG_POOL_BACKWARD] = { 1, 0, true, global_avg_pool_backward },
    };
    const ls__op_kind kind = k->op.kind;
    if (k->op.operands[ops[kind].x].dtype != ls__element_type) return false;
    const geometry g = geometry_of(k, ops[kind].x, ops[kind].y);
    const bool tiles = kind == LS__OP_MAX_POOL_BACKWARD && windows_tile(&g);
    const int64_t lines = g.images * (ops[kind].forward || tiles ? g.yh : g.xh);
    const int64_t count = ls__count(&k->op.operands[0]) + ls__count(&k->op.operands[1]);
    k->n_chunks = ls__min_i64(ls__divide_up(count, LS__TASK_ELEMENTS), lines);
    ls__add_phase(k, tiles ? max_pool_backward_tiles : ops[kind].run, k->n_chunks);
    return true;
}

const ls__ops_prepare LS__ELEMENT_NAME(ls__ops_pool)[LS__N_OPS] = {
    [LS__OP_MAX_POOL] = prepare_pool,        [LS__OP_MAX_POOL_BACKWARD] = prepare_pool,
    [LS__OP_AVG_POOL] = prepare_pool,        [LS__OP_AVG_POOL_BACKWARD] = prepare_pool,
    [LS__OP_GLOBAL_AVG_POOL] = prepare_pool, [LS__OP_GLOBAL_AVG_POOL_BACKWARD] = prepare_pool,
};
