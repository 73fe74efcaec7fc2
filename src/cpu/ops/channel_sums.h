/* channel_sums.h: sums per channel over all rows, and the iteration over a task's rows; included by
 * norm_strips.h only. A row is the `width` channels of a place. A task has some rows of one group
 * of channels. */
#ifndef LS_CPU_OPS_CHANNEL_SUMS_H
#define LS_CPU_OPS_CHANNEL_SUMS_H

#include "cpu/ops/ops.h"
#include "cpu/simd/wide.h"
#include "cpu/tree.h"

/* Channels whose parameters a task keeps in registers. If a row has one channel (N,C,H,W), that
 * many places form a row instead. */
enum { ROW_WIDTH = 16 };

/* A task has at least this many rows, so that partial sums take little memory. */
enum { MIN_ROWS = 32 };

/* The workspace: two sums per group, chunk and channel; then vectors of one float per channel. */
enum { N_VECTORS = 3 };

static int64_t n_rows(const ls__ops_kernel *k)
{
    return k->planes.images * k->planes.places;
}

static int64_t n_channels(const ls__ops_kernel *k)
{
    return k->planes.groups * k->planes.width;
}

static double *partial(const ls__ops_kernel *k, int which, int64_t group, int64_t chunk)
{
    double *sums = (double *)k->workspace + which * n_channels(k) * k->n_chunks;
    return sums + (group * k->n_chunks + chunk) * k->planes.width;
}

static float *vector(const ls__ops_kernel *k, int which)
{
    return (float *)((double *)k->workspace + 2 * n_channels(k) * k->n_chunks) +
           which * n_channels(k);
}

/* Divides a task's rows into spans that are contiguous in memory. */
typedef struct span_cursor {
    int64_t group, chunk, row, end;
    int64_t offset, rows; /* of the current span */
} span_cursor;

static span_cursor span_cursor_of(const ls__ops_kernel *k, int64_t task)
{
    span_cursor w = { .group = task % k->planes.groups, .chunk = task / k->planes.groups };
    const ls__range rows = ls__share(n_rows(k), k->n_chunks, w.chunk, 4);
    w.row = rows.begin;
    w.end = rows.end;
    return w;
}

static bool next_span(const ls__ops_kernel *k, span_cursor *w)
{
    const ls__planes *p = &k->planes;
    if (w->row >= w->end) return false;
    const int64_t image = w->row / p->places, place = w->row % p->places;
    w->rows = ls__min_i64(p->places - place, w->end - w->row);
    w->offset = ((image * p->groups + w->group) * p->places + place) * p->width;
    w->row += w->rows;
    return true;
}

/* One group's values of a vector with one value per channel. Few values are copied, so that they
 * can stay in registers, and repeated if a row is one channel. */
static const float *row_values(const ls__ops_kernel *k, const void *vector_of_all, int64_t group,
                               float copy[ROW_WIDTH])
{
    const int64_t width = k->planes.width;
    const float *values = (const float *)vector_of_all + group * width;
    if (width > ROW_WIDTH) return values;
    for (int64_t i = 0; i < ROW_WIDTH; i++) copy[i] = values[i % width];
    return copy;
}

/* Calls f(first, rows, width) for a span's rows, with a constant width where that is faster. Rows
 * of one channel become rows of ROW_WIDTH places and a shorter last one. */
#define FOR_WIDTH(width, rows, f)                                                                  \
    do {                                                                                           \
        if ((width) == 16) {                                                                       \
            f(0, rows, 16);                                                                        \
        } else if ((width) == 8) {                                                                 \
            f(0, rows, 8);                                                                         \
        } else if ((width) == 1) {                                                                 \
            f(0, (rows) / ROW_WIDTH, ROW_WIDTH);                                                   \
            f((rows) / ROW_WIDTH * ROW_WIDTH, 1, (rows) % ROW_WIDTH);                              \
        } else {                                                                                   \
            f(0, rows, width);                                                                     \
        }                                                                                          \
    } while (0)

/* A task's two sums per column of a row: in the workspace, or on the stack if a row has one
 * channel. */
typedef struct row_sums {
    double *s1, *s2;
    double places[2][ROW_WIDTH];
} row_sums;

static void begin_sums(const ls__ops_kernel *k, const span_cursor *w, row_sums *s)
{
    const int64_t width = k->planes.width;
    s->s1 = width == 1 ? s->places[0] : partial(k, 0, w->group, w->chunk);
    s->s2 = width == 1 ? s->places[1] : partial(k, 1, w->group, w->chunk);
    memset(s->s1, 0, (size_t)(width == 1 ? ROW_WIDTH : width) * sizeof *s->s1);
    memset(s->s2, 0, (size_t)(width == 1 ? ROW_WIDTH : width) * sizeof *s->s2);
}

static void end_sums(const ls__ops_kernel *k, const span_cursor *w, const row_sums *s)
{
    if (k->planes.width > 1) return;
    *partial(k, 0, w->group, w->chunk) = ls__fold(s->s1);
    *partial(k, 1, w->group, w->chunk) = ls__fold(s->s2);
}

/* Rows are added up in blocks, and the rows of a block in strips of ROW_WIDTH columns, whose sums
 * stay in registers. Meanwhile the next block is prefetched. If rows are so wide that it would not
 * fit into the cache, the strips that are AHEAD columns further are prefetched instead. */
enum { AHEAD = 128, WIDE = 512, STRIP_VECTORS = ROW_WIDTH / LS__WIDTH };

/* Some columns of the rows of a block: the first element, its column, how many elements the rows
 * are apart, and how many elements behind these are prefetched. n_vectors is a constant; 0 if there
 * are fewer columns than a vector has elements. */
typedef struct strip {
    int64_t first, column, rows, width, pitch, ahead;
    int n_vectors;
} strip;

/* Adds a strip of a span's operands to the sums of its columns. */
typedef void strip_adder(const void *span, strip t, double *s1, double *s2);

LS__ALWAYS_INLINE void load_strip(strip t, const double *s1, const double *s2, ls__wide *sum1,
                                  ls__wide *sum2)
{
    LS__UNROLL
    for (int v = 0; v < t.n_vectors; v++) {
        sum1[v] = ls__wide_load(s1 + v * LS__WIDTH);
        sum2[v] = ls__wide_load(s2 + v * LS__WIDTH);
    }
}

LS__ALWAYS_INLINE void store_strip(strip t, double *s1, double *s2, const ls__wide *sum1,
                                   const ls__wide *sum2)
{
    LS__UNROLL
    for (int v = 0; v < t.n_vectors; v++) {
        ls__wide_store(s1 + v * LS__WIDTH, sum1[v]);
        ls__wide_store(s2 + v * LS__WIDTH, sum2[v]);
    }
}

/* Prefetches what is needed after 4 rows of a strip. */
LS__ALWAYS_INLINE void prefetch_rows(const ls__element *rows, strip t)
{
    LS__UNROLL
    for (int i = 0; i < 4; i++) {
        /* not a pointer, because it can be behind the end of the array */
        const uint64_t behind = (uint64_t)(t.ahead + i * t.pitch) * sizeof *rows;
        __builtin_prefetch((const void *)((uintptr_t)rows + behind));
    }
}

LS__ALWAYS_INLINE void add_block(strip_adder *add, const void *span, int64_t first, int64_t rows,
                                 int64_t width, int64_t ahead, const row_sums *sums)
{
    for (int64_t c = 0; c < width;) {
#define STRIP(columns, vectors)                                                                    \
    add(span, (strip){ first + c, c, rows, columns, width, ahead, vectors }, sums->s1 + c,         \
        sums->s2 + c);                                                                             \
    c += (columns)
        if (c + ROW_WIDTH <= width) {
            STRIP(ROW_WIDTH, STRIP_VECTORS);
        } else if (c + ROW_WIDTH / 2 <= width) {
            STRIP(ROW_WIDTH / 2, STRIP_VECTORS / 2);
        } else {
            STRIP(width - c, 0);
        }
#undef STRIP
    }
}

/* Adds the rows of a span, in blocks of at least min_rows rows and about 128 times as many
 * elements. Rows of one channel become rows of ROW_WIDTH places and a shorter last one. */
LS__ALWAYS_INLINE void add_span(strip_adder *add, const void *span, int64_t width, int64_t rows,
                                int64_t min_rows, const row_sums *sums)
{
    const int64_t columns = width > 1 ? width : ROW_WIDTH;
    const int64_t whole = width > 1 ? rows : rows / ROW_WIDTH;
    const int64_t last = width > 1 ? 0 : rows % ROW_WIDTH;
    const int64_t block = ls__max_i64(128 * min_rows / columns / 4 * 4, min_rows);
    const int64_t ahead = columns > WIDE ? AHEAD : block * columns;
    for (int64_t r = 0; r < whole; r += block)
        add_block(add, span, r * columns, ls__min_i64(block, whole - r), columns, ahead, sums);
    if (last > 0) add_block(add, span, whole * ROW_WIDTH, 1, last, 0, sums);
}

/* Adds up the chunks' sums of channels [begin, end) in a binary tree. The results are chunk 0's. */
static void add_chunks(const ls__ops_kernel *k, int64_t group, int64_t begin, int64_t end)
{
    const int64_t width = k->planes.width;
    for (int which = 0; which < 2; which++)
        for (int64_t step = 1; step < k->n_chunks; step *= 2)
            for (int64_t i = 0; i + step < k->n_chunks; i += 2 * step) {
                double *restrict to = partial(k, which, group, i);
                const double *restrict from = to + step * width;
                for (int64_t c = begin; c < end; c++) to[c] += from[c];
            }
}

/* The middle phase: adds up the chunks and calls finish(group, begin, end), begin and end of
 * channels in the group, for a task's share of the channels: whole groups, or slices of the only
 * one. */
enum { SLICE = 16 };

static void finish_share(const ls__ops_kernel *k, int64_t task,
                         void (*finish)(const ls__ops_kernel *k, int64_t group, int64_t begin,
                                        int64_t end))
{
    const bool sliced = k->planes.groups == 1;
    const int64_t count = sliced ? k->planes.width : k->planes.groups;
    const ls__range share = ls__share(count, k->phases[k->phase].n_tasks, task, sliced ? SLICE : 1);
    for (int64_t g = sliced ? 0 : share.begin; g < (sliced ? 1 : share.end); g++) {
        const int64_t begin = sliced ? share.begin : 0, end = sliced ? share.end : k->planes.width;
        add_chunks(k, g, begin, end);
        finish(k, g, begin, end);
    }
}

static int64_t middle_tasks(const ls__ops_kernel *k)
{
    const int64_t shares =
        k->planes.groups == 1 ? ls__divide_up(k->planes.width, SLICE) : k->planes.groups;
    return ls__min_i64(ls__divide_up(n_channels(k) * k->n_chunks, LS__TASK_ELEMENTS), shares);
}

#endif
