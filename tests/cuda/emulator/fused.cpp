/* fused.cpp: the optional ops that only libraries have kernels for, convolutions with parts of the
 * batch norms around them, as one thread's plain loops. Sums are double, for nothing to be found
 * here but the shape of things. */
#include "cuda/kernels/access.h"
#include "library.h"

namespace
{

struct shape {
    int64_t n, h, w, c;
};

shape shape_of(const ls__operand *o)
{
    return { o->shape.dims[0], o->shape.dims[1], o->shape.dims[2], o->shape.dims[3] };
}

int64_t count_of(shape s)
{
    return s.n * s.h * s.w * s.c;
}

/* Calls f(place in x, place in w, place in y), of the channels' first ones, for all that the
 * convolution multiplies. */
template <typename F> void visit(const ls__op *op, shape x, shape y, F f)
{
    const auto *c = &op->u.conv;
    for (int64_t n = 0; n < y.n; n++)
        for (int64_t p = 0; p < y.h; p++)
            for (int64_t q = 0; q < y.w; q++)
                for (int64_t r = 0; r < c->kernel[0]; r++)
                    for (int64_t s = 0; s < c->kernel[1]; s++) {
                        const int64_t h = p * c->stride[0] + r * c->dilation[0] - c->padding[0];
                        const int64_t w = q * c->stride[1] + s * c->dilation[1] - c->padding[1];
                        if (h < 0 || h >= x.h || w < 0 || w >= x.w) continue;
                        f(((n * x.h + h) * x.w + w) * x.c, r * c->kernel[1] + s,
                          ((n * y.h + p) * y.w + q) * y.c);
                    }
}

/* Calls f(input channel, place in w) for an output channel, and a place in the window. */
template <typename F>
void visit_inputs(const ls__op *op, shape x, shape y, int64_t o, int64_t at, F f)
{
    const int64_t in = x.c / op->u.conv.groups, out = y.c / op->u.conv.groups;
    const int64_t window = op->u.conv.kernel[0] * op->u.conv.kernel[1];
    for (int64_t i = 0; i < in; i++) f(o / out * in + i, (o * window + at) * in + i);
}

/* The input of the convolution: x, or relu(x a + b). */
template <typename T> double read(const T *x, const T *a, const T *b, int64_t place, int64_t c)
{
    const double value = ls__to_f32(x[place + c]);
    if (!a) return value;
    return fmax(value * ls__to_f32(a[c]) + ls__to_f32(b[c]), 0.0);
}

template <typename T>
void statistics_kernel(ls__op op, double *y_sums, const T *x, const T *a, const T *b, const T *w,
                       T *y, float *sum, float *squares, int y_operand)
{
    const shape in = shape_of(&op.operands[0]), out = shape_of(&op.operands[y_operand]);
    for (int64_t i = 0; i < count_of(out); i++) y_sums[i] = 0;
    visit(&op, in, out, [&](int64_t x_at, int64_t at, int64_t y_at) {
        for (int64_t o = 0; o < out.c; o++)
            visit_inputs(&op, in, out, o, at, [&](int64_t c, int64_t w_at) {
                y_sums[y_at + o] += read(x, a, b, x_at, c) * ls__to_f32(w[w_at]);
            });
    });
    for (int64_t o = 0; o < out.c; o++) {
        double own[2] = { 0, 0 };
        for (int64_t i = o; i < count_of(out); i += out.c) {
            ls__put(y + i, (float)y_sums[i]);
            own[0] += y_sums[i];
            own[1] += y_sums[i] * y_sums[i];
        }
        sum[o] = (float)own[0];
        squares[o] = (float)own[1];
    }
}

template <typename T>
void weights_kernel(ls__op op, const T *x, const T *a, const T *b, const T *dy, float *dw)
{
    const shape in = shape_of(&op.operands[0]), out = shape_of(&op.operands[3]);
    const int64_t count = ls_shape_element_count(&op.operands[4].shape);
    for (int64_t i = 0; i < count; i++) dw[i] = 0;
    visit(&op, in, out, [&](int64_t x_at, int64_t at, int64_t y_at) {
        for (int64_t o = 0; o < out.c; o++)
            visit_inputs(&op, in, out, o, at, [&](int64_t c, int64_t w_at) {
                dw[w_at] += (float)(read(x, a, b, x_at, c) * ls__to_f32(dy[y_at + o]));
            });
    });
}

/* The vectors of NORM_CONV2D_BACKWARD_DATA. */
struct data_vectors {
    const float *mean, *invstd, *scale, *shift;
    float *dscale, *dshift, *p, *q, *r;
};

template <typename T>
void data_kernel(ls__op op, double *gradient, const T *dy, const T *w, const T *x, data_vectors v,
                 T *dz)
{
    const shape in = shape_of(&op.operands[2]), out = shape_of(&op.operands[0]);
    const double m = (double)(in.n * in.h * in.w);
    for (int64_t i = 0; i < count_of(in); i++) gradient[i] = 0;
    visit(&op, in, out, [&](int64_t x_at, int64_t at, int64_t y_at) {
        for (int64_t o = 0; o < out.c; o++)
            visit_inputs(&op, in, out, o, at, [&](int64_t c, int64_t w_at) {
                gradient[x_at + c] += (double)ls__to_f32(dy[y_at + o]) * ls__to_f32(w[w_at]);
            });
    });
    for (int64_t c = 0; c < in.c; c++) {
        const double mean = v.mean[c], invstd = v.invstd[c], scale = v.scale[c];
        double dscale = 0, dshift = 0;
        for (int64_t i = c; i < count_of(in); i += in.c) {
            const double normal = (ls__to_f32(x[i]) - mean) * invstd;
            const double own = normal * scale + v.shift[c] > 0 ? gradient[i] : 0;
            dscale += own * normal;
            dshift += own;
            ls__put(dz + i, (float)own);
        }
        const double p = scale * invstd, q = -p * invstd * dscale / m;
        v.dscale[c] = (float)dscale;
        v.dshift[c] = (float)dshift;
        v.p[c] = (float)p;
        v.q[c] = (float)q;
        v.r[c] = (float)(-p * dshift / m - q * mean);
    }
}

} // namespace

int emulate_fused(const ls__op *op, void *const *b, double *scratch, void *stream)
{
    return ls__with_type(&op->operands[0], [=](auto type) {
        typedef decltype(type) T;
        const ls__op copy = *op;
        switch (op->kind) {
        case LS__OP_CONV2D_STATISTICS:
            return LS__LAUNCH(statistics_kernel<T>, 1, 1, stream, copy, scratch, (const T *)b[0],
                              (const T *)NULL, (const T *)NULL, (const T *)b[1], (T *)b[2],
                              (float *)b[3], (float *)b[4], 2);
        case LS__OP_NORM_CONV2D_STATISTICS:
            return LS__LAUNCH(statistics_kernel<T>, 1, 1, stream, copy, scratch, (const T *)b[0],
                              (const T *)b[1], (const T *)b[2], (const T *)b[3], (T *)b[4],
                              (float *)b[5], (float *)b[6], 4);
        case LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS:
            return LS__LAUNCH(weights_kernel<T>, 1, 1, stream, copy, (const T *)b[0],
                              (const T *)b[1], (const T *)b[2], (const T *)b[3], (float *)b[4]);
        default: {
            const data_vectors v = { (const float *)b[3], (const float *)b[4], (const float *)b[5],
                                     (const float *)b[6], (float *)b[8],       (float *)b[9],
                                     (float *)b[10],      (float *)b[11],      (float *)b[12] };
            return LS__LAUNCH(data_kernel<T>, 1, 1, stream, copy, scratch, (const T *)b[0],
                              (const T *)b[1], (const T *)b[2], v, (T *)b[7]);
        }
        }
    });
}
