/* sliding.c: the forward product for one input channel and stride 1. Windows next to each other
 * share all but one value. Each value is read once and added to all sums that contain it, so the
 * speed is that of the two FMA units, not of the loads. Each sum runs over its window in order, as
 * in microkernel.c: the same bits. */
#include "cpu/conv/small_channels/small_channels.h"
#include "cpu/simd/vector.h"

enum { VECTOR = LS__SMALL_CHANNELS_UNIT, MAX_TAPS = 7, MAX_PLACES = 12 };

/* Some places' results: windows of `taps` values from x on. */
LS__ALWAYS_INLINE void slide(int taps, int places, const ls__small_channels_windows *s,
                             const float *x, float *y, bool last)
{
    ls__vf sum[MAX_PLACES];
    LS__UNROLL
    for (int i = 0; i < places; i++) sum[i] = s->start ? ls__load(s->start) : ls__broadcast(0);
    const float *w = s->w;
    for (int64_t r = 0; r < s->n_rows; r++, x += s->pitch, w += taps * VECTOR) {
        ls__vf tap[MAX_TAPS];
        LS__UNROLL
        for (int t = 0; t < taps; t++) tap[t] = ls__load(w + t * VECTOR);
        LS__UNROLL
        for (int v = 0; v < places + taps - 1; v++) {
            const ls__vf value = ls__broadcast_from(x + v);
            LS__UNROLL
            for (int t = 0; t < taps; t++)
                if (v >= t && v - t < places) sum[v - t] = ls__fma(value, tap[t], sum[v - t]);
        }
    }
    /* The rest of a vector is overwritten by later places; the last places have none after them. */
    LS__UNROLL
    for (int i = 0; i < places; i++) {
        if (!last || (places - i) * s->out >= VECTOR)
            ls__store(y + i * s->out, sum[i]);
        else
            ls__store_first(y + i * s->out, sum[i], (int)s->out);
    }
}

void LS__ISA_NAME(ls__small_channels_slide)(const ls__small_channels_windows *s, const float *x,
                                            float *y); /* which microkernel.c names */

/* The last places of a row are computed with some before them, which are computed twice. */
void LS__ISA_NAME(ls__small_channels_slide)(const ls__small_channels_windows *s, const float *x,
                                            float *y)
{
#define CASE(n, places)                                                                            \
    case n:                                                                                        \
        for (int64_t q = 0; q + places < s->n_places; q += places)                                 \
            slide(n, places, s, x + q, y + q * s->out, false);                                     \
        slide(n, places, s, x + s->n_places - places, y + (s->n_places - places) * s->out, true);  \
        break;
    switch (s->taps) {
        LS__SMALL_CHANNELS_SLIDES(CASE)
    default: break;
    }
#undef CASE
}
