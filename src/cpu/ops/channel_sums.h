/* channel_sums.h: sums per channel over all rows, and the rows of a task; included by norm_strips.h
 * only. A row is the channels of a place. */
#ifndef LS_CPU_OPS_CHANNEL_SUMS_H
#define LS_CPU_OPS_CHANNEL_SUMS_H

#include "cpu/ops/ops.h"
#include "cpu/simd/wide.h"
#include "cpu/tree.h"

/* Channels whose parameters a task keeps in registers. If a row has one channel, that many places
 * form a row instead. */
enum { ROW_WIDTH = 16 };

/* A task has at least this many rows, so that partial sums take little memory. */
enum { MIN_ROWS = 32 };

/* The workspace: two sums per chunk and channel; then vectors of one float per channel. */
enum { N_VECTORS = 3 };

static double *partial(const ls__ops_kernel *k, int which, int64_t chunk)
{
    return (double *)k->workspace + (which * k->n_chunks + chunk) * k->n_channels;
}

static float *vector(const ls__ops_kernel *k, int which)
{
    return (float *)partial(k, 2, 0) + which * k->n_channels;
}

static ls__range rows_of(const ls__ops_kernel *k, int64_t task)
{
    return ls__share(k->n_rows, k->n_chunks, task, 4);
}

/* The values of all channels. Few are copied, so that they can stay in registers, and repeated if
 * a row is one channel. */
static const float *row_values(const ls__ops_kernel *k, const float *values, float copy[ROW_WIDTH])
{
    if (k->n_channels > ROW_WIDTH) return values;
    for (int64_t i = 0; i < ROW_WIDTH; i++) copy[i] = values[i % k->n_channels];
    return copy;
}

/* Calls f(first, rows, width) for a task's rows, with a constant width where that is faster. Rows
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

static void begin_sums(const ls__ops_kernel *k, int64_t task, row_sums *s)
{
    const bool single = k->n_channels == 1;
    s->s1 = single ? s->places[0] : partial(k, 0, task);
    s->s2 = single ? s->places[1] : partial(k, 1, task);
    memset(s->s1, 0, (size_t)(single ? ROW_WIDTH : k->n_channels) * sizeof *s->s1);
    memset(s->s2, 0, (size_t)(single ? ROW_WIDTH : k->n_channels) * sizeof *s->s2);
}

static void end_sums(const ls__ops_kernel *k, int64_t task, const row_sums *s)
{
    if (k->n_channels > 1) return;
    *partial(k, 0, task) = ls__fold(s->s1);
    *partial(k, 1, task) = ls__fold(s->s2);
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

/* Adds a strip of the operands to the sums of its columns. */
typedef void strip_adder(const void *operands, strip t, double *s1, double *s2);

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
    for (int i = 0; i < 4; i++)
        ls__prefetch_after(rows, (t.ahead + i * t.pitch) * (int64_t)sizeof *rows);
}

LS__ALWAYS_INLINE void add_block(strip_adder *add, const void *operands, int64_t first,
                                 int64_t rows, int64_t width, int64_t ahead, const row_sums *sums)
{
    for (int64_t c = 0; c < width;) {
#define STRIP(columns, vectors)                                                                    \
    add(operands, (strip){ first + c, c, rows, columns, width, ahead, vectors }, sums->s1 + c,     \
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

/* Adds a task's rows to its sums, in blocks of at least min_rows rows and about 128 times as many
 * elements. Rows of one channel become rows of ROW_WIDTH places and a shorter last one. */
LS__ALWAYS_INLINE void add_rows(const ls__ops_kernel *k, int64_t task, strip_adder *add,
                                const void *operands, int64_t min_rows)
{
    const ls__range range = rows_of(k, task);
    const int64_t width = k->n_channels, rows = range.end - range.begin;
    const int64_t columns = width > 1 ? width : ROW_WIDTH;
    const int64_t whole = width > 1 ? rows : rows / ROW_WIDTH;
    const int64_t last = width > 1 ? 0 : rows % ROW_WIDTH;
    const int64_t block = ls__max_i64(128 * min_rows / columns / 4 * 4, min_rows);
    const int64_t ahead = columns > WIDE ? AHEAD : block * columns, first = range.begin * width;
    row_sums sums;
    begin_sums(k, task, &sums);
    for (int64_t r = 0; r < whole; r += block)
        add_block(add, operands, first + r * columns, ls__min_i64(block, whole - r), columns, ahead,
                  &sums);
    if (last > 0) add_block(add, operands, first + whole * ROW_WIDTH, 1, last, 0, &sums);
    end_sums(k, task, &sums);
}

/* Adds up the chunks' sums of channels [begin, end) in a binary tree. The results are chunk 0's. */
static void add_chunks(const ls__ops_kernel *k, int64_t begin, int64_t end)
{
    for (int which = 0; which < 2; which++)
        for (int64_t step = 1; step < k->n_chunks; step *= 2)
            for (int64_t i = 0; i + step < k->n_chunks; i += 2 * step) {
                double *restrict to = partial(k, which, i);
                const double *restrict from = to + step * k->n_channels;
                for (int64_t c = begin; c < end; c++) to[c] += from[c];
            }
}

/* The middle phase: adds up the chunks and calls finish(begin, end) for a task's channels. */
enum { SLICE = 16 };

static void finish_share(const ls__ops_kernel *k, int64_t task,
                         void (*finish)(const ls__ops_kernel *k, int64_t begin, int64_t end))
{
    const ls__range share = ls__share(k->n_channels, k->phases[k->phase].n_tasks, task, SLICE);
    add_chunks(k, share.begin, share.end);
    finish(k, share.begin, share.end);
}

static int64_t middle_tasks(const ls__ops_kernel *k)
{
    return ls__min_i64(ls__divide_up(k->n_channels * k->n_chunks, LS__TASK_ELEMENTS),
                       ls__divide_up(k->n_channels, SLICE));
}

#endif
