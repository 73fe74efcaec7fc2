/* elementwise.cu: element-wise kernels. */
#include "base/element.h"
#include "base/philox.h"
#include "cuda/kernels/access.h"
#include "cuda/kernels/divide.h"

/* An operand as [n, channels]: all dimensions but the last make one. */
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

/* Blocks for kernels whose threads process packs. */
template <typename T> static unsigned blocks_of(int64_t count)
{
    return ls__blocks_for(count / ls__pack<T>::n);
}

/* y = f(x), F being a type without members. */
template <typename F, typename T>
static __global__ void unary_kernel(const T *x, T *y, int64_t count)
{
    ls__for_each_pack<T>(count, [=](auto access, int64_t i) {
        typedef decltype(access) A;
        float v[A::n];
        ls__load<A>(x + i, v);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) v[j] = F::of(v[j]);
        A::store(y + i, v);
    });
}

/* y = f(a, b) */
template <typename F, typename T>
static __global__ void binary_kernel(const T *a, const T *b, T *y, int64_t count)
{
    ls__for_each_pack<T>(count, [=](auto access, int64_t i) {
        typedef decltype(access) A;
        float v[A::n], w[A::n];
        ls__load<A>(a + i, v);
        ls__load<A>(b + i, w);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) v[j] = F::of(v[j], w[j]);
        A::store(y + i, v);
    });
}

/* Starts the kernel of F for the type of the first operand; the last one is the result. */
template <typename F> static int unary(const ls__cuda_call *call)
{
    const ls__operand *x = &call->op->operands[0];
    const int64_t count = count_of(x);
    return ls__with_type(x, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH((unary_kernel<F, T>), blocks_of<T>(count), LS__BLOCK, call->stream,
                          (const T *)call->buffers[0], (T *)call->buffers[1], count);
    });
}

template <typename F> static int binary(const ls__cuda_call *call)
{
    const ls__operand *a = &call->op->operands[0];
    const int64_t count = count_of(a);
    return ls__with_type(a, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH((binary_kernel<F, T>), blocks_of<T>(count), LS__BLOCK, call->stream,
                          (const T *)call->buffers[0], (const T *)call->buffers[1],
                          (T *)call->buffers[2], count);
    });
}

struct relu {
    static __device__ float of(float x)
    {
        return ls__relu(x);
    }
};
struct relu_backward {
    static __device__ float of(float y, float dy)
    {
        return y > 0 ? dy : 0;
    }
};
struct sigmoid {
    static __device__ float of(float x)
    {
        return ls__sigmoid(x);
    }
};
struct sigmoid_backward {
    static __device__ float of(float y, float dy)
    {
        return ls__sigmoid_gradient(y, dy);
    }
};
struct add {
    static __device__ float of(float a, float b)
    {
        return a + b;
    }
};
struct add_relu {
    static __device__ float of(float a, float b)
    {
        return ls__relu(a + b);
    }
};
struct mul {
    static __device__ float of(float a, float b)
    {
        return a * b;
    }
};

int ls__cuda_relu(const ls__cuda_call *call)
{
    return unary<relu>(call);
}

int ls__cuda_relu_backward(const ls__cuda_call *call)
{
    return binary<relu_backward>(call);
}

int ls__cuda_sigmoid(const ls__cuda_call *call)
{
    return unary<sigmoid>(call);
}

int ls__cuda_sigmoid_backward(const ls__cuda_call *call)
{
    return binary<sigmoid_backward>(call);
}

int ls__cuda_add(const ls__cuda_call *call)
{
    return call->op->u.add.relu ? binary<add_relu>(call) : binary<add>(call);
}

int ls__cuda_mul(const ls__cuda_call *call)
{
    return binary<mul>(call);
}

typedef struct normalization {
    float mean[4], std[4];
} normalization;

enum { BYTES = 256 };
static const unsigned NORMALIZE_BLOCKS = 2048;

/* One byte per element of a pack, in one load. */
template <int N> struct __attribute__((aligned(N))) byte_pack {
    uint8_t of[N];
};

/* Every block makes a table of the 256 normalized values, with the CPU's arithmetic. */
template <int CHANNELS> static __device__ void fill_table(float *table, const normalization &by)
{
    for (int byte = (int)threadIdx.x; byte < BYTES; byte += LS__BLOCK) LS__UNROLL
    for (int c = 0; c < CHANNELS; c++) /* constant indices keep `by` in registers */
        table[byte * CHANNELS + c] = ls__normalize((uint8_t)byte, by.mean[c], by.std[c]);
    __syncthreads();
}

template <typename T, int CHANNELS>
static __global__ void normalize_kernel(const uint8_t *x, T *y, int64_t count, normalization by)
{
    __shared__ float table[CHANNELS * BYTES];
    fill_table<CHANNELS>(table, by);
    const float *values = table;
    ls__for_each_pack<T>(count, [=](auto access, int64_t i) {
        typedef decltype(access) A;
        const byte_pack<A::n> bytes = *(const byte_pack<A::n> *)(x + i);
        float v[A::n];
        int c = (int)(i % CHANNELS);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) {
            v[j] = values[bytes.of[j] * CHANNELS + c];
            c = c + 1 == CHANNELS ? 0 : c + 1;
        }
        A::store(y + i, v);
    });
}

template <int CHANNELS>
static int normalize(const ls__cuda_call *call, int64_t count, normalization by)
{
    return ls__with_type(&call->op->operands[1], [=](auto type) {
        typedef decltype(type) T;
        const unsigned blocks = blocks_of<T>(count);
        return LS__LAUNCH((normalize_kernel<T, CHANNELS>),
                          blocks < NORMALIZE_BLOCKS ? blocks : NORMALIZE_BLOCKS, LS__BLOCK,
                          call->stream, (const uint8_t *)call->buffers[0], (T *)call->buffers[1],
                          count, by);
    });
}

/* y has more channels than x, and zeros in them. Each thread writes a pixel. Its first pack holds
 * all of x's channels; with packs of one element each channel has its own. */
template <typename A, int CHANNELS>
static __global__ void normalize_padded_kernel(const uint8_t *x, typename A::stored *y,
                                               int64_t pixels, int64_t packs, normalization by)
{
    enum { N = (int)A::n < CHANNELS ? (int)A::n : CHANNELS };
    __shared__ float table[CHANNELS * BYTES];
    fill_table<CHANNELS>(table, by);
    LS__FOR_EACH(pixel, pixels)
    {
        const uint8_t *bytes = x + pixel * CHANNELS;
        LS__ROLLED
        for (int64_t p = 0; p < packs; p++) {
            float v[A::n] = {};
            if (p < CHANNELS / N) {
                LS__UNROLL
                for (int j = 0; j < N; j++) v[j] = table[bytes[p + j] * CHANNELS + p + j];
            }
            A::store(y + (pixel * packs + p) * A::n, v);
        }
    }
}

template <int CHANNELS>
static int normalize_padded(const ls__cuda_call *call, rows y, normalization by)
{
    return ls__with_access(&call->op->operands[1], y.channels, [=](auto access) {
        typedef decltype(access) A;
        const unsigned blocks = ls__blocks_for(y.n);
        return LS__LAUNCH((normalize_padded_kernel<A, CHANNELS>),
                          blocks < NORMALIZE_BLOCKS ? blocks : NORMALIZE_BLOCKS, LS__BLOCK,
                          call->stream, (const uint8_t *)call->buffers[0],
                          (typename A::stored *)call->buffers[1], y.n, y.channels / A::n, by);
    });
}

template <int CHANNELS>
static int normalize_rows(const ls__cuda_call *call, rows x, normalization by)
{
    const rows y = rows_of(&call->op->operands[1]);
    return y.channels > CHANNELS ? normalize_padded<CHANNELS>(call, y, by)
                                 : normalize<CHANNELS>(call, x.n * CHANNELS, by);
}

int ls__cuda_normalize(const ls__cuda_call *call)
{
    const rows x = rows_of(&call->op->operands[0]);
    normalization by;
    memcpy(by.mean, call->op->u.normalize.mean, sizeof(by.mean));
    memcpy(by.std, call->op->u.normalize.std, sizeof(by.std));
    switch (x.channels) {
    case 1: return normalize_rows<1>(call, x, by);
    case 2: return normalize_rows<2>(call, x, by);
    case 3: return normalize_rows<3>(call, x, by);
    default: return normalize_rows<4>(call, x, by);
    }
}

/* Channels beyond x's are 0, and channels beyond y's are dropped. Counts are in packs. */
template <typename A, typename I>
static __global__ void pad_channels_kernel(const typename A::stored *x, typename A::stored *y,
                                           I count, I x_channels, ls__divisor<I> by_y_channels)
{
    LS__FOR_EACH_OF(I, i, count)
    {
        const I row = by_y_channels.quotient(i), c = i - row * by_y_channels.by;
        const int64_t from = (int64_t)row * x_channels + c;
        typename A::raw value = {};
        if (c < x_channels) value = A::fetch(x + from * A::n);
        A::store_raw(y + (int64_t)i * A::n, value);
    }
}

static int pad_channels(const ls__cuda_call *call, rows x, rows y)
{
    const int64_t count = y.n * y.channels,
                  larger = x.n * x.channels > count ? x.n * x.channels : count;
    const auto start = [=](auto access, auto number) {
        typedef decltype(access) A;
        typedef decltype(number) I;
        typedef typename A::stored T;
        return LS__LAUNCH((pad_channels_kernel<A, I>), ls__blocks_for(count / A::n), LS__BLOCK,
                          call->stream, (const T *)call->buffers[0], (T *)call->buffers[1],
                          (I)(count / A::n), (I)(x.channels / A::n),
                          ls__divisor<I>::of(y.channels / A::n));
    };
    return ls__with_type(&call->op->operands[0], [=](auto type) {
        typedef ls__pack<decltype(type)> pack;
        typedef ls__single<decltype(type)> single;
        if (x.channels % pack::n == 0 && y.channels % pack::n == 0 &&
            larger / pack::n <= LS__MAX_INT32_COUNT)
            return start(pack(), (int32_t)0);
        return larger <= LS__MAX_INT32_COUNT ? start(single(), (int32_t)0)
                                             : start(single(), (int64_t)0);
    });
}

int ls__cuda_pad_channels(const ls__cuda_call *call)
{
    return pad_channels(call, rows_of(&call->op->operands[0]), rows_of(&call->op->operands[1]));
}

/* A copy, because there is only one layout. */
int ls__cuda_reorder(const ls__cuda_call *call)
{
    const rows x = rows_of(&call->op->operands[0]);
    return pad_channels(call, x, x);
}

/* Packs of each row of y, from `to` on, are those of x from `from` on; x NULL: zeros. */
template <typename A, typename I>
static __global__ void copy_channels_kernel(const typename A::stored *x, int64_t x_channels,
                                            int64_t from, typename A::stored *y, int64_t y_channels,
                                            int64_t to, I count, ls__divisor<I> by_channels)
{
    LS__FOR_EACH_OF(I, i, count)
    {
        const I row = by_channels.quotient(i), c = i - row * by_channels.by;
        typename A::raw value = {};
        if (x) value = A::fetch(x + ((int64_t)row * x_channels + from + c) * A::n);
        A::store_raw(y + ((int64_t)row * y_channels + to + c) * A::n, value);
    }
}

/* An activation of some channels in a row, and the first of those that are copied. */
typedef struct channel_range {
    void *memory;
    int64_t channels, first;
} channel_range;

static int copy_channels(const ls__cuda_call *call, channel_range x, channel_range y, int64_t n)
{
    const ls__operand *operand = &call->op->operands[0];
    const int64_t count = rows_of(operand).n * n;
    if (count == 0) return 0;
    const auto start = [=](auto access, auto number) {
        typedef decltype(access) A;
        typedef decltype(number) I;
        typedef typename A::stored T;
        return LS__LAUNCH((copy_channels_kernel<A, I>), ls__blocks_for(count / A::n), LS__BLOCK,
                          call->stream, (const T *)x.memory, x.channels / A::n, x.first / A::n,
                          (T *)y.memory, y.channels / A::n, y.first / A::n, (I)(count / A::n),
                          ls__divisor<I>::of(n / A::n));
    };
    /* packs where all numbers of channels are multiples of a pack's elements, a power of two */
    const int64_t common = x.channels | x.first | y.channels | y.first | n;
    return ls__with_type(operand, [=](auto type) {
        typedef ls__pack<decltype(type)> pack;
        typedef ls__single<decltype(type)> single;
        if (common % pack::n == 0 && count / pack::n <= LS__MAX_INT32_COUNT)
            return start(pack(), (int32_t)0);
        return count <= LS__MAX_INT32_COUNT ? start(single(), (int32_t)0)
                                            : start(single(), (int64_t)0);
    });
}

int ls__cuda_concat(const ls__cuda_call *call)
{
    const int64_t n = rows_of(&call->op->operands[0]).channels;
    const int64_t all = rows_of(&call->op->operands[2]).channels;
    const int64_t offset = call->op->u.concat.offset, end = offset + n;
    void *const rest = call->buffers[1], *const y = call->buffers[2];
    int status = copy_channels(call, (channel_range){ call->buffers[0], n, 0 },
                               (channel_range){ y, all, offset }, n);
    if (rest == y) return status;
    if (status == 0)
        status = copy_channels(call, (channel_range){ rest, all, 0 }, (channel_range){ y, all, 0 },
                               offset);
    if (status == 0)
        status = copy_channels(call, (channel_range){ rest, all, end },
                               (channel_range){ y, all, end }, all - end);
    return status;
}

int ls__cuda_concat_backward(const ls__cuda_call *call)
{
    const int64_t n = rows_of(&call->op->operands[1]).channels;
    const int64_t all = rows_of(&call->op->operands[0]).channels;
    return copy_channels(call, (channel_range){ call->buffers[0], all, call->op->u.concat.offset },
                         (channel_range){ call->buffers[1], n, 0 }, n);
}

template <typename T> struct __attribute__((aligned(4 * sizeof(T)))) four {
    T of[4];
};

/* A thread processes the four elements of one Philox block. */
template <typename T>
static __global__ void dropout_kernel(const T *x, T *y, int64_t count, uint32_t layer,
                                      float probability, float factor, const ls__step *step)
{
    ls_draw draw = { LS_RANDOM_DROPOUT, 0, 0, 0, 0, 0 };
    draw.layer = layer;
    draw.epoch = (uint32_t)step->epoch;
    draw.step = (uint64_t)step->step;
    const ls__philox_input input = ls__random_input(step->seed, &draw);
    const auto dropped = [=](T value, uint32_t word) {
        const bool kept = ls__word_uniform(word) >= probability;
        ls__put(&value, kept ? ls__to_f32(value) * factor : 0);
        return value;
    };
    LS__FOR_EACH(group, (count + 3) / 4)
    {
        uint32_t words[4];
        ls__philox_sample(&input, (uint64_t)group, words);
        const int64_t first = 4 * group;
        if (first + 4 <= count) {
            four<T> values = *(const four<T> *)(x + first);
            LS__UNROLL
            for (int j = 0; j < 4; j++) values.of[j] = dropped(values.of[j], words[j]);
            *(four<T> *)(y + first) = values;
        } else {
            LS__UNROLL
            for (int j = 0; j < 3; j++)
                if (first + j < count) y[first + j] = dropped(x[first + j], words[j]);
        }
    }
}

int ls__cuda_dropout(const ls__cuda_call *call)
{
    const ls__operand *x = &call->op->operands[0];
    const int64_t count = count_of(x);
    const float probability = call->op->u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    return ls__with_type(x, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(dropout_kernel<T>, ls__blocks_for((count + 3) / 4), LS__BLOCK,
                          call->stream, (const T *)call->buffers[0], (T *)call->buffers[1], count,
                          call->op->u.dropout.layer, probability, factor, call->step);
    });
}

/* y = x in another type. */
int ls__cuda_cast_op(const ls__cuda_call *call)
{
    const ls__operand *x = &call->op->operands[0], *y = &call->op->operands[1];
    return ls__cuda_cast(y->dtype, call->buffers[1], x->dtype, call->buffers[0], count_of(x),
                         call->stream);
}
