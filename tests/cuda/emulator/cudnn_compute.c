/* cudnn_compute.c: runs a program of the emulated cuDNN, step by step. Tensors are read into dense
 * f32 arrays in the order N,C,H,W, or weights K,C,R,S; what a step makes is narrowed to its
 * tensor's type, virtual or not. Products and sums are f32. */
#include "arith/half.h"
#include "cudnn_program.h"
#include "narrow.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_of(const cudnn_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

/* The place in memory of element i, in elements. */
static int64_t place_of(const cudnn_tensor *t, int64_t i)
{
    int64_t place = 0;
    for (int d = 3; d >= 0; i /= t->dims[d--]) place += i % t->dims[d] * t->strides[d];
    return place;
}

static float load(const cudnn_tensor *t, int64_t i)
{
    const void *at = (const char *)t->memory + (size_t)place_of(t, i) * cudnn_type_bytes(t->type);
    if (t->type == CUDNN_DATA_HALF) return ls__f16_to_f32(*(const uint16_t *)at);
    if (t->type == CUDNN_DATA_BFLOAT16) return ls__bf16_to_f32(*(const uint16_t *)at);
    return *(const float *)at;
}

static void store(const cudnn_tensor *t, int64_t i, float value)
{
    void *at = (char *)t->memory + (size_t)place_of(t, i) * cudnn_type_bytes(t->type);
    if (t->type == CUDNN_DATA_HALF)
        *(uint16_t *)at = ls__f32_to_f16(value);
    else if (t->type == CUDNN_DATA_BFLOAT16)
        *(uint16_t *)at = ls__f32_to_bf16(value);
    else
        *(float *)at = value;
}

/* ---- Arrays ---- */

typedef struct run {
    const cudnn_program *program;
    float *arrays[CUDNN_MAX_TENSORS]; /* NULL: not read or made yet */
} run;

static float *allocate(int64_t n)
{
    float *made = calloc((size_t)n, sizeof *made);
    if (!made) abort();
    return made;
}

static const cudnn_tensor *tensor_of(const run *r, const cudnn_step *s, int role)
{
    return &r->program->tensors[s->tensors[role]];
}

static const float *input(run *r, const cudnn_step *s, int role)
{
    float **array = &r->arrays[s->tensors[role]];
    const cudnn_tensor *t = tensor_of(r, s, role);
    if (*array) return *array;
    *array = allocate(count_of(t));
    for (int64_t i = 0; i < count_of(t); i++) (*array)[i] = load(t, i);
    return *array;
}

/* Returns an array that the caller fills and passes to finish. */
static float *output(run *r, const cudnn_step *s, int role)
{
    return r->arrays[s->tensors[role]] = allocate(count_of(tensor_of(r, s, role)));
}

static void finish(run *r, const cudnn_step *s, int role)
{
    float *array = r->arrays[s->tensors[role]];
    const cudnn_tensor *t = tensor_of(r, s, role);
    for (int64_t i = 0; i < count_of(t); i++) {
        if (t->type == CUDNN_DATA_HALF) array[i] = ls__f16_to_f32(ls__f32_to_f16(array[i]));
        if (t->type == CUDNN_DATA_BFLOAT16) array[i] = ls__bf16_to_f32(ls__f32_to_bf16(array[i]));
        if (!t->is_virtual) store(t, i, array[i]);
    }
}

/* ---- Convolutions ---- */

/* A convolution in any direction: calls multiply(job, x, w, y) with the places of all that meet. */
typedef struct convolution {
    const float *left, *right; /* what is multiplied */
    int left_role, right_role, sum_role;
    cudnn_arithmetic arithmetic;
    int64_t n_sums;
    float *sums;      /* (parts, sums) */
    int64_t *n_added; /* to each sum, counted */
} convolution;

static void multiply(convolution *c, const int64_t at[3])
{
    const int64_t sum = at[c->sum_role];
    const int64_t part = c->n_added[sum]++ % c->arithmetic.n_parts;
    c->sums[part * c->n_sums + sum] +=
        emulated_round(c->left[at[c->left_role]], c->arithmetic.mantissa_bits) *
        emulated_round(c->right[at[c->right_role]], c->arithmetic.mantissa_bits);
}

static void visit_window(convolution *c, const cudnn_step *s, const int64_t *x, const int64_t *w,
                         const int64_t *y, int64_t n, int64_t k, int64_t p, int64_t q)
{
    const int64_t first = k / (w[0] / (x[1] / w[1])) * w[1]; /* channel of the group */
    for (int64_t i = 0; i < w[1]; i++)
        for (int64_t a = 0; a < w[2]; a++)
            for (int64_t b = 0; b < w[3]; b++) {
                const int64_t h = p * s->stride[0] + a * s->dilation[0] - s->padding[0];
                const int64_t v = q * s->stride[1] + b * s->dilation[1] - s->padding[1];
                if (h < 0 || h >= x[2] || v < 0 || v >= x[3]) continue;
                const int64_t at[3] = { ((n * x[1] + first + i) * x[2] + h) * x[3] + v,
                                        ((k * w[1] + i) * w[2] + a) * w[3] + b,
                                        ((n * y[1] + k) * y[2] + p) * y[3] + q };
                multiply(c, at);
            }
}

static void convolve(run *r, const cudnn_step *s)
{
    static int64_t n_runs; /* what changes from run to run */
    const int result = s->letter == 'D'   ? CUDNN_ROLE_X
                       : s->letter == 'W' ? CUDNN_ROLE_W
                                          : CUDNN_ROLE_Y;
    const int left = s->letter == 'D' ? CUDNN_ROLE_Y : CUDNN_ROLE_X;
    const int right = s->letter == 'W' ? CUDNN_ROLE_Y : CUDNN_ROLE_W;
    const int64_t *y = tensor_of(r, s, CUDNN_ROLE_Y)->dims;
    convolution c = { .left = input(r, s, left),
                      .right = input(r, s, right),
                      .left_role = left,
                      .right_role = right,
                      .sum_role = result,
                      .arithmetic = r->program->arithmetic,
                      .n_sums = count_of(tensor_of(r, s, result)) };
    float *out = output(r, s, result);
    c.sums = allocate(c.n_sums * c.arithmetic.n_parts);
    c.n_added = calloc((size_t)c.n_sums, sizeof *c.n_added);
    if (!c.n_added) abort();
    for (int64_t n = 0; n < y[0]; n++)
        for (int64_t k = 0; k < y[1]; k++)
            for (int64_t p = 0; p < y[2]; p++)
                for (int64_t q = 0; q < y[3]; q++)
                    visit_window(&c, s, tensor_of(r, s, CUDNN_ROLE_X)->dims,
                                 tensor_of(r, s, CUDNN_ROLE_W)->dims, y, n, k, p, q);
    const int64_t first = c.arithmetic.repeats ? 0 : n_runs++;
    for (int64_t i = 0; i < c.n_sums; i++)
        for (int64_t part = 0; part < c.arithmetic.n_parts; part++)
            out[i] += c.sums[(first + part) % c.arithmetic.n_parts * c.n_sums + i];
    free(c.sums);
    free(c.n_added);
    finish(r, s, result);
}

/* ---- Everything between ---- */

static float apply(cudnnPointwiseMode_t mode, float a, float b)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return a + b;
    case CUDNN_POINTWISE_SUB: return a - b;
    case CUDNN_POINTWISE_MUL: return a * b;
    case CUDNN_POINTWISE_RELU_BWD: return b > 0 ? a : 0; /* a is dy, b is x */
    default: return a > 0 ? a : 0;
    }
}

static void pointwise(run *r, const cudnn_step *s)
{
    const bool has_b = s->tensors[CUDNN_ROLE_B] >= 0;
    const float *a = input(r, s, CUDNN_ROLE_A), *b = has_b ? input(r, s, CUDNN_ROLE_B) : NULL;
    float *y = output(r, s, CUDNN_ROLE_RESULT);
    const int64_t *of = tensor_of(r, s, CUDNN_ROLE_RESULT)->dims;
    const int64_t *dims = has_b ? tensor_of(r, s, CUDNN_ROLE_B)->dims : NULL;
    for (int64_t i = 0; i < count_of(tensor_of(r, s, CUDNN_ROLE_RESULT)); i++) {
        int64_t at = 0, step = 1, rest = i;
        for (int d = 3; d >= 0 && has_b; rest /= of[d--]) {
            if (dims[d] > 1) at += rest % of[d] * step;
            step *= dims[d];
        }
        y[i] = apply(s->mode, a[i], has_b ? b[at] : 0);
    }
    finish(r, s, CUDNN_ROLE_RESULT);
}

static void statistics(run *r, const cudnn_step *s)
{
    const float *x = input(r, s, CUDNN_ROLE_OF);
    const int64_t *d = tensor_of(r, s, CUDNN_ROLE_OF)->dims, area = d[2] * d[3];
    float *sum = output(r, s, CUDNN_ROLE_SUM), *squares = output(r, s, CUDNN_ROLE_SQUARES);
    for (int64_t c = 0; c < d[1]; c++) {
        double of_values = 0, of_squares = 0;
        for (int64_t i = 0; i < d[0] * area; i++) {
            const double value = x[(i / area * d[1] + c) * area + i % area];
            of_values += value;
            of_squares += value * value;
        }
        sum[c] = (float)of_values;
        squares[c] = (float)of_squares;
    }
    finish(r, s, CUDNN_ROLE_SUM);
    finish(r, s, CUDNN_ROLE_SQUARES);
}

/* dx = p dz + q x + r, of the norm whose result's gradient is dz. */
static void norm_backward(run *r, const cudnn_step *s)
{
    enum { X, DZ, MEAN, INVSTD, SCALE, DSCALE, DSHIFT, P, Q, R };
    const float *x = input(r, s, X), *dz = input(r, s, DZ), *mean = input(r, s, MEAN),
                *invstd = input(r, s, INVSTD), *scale = input(r, s, SCALE);
    const int64_t *d = tensor_of(r, s, X)->dims, area = d[2] * d[3], m = d[0] * area;
    float *results[R + 1] = { NULL };
    for (int role = DSCALE; role <= R; role++) results[role] = output(r, s, role);
    for (int64_t c = 0; c < d[1]; c++) {
        double dscale = 0, dshift = 0;
        for (int64_t i = 0; i < m; i++) {
            const int64_t at = (i / area * d[1] + c) * area + i % area;
            dscale += (double)dz[at] * (((double)x[at] - mean[c]) * invstd[c]);
            dshift += dz[at];
        }
        const double p = (double)scale[c] * invstd[c], q = -p * invstd[c] * dscale / (double)m;
        results[DSCALE][c] = (float)dscale;
        results[DSHIFT][c] = (float)dshift;
        results[P][c] = (float)p;
        results[Q][c] = (float)q;
        results[R][c] = (float)(-p * dshift / (double)m - q * mean[c]);
    }
    for (int role = DSCALE; role <= R; role++) finish(r, s, role);
}

static void norm_finalize(run *r, const cudnn_step *s)
{
    enum { SUM, SQUARES, SCALE, SHIFT, OLD_MEAN, OLD_VAR, COUNT, EPSILON, FACTOR, FIRST };
    enum { MEAN = FIRST, INVSTD, A, B, NEW_MEAN, NEW_VAR, END };
    const float *in[FIRST] = { NULL };
    float *out[END] = { NULL };
    for (int role = SUM; role <= OLD_VAR; role++) in[role] = input(r, s, role);
    for (int role = FIRST; role < END; role++) out[role] = output(r, s, role);
    const double m = (double)tensor_of(r, s, COUNT)->value.i;
    const double epsilon = tensor_of(r, s, EPSILON)->value.f;
    const double factor = tensor_of(r, s, FACTOR)->value.f;
    for (int64_t c = 0; c < count_of(tensor_of(r, s, SUM)); c++) {
        const double mean = in[SUM][c] / m, var = in[SQUARES][c] / m - mean * mean;
        const double invstd = 1 / sqrt((var > 0 ? var : 0) + epsilon);
        const double unbiased = m > 1 ? var * m / (m - 1) : var;
        out[MEAN][c] = (float)mean;
        out[INVSTD][c] = (float)invstd;
        out[A][c] = (float)(in[SCALE][c] * invstd);
        out[B][c] = (float)(in[SHIFT][c] - mean * in[SCALE][c] * invstd);
        out[NEW_MEAN][c] = (float)((1 - factor) * in[OLD_MEAN][c] + factor * mean);
        out[NEW_VAR][c] = (float)((1 - factor) * in[OLD_VAR][c] + factor * unbiased);
    }
    for (int role = FIRST; role < END; role++) finish(r, s, role);
}

void cudnn_compute(void *program)
{
    run r = { .program = program };
    /* Nothing else may lie in the working memory. */
    if (r.program->workspace_bytes > 0)
        memset(r.program->workspace, 0xa5, (size_t)r.program->workspace_bytes);
    for (int i = 0; i < r.program->n_steps; i++) {
        const cudnn_step *s = &r.program->steps[i];
        switch (s->letter) {
        case 'P': pointwise(&r, s); break;
        case 'G': statistics(&r, s); break;
        case 'B': norm_backward(&r, s); break;
        case 'N': norm_finalize(&r, s); break;
        default: convolve(&r, s); break;
        }
    }
    for (int i = 0; i < r.program->n_tensors; i++) free(r.arrays[i]);
}
