/* elementwise.cu: kernels that compute each element by itself. */
#include "base/element.h"
#include "base/philox.h"
#include "cuda/kernels/portable.h"

/* Activations as rows of channels: everything before the last dimension is a row. */
typedef struct rows {
    int64_t n, channels;
} rows;

static rows rows_of(const ls__operand *operand)
{
    const ls_shape *s = &operand->shape;
    rows r = { 1, s->n_dims > 0 ? s->dims[s->n_dims - 1] : 1 };
    for (int i = 0; i + 1 < s->n_dims; i++) r.n *= s->dims[i];
    return r;
}

static int64_t count_of(const ls__operand *operand)
{
    const rows r = rows_of(operand);
    return r.n * r.channels;
}

static __global__ void relu_kernel(const float *x, float *y, int64_t count)
{
    LS__FOR_EACH(i, count) y[i] = ls__relu(x[i]);
}

int ls__cuda_relu(const ls__cuda_call *call)
{
    const int64_t count = count_of(&call->op->operands[0]);
    return LS__LAUNCH(relu_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (const float *)call->buffers[0], (float *)call->buffers[1], count);
}

static __global__ void relu_backward_kernel(const float *y, const float *dy, float *dx,
                                            int64_t count)
{
    LS__FOR_EACH(i, count) dx[i] = y[i] > 0 ? dy[i] : 0;
}

int ls__cuda_relu_backward(const ls__cuda_call *call)
{
    const int64_t count = count_of(&call->op->operands[0]);
    return LS__LAUNCH(relu_backward_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (const float *)call->buffers[0], (const float *)call->buffers[1],
                      (float *)call->buffers[2], count);
}

static __global__ void add_kernel(const float *a, const float *b, float *y, int64_t count,
                                  bool relu)
{
    LS__FOR_EACH(i, count)
    {
        const float sum = a[i] + b[i];
        y[i] = relu ? ls__relu(sum) : sum;
    }
}

int ls__cuda_add(const ls__cuda_call *call)
{
    const int64_t count = count_of(&call->op->operands[0]);
    return LS__LAUNCH(add_kernel, ls__blocks_for(count), LS__BLOCK, call->stream,
                      (const float *)call->buffers[0], (const float *)call->buffers[1],
                      (float *)call->buffers[2], count, call->op->u.add.relu);
}

typedef struct normalization {
    float mean[4], deviation[4];
} normalization;

enum { BYTES = 256 };
static const unsigned NORMALIZE_BLOCKS = 2048;

/* Every block makes a table of what the bytes become, exactly as on the CPU. */
static __global__ void normalize_kernel(const uint8_t *x, float *y, int64_t count, int channels,
                                        normalization by)
{
    __shared__ float table[4 * BYTES];
    for (int byte = (int)threadIdx.x; byte < BYTES; byte += LS__BLOCK) LS__UNROLL
    for (int c = 0; c < 4; c++) /* indices that are known keep `by` out of memory */
        if (c < channels)
            table[byte * channels + c] = ls__normalize((uint8_t)byte, by.mean[c], by.deviation[c]);
    __syncthreads();
    LS__FOR_EACH(i, count) y[i] = table[x[i] * channels + (int)(i % channels)];
}

int ls__cuda_normalize(const ls__cuda_call *call)
{
    const rows r = rows_of(&call->op->operands[0]);
    normalization by;
    memcpy(by.mean, call->op->u.normalize.mean, sizeof(by.mean));
    memcpy(by.deviation, call->op->u.normalize.deviation, sizeof(by.deviation));
    const unsigned blocks = ls__blocks_for(r.n * r.channels);
    return LS__LAUNCH(normalize_kernel, blocks < NORMALIZE_BLOCKS ? blocks : NORMALIZE_BLOCKS,
                      LS__BLOCK, call->stream, (const uint8_t *)call->buffers[0],
                      (float *)call->buffers[1], r.n * r.channels, (int)r.channels, by);
}

/* Channels that x does not have are 0; those that y does not have are left out. */
static __global__ void pad_channels_kernel(const float *x, float *y, int64_t count,
                                           int64_t x_channels, int64_t y_channels)
{
    LS__FOR_EACH(i, count)
    {
        const int64_t row = i / y_channels, c = i % y_channels;
        y[i] = c < x_channels ? x[row * x_channels + c] : 0;
    }
}

int ls__cuda_pad_channels(const ls__cuda_call *call)
{
    const rows x = rows_of(&call->op->operands[0]), y = rows_of(&call->op->operands[1]);
    return LS__LAUNCH(pad_channels_kernel, ls__blocks_for(y.n * y.channels), LS__BLOCK,
                      call->stream, (const float *)call->buffers[0], (float *)call->buffers[1],
                      y.n * y.channels, x.channels, y.channels);
}

/* Both sides lie alike: there is one layout here. */
int ls__cuda_reorder(const ls__cuda_call *call)
{
    const rows x = rows_of(&call->op->operands[0]);
    return LS__LAUNCH(pad_channels_kernel, ls__blocks_for(x.n * x.channels), LS__BLOCK,
                      call->stream, (const float *)call->buffers[0], (float *)call->buffers[1],
                      x.n * x.channels, x.channels, x.channels);
}

/* A thread takes the four elements that share a draw. */
static __global__ void dropout_kernel(const float *x, float *y, int64_t count, uint32_t layer,
                                      float probability, float factor,
                                      const ls__cuda_numbers *numbers)
{
    ls_draw draw = { LS_STREAM_DROPOUT, 0, 0, 0, 0, 0 };
    draw.layer = layer;
    draw.epoch = (uint32_t)numbers->epoch;
    draw.step = (uint64_t)numbers->step;
    const ls__philox_input input = ls__random_input(numbers->seed, &draw);
    LS__FOR_EACH(four, (count + 3) / 4)
    {
        uint32_t words[4];
        ls__philox_sample(&input, (uint64_t)four, words);
        for (int j = 0; j < 4; j++) {
            const int64_t i = 4 * four + j;
            if (i < count) y[i] = ls__word_uniform(words[j]) >= probability ? x[i] * factor : 0;
        }
    }
}

int ls__cuda_dropout(const ls__cuda_call *call)
{
    const int64_t count = count_of(&call->op->operands[0]);
    const float probability = call->op->u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    return LS__LAUNCH(dropout_kernel, ls__blocks_for((count + 3) / 4), LS__BLOCK, call->stream,
                      (const float *)call->buffers[0], (float *)call->buffers[1], count,
                      call->op->u.dropout.layer, probability, factor, call->numbers);
}

/* x -> y in another type */
int ls__cuda_cast_op(const ls__cuda_call *call)
{
    const ls__operand *x = &call->op->operands[0], *y = &call->op->operands[1];
    return ls__cuda_cast(y->dtype, call->buffers[1], x->dtype, call->buffers[0], count_of(x),
                         call->stream);
}
