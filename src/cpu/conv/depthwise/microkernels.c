/* microkernels.c: see depthwise.h. */
#include "cpu/conv/depthwise/depthwise.h"
#include "cpu/simd/vector.h"

/* Pixels at a time: 8 sums hide the latency of two FMA units, and leave 8 of 16 registers for
 * operands. */
enum { PIXELS = 8 };

/* A row's results from `first` on. */
LS__ALWAYS_INLINE void correlate_pixels(int pixels, int64_t taps, const ls__depthwise_row *row,
                                        int64_t first)
{
    const int64_t x_step = row->x_step, y_step = row->y_step;
    for (int64_t c = 0; c < row->channels; c += LS__WIDTH) {
        ls__vf sum[PIXELS];
        sum[0] = row->bias ? ls__load_f32(row->bias + c) : ls__broadcast(0);
        LS__UNROLL
        for (int i = 1; i < pixels; i++) sum[i] = sum[0];
        for (int64_t r = 0; r < row->n_rows; r++) {
            const float *x = row->x[r] + row->x_first + first * x_step + c;
            const float *w = row->w[r] + row->w_first + c;
            for (int64_t s = 0; s < taps; s++, x += row->x_tap, w += row->w_tap) {
                const ls__vf weight = ls__load_f32(w);
                LS__UNROLL
                for (int i = 0; i < pixels; i++)
                    sum[i] = ls__fma(ls__load_f32(x + i * x_step), weight, sum[i]);
            }
        }
        for (int64_t j = 0; j < row->n_next * row->next_pixels; j++) {
            const float *next = row->next[j / row->next_pixels] + row->x_first + first * x_step +
                                c + j % row->next_pixels * row->pitch;
            LS__UNROLL
            for (int i = 0; i < pixels; i++) __builtin_prefetch(next + i * x_step, 0, 2);
        }
        float *y = row->y + first * y_step + c;
        const int64_t rest = row->channels - c;
        if (rest >= LS__WIDTH) {
            LS__UNROLL
            for (int i = 0; i < pixels; i++) ls__store_f32(y + i * y_step, sum[i]);
        } else {
            LS__UNROLL
            for (int i = 0; i < pixels; i++) ls__store_first_f32(y + i * y_step, sum[i], (int)rest);
        }
    }
}

static void correlate(const ls__depthwise_row *row)
{
    for (int64_t q = 0; q < row->n_pixels; q += PIXELS) {
#define CASE(count)                                                                                \
    case count: correlate_pixels(count, row->n_taps, row, q); break;
        switch (ls__min_i64(row->n_pixels - q, PIXELS)) {
            CASE(1)
            CASE(2)
            CASE(3)
            CASE(4)
            CASE(5)
            CASE(6)
            CASE(7)
        case PIXELS:
            if (row->n_taps == 3)
                correlate_pixels(PIXELS, 3, row, q);
            else
                correlate_pixels(PIXELS, row->n_taps, row, q);
        }
#undef CASE
    }
}

/* Some kernel rows from `r` on, and some of their taps from `s` on. */
LS__ALWAYS_INLINE void add_taps(int rows, int taps, const ls__depthwise_row *row, int64_t r,
                                int64_t s)
{
    enum { MAX_SUMS = 9 };
    const int64_t x_step = row->x_step, x_tap = row->x_tap;
    for (int64_t c = 0; c < row->channels; c += LS__WIDTH) {
        ls__vf sum[MAX_SUMS];
        LS__UNROLL
        for (int i = 0; i < rows * taps; i++) sum[i] = ls__broadcast(0);
        const float *x[3], *dy = row->dy + c;
        LS__UNROLL
        for (int i = 0; i < rows; i++) x[i] = row->x[r + i] + row->x_first + s * x_tap + c;
        for (int64_t q = 0, at = 0; q < row->n_pixels; q++, at += x_step, dy += row->y_step) {
            const ls__vf gradient = ls__load_f32(dy);
            LS__UNROLL
            for (int i = 0; i < rows; i++) LS__UNROLL
            for (int j = 0; j < taps; j++)
                sum[i * taps + j] =
                    ls__fma(ls__load_f32(x[i] + at + j * x_tap), gradient, sum[i * taps + j]);
        }
        LS__UNROLL
        for (int i = 0; i < rows; i++) LS__UNROLL
        for (int j = 0; j < taps; j++) {
            float *w = row->w[r + i] + row->w_first + (s + j) * row->w_tap + c;
            ls__store_f32(w, ls__add(ls__load_f32(w), sum[i * taps + j]));
        }
    }
}

static void add_gradients(const ls__depthwise_row *row)
{
    enum { ROWS = 3, TAPS = 8 };
    const int64_t rows = row->n_taps <= ROWS ? ROWS : 1; /* at a time */
    for (int64_t r = 0; r < row->n_rows; r += rows)
        for (int64_t s = 0; s < row->n_taps; s += TAPS) {
#define CASE(rows, taps)                                                                           \
    case (rows)*TAPS + (taps): add_taps(rows, taps, row, r, s); break;
            switch (ls__min_i64(row->n_rows - r, rows) * TAPS +
                    ls__min_i64(row->n_taps - s, TAPS)) {
                CASE(3, 1)
                CASE(3, 2)
                CASE(3, 3)
                CASE(2, 1)
                CASE(2, 2)
                CASE(2, 3)
                CASE(1, 1)
                CASE(1, 2)
                CASE(1, 3)
                CASE(1, 4)
                CASE(1, 5)
                CASE(1, 6)
                CASE(1, 7)
                CASE(1, 8)
            }
#undef CASE
        }
}

const ls__depthwise_microkernels LS__ISA_NAME(ls__depthwise) = { correlate, add_gradients,
                                                                 ls__bf16_read, ls__bf16_write };
