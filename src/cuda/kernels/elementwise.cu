/* elementwise.cu: element-wise kernels. */
#include "arith/activation.h"
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

/* Blocks for kernels whose threads process packs. */
template <typename T> static unsigned blocks_of(int64_t count)
{
    return ls__blocks_for(count / ls__pack<T>::n);
}

/* One element of an op's result. RELU: of LS__OP_ADD; slope: of LS__OP_LEAKY_RELU. */
template <ls__op_kind KIND, bool RELU>
static __device__ float result_of(float a, float b, float slope)
{
    switch (KIND) {
#define UNARY_RESULTS(op, name)                                                                    \
    case LS__OP_##op: return ls__##name(a);                                                        \
    case LS__OP_##op##_BACKWARD: return ls__##name##_gradient(a, b);
        LS__UNARY_LIST(UNARY_RESULTS)
    case LS__OP_MUL: return a * b;
    case LS__OP_LEAKY_RELU: return ls__leaky_relu(a, slope);
    case LS__OP_LEAKY_RELU_BACKWARD: return ls__leaky_relu_gradient(a, b, slope);
    default: return RELU ? ls__relu(a + b) : a + b;
    }
}

/* b is NULL for ops of one input. */
template <ls__op_kind KIND, bool RELU, typename T>
static __global__ void elementwise_kernel(const T *a, const T *b, T *y, int64_t count, float slope)
{
    ls__for_each_pack<T>(count, [=](auto access, int64_t i) {
        typedef decltype(access) A;
        float v[A::n], w[A::n] = {};
        ls__load<A>(a + i, v);
#define IS_KIND(op, name) KIND == LS__OP_##op ||
        constexpr bool has_one_input = LS__UNARY_LIST(IS_KIND) KIND == LS__OP_LEAKY_RELU;
        if (!has_one_input) ls__load<A>(b + i, w);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) v[j] = result_of<KIND, RELU>(v[j], w[j], slope);
        A::store(y + i, v);
    });
}

template <ls__op_kind KIND, bool RELU = false> static int elementwise(const ls__cuda_call *call)
{
    const ls__operand *a = &call->op->operands[0];
    const int64_t count = ls_shape_element_count(&a->shape);
    void *const *b = call->buffers;
    const bool is_binary = call->op->n_operands == 3;
    const bool leaks = KIND == LS__OP_LEAKY_RELU || KIND == LS__OP_LEAKY_RELU_BACKWARD;
    const float slope = leaks ? call->op->u.leaky_relu.slope : 0;
    return ls__with_type(a, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH((elementwise_kernel<KIND, RELU, T>), blocks_of<T>(count), LS__BLOCK,
                          call->stream, (const T *)b[0], is_binary ? (const T *)b[1] : NULL,
                          (T *)b[is_binary ? 2 : 1], count, slope);
    });
}

int ls__cuda_elementwise(const ls__cuda_call *call)
{
    switch (call->op->kind) {
#define LAUNCH_UNARY(op, name)                                                                     \
    case LS__OP_##op: return elementwise<LS__OP_##op>(call);                                       \
    case LS__OP_##op##_BACKWARD: return elementwise<LS__OP_##op##_BACKWARD>(call);
        LS__UNARY_LIST(LAUNCH_UNARY)
    case LS__OP_MUL: return elementwise<LS__OP_MUL>(call);
    case LS__OP_LEAKY_RELU: return elementwise<LS__OP_LEAKY_RELU>(call);
    case LS__OP_LEAKY_RELU_BACKWARD: return elementwise<LS__OP_LEAKY_RELU_BACKWARD>(call);
    default:
        return call->op->u.add.relu ? elementwise<LS__OP_ADD, true>(call)
                                    : elementwise<LS__OP_ADD>(call);
    }
}

typedef struct normalization {
    float mean[4], std[4];
} normalization;

enum { BYTES = 256 };

/* Limits the blocks to 2048, because each makes a table. */
static unsigned normalize_blocks(unsigned blocks)
{
    return blocks < 2048 ? blocks : 2048;
}

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

template <int CHANNELS> static int normalize(const ls__cuda_call *call, rows y, normalization by)
{
    const ls__operand *operand = &call->op->operands[1];
    const uint8_t *x = (const uint8_t *)call->buffers[0];
    if (y.channels == CHANNELS)
        return ls__with_type(operand, [=](auto type) {
            typedef decltype(type) T;
            const int64_t count = y.n * CHANNELS;
            return LS__LAUNCH((normalize_kernel<T, CHANNELS>),
                              normalize_blocks(blocks_of<T>(count)), LS__BLOCK, call->stream, x,
                              (T *)call->buffers[1], count, by);
        });
    return ls__with_access(operand, y.channels, [=](auto access) {
        typedef decltype(access) A;
        return LS__LAUNCH((normalize_padded_kernel<A, CHANNELS>),
                          normalize_blocks(ls__blocks_for(y.n)), LS__BLOCK, call->stream, x,
                          (typename A::stored *)call->buffers[1], y.n, y.channels / A::n, by);
    });
}

int ls__cuda_normalize(const ls__cuda_call *call)
{
    const rows y = rows_of(&call->op->operands[1]);
    normalization by;
    memcpy(by.mean, call->op->u.normalize.mean, sizeof(by.mean));
    memcpy(by.std, call->op->u.normalize.std, sizeof(by.std));
    switch (rows_of(&call->op->operands[0]).channels) {
    case 1: return normalize<1>(call, y, by);
    case 2: return normalize<2>(call, y, by);
    case 3: return normalize<3>(call, y, by);
    default: return normalize<4>(call, y, by);
    }
}

/* Packs of each row of y, from `to` on, are those of x from `from` on, or 0 where x has none. */
template <typename A, typename I>
static __global__ void copy_channels_kernel(const typename A::stored *x, int64_t x_channels,
                                            int64_t from, typename A::stored *y, int64_t y_channels,
                                            int64_t to, I count, ls__divisor<I> by_channels)
{
    LS__FOR_EACH_OF(I, i, count)
    {
        const I row = by_channels.quotient(i), c = i - row * by_channels.by;
        typename A::raw value = {};
        if (from + c < x_channels)
            value = A::fetch(x + ((int64_t)row * x_channels + from + c) * A::n);
        A::store_raw(y + ((int64_t)row * y_channels + to + c) * A::n, value);
    }
}

/* An activation of some channels in a row, and the first of those that are copied. */
typedef struct channel_range {
    void *memory;
    int64_t channels, first;
} channel_range;

/* Copies n channels of each row to y. Channels that x does not have are 0. */
static int copy_channels(const ls__cuda_call *call, channel_range x, channel_range y, int64_t n)
{
    const ls__operand *operand = &call->op->operands[0];
    const int64_t count = rows_of(operand).n * n;
    if (count == 0) return 0;
    /* packs where all numbers of channels are multiples of a pack's elements, a power of two */
    const int64_t common = x.channels | x.first | y.channels | y.first | n;
    return ls__with_index(operand, common, count, [=](auto access, auto number) {
        typedef decltype(access) A;
        typedef decltype(number) I;
        typedef typename A::stored T;
        return LS__LAUNCH((copy_channels_kernel<A, I>), ls__blocks_for(count / A::n), LS__BLOCK,
                          call->stream, (const T *)x.memory, x.channels / A::n, x.first / A::n,
                          (T *)y.memory, y.channels / A::n, y.first / A::n, (I)(count / A::n),
                          ls__divisor<I>::of(n / A::n));
    });
}

/* y's channels are x's, or 0 where x has none. */
int ls__cuda_copy_channels(const ls__cuda_call *call)
{
    const int64_t x = rows_of(&call->op->operands[0]).channels;
    const int64_t y = rows_of(&call->op->operands[1]).channels;
    const int64_t first = call->op->kind == LS__OP_CONCAT_BACKWARD ? call->op->u.concat.offset : 0;
    return copy_channels(call, (channel_range){ call->buffers[0], x, first },
                         (channel_range){ call->buffers[1], y, 0 }, y);
}

int ls__cuda_concat(const ls__cuda_call *call)
{
    const int64_t n = rows_of(&call->op->operands[0]).channels;
    const int64_t all = rows_of(&call->op->operands[2]).channels;
    const int64_t offset = call->op->u.concat.offset, end = offset + n;
    void *const rest = call->buffers[1], *const y = call->buffers[2];
    const int64_t rest_channels = rest ? all : 0;
    int status = copy_channels(call, (channel_range){ call->buffers[0], n, 0 },
                               (channel_range){ y, all, offset }, n);
    if (rest == y) return status;
    if (status == 0)
        status = copy_channels(call, (channel_range){ rest, rest_channels, 0 },
                               (channel_range){ y, all, 0 }, offset);
    if (status == 0)
        status = copy_channels(call, (channel_range){ rest, rest_channels, end },
                               (channel_range){ y, all, end }, all - end);
    return status;
}

/* The word of a unit. Constant indices keep the words in registers. */
static __device__ uint32_t dropout_word(const ls__philox_input *input, uint64_t unit)
{
    uint32_t words[4];
    ls__philox_sample(input, unit / 4, words);
    const uint32_t low = unit & 1 ? words[1] : words[0], high = unit & 1 ? words[3] : words[2];
    return unit & 2 ? high : low;
}

template <typename T> struct __attribute__((aligned(4 * sizeof(T)))) four {
    T of[4];
};

/* A thread processes the four elements of one Philox block, or single elements if the first one is
 * inside of a block. `units`: of a sample. */
template <typename T>
static __global__ void dropout_kernel(const T *x, T *y, int64_t count, int64_t units,
                                      uint32_t layer, float probability, float factor,
                                      const ls__step *step)
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
    const int64_t first_unit = step->first_sample * units;
    if (first_unit % 4 != 0) {
        LS__FOR_EACH(i, count)
        {
            y[i] = dropped(x[i], dropout_word(&input, (uint64_t)(first_unit + i)));
        }
        return;
    }
    LS__FOR_EACH(group, (count + 3) / 4)
    {
        uint32_t words[4];
        ls__philox_sample(&input, (uint64_t)(first_unit / 4 + group), words);
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

/* Units of whole images: a thread computes the draw of its elements' unit. `count` and the unit's
 * size are in accesses. */
template <typename A, typename I>
static __global__ void dropout_units_kernel(const typename A::stored *x, typename A::stored *y,
                                            I count, ls__divisor<I> by_unit, int64_t units,
                                            uint32_t layer, float probability, float factor,
                                            const ls__step *step)
{
    ls_draw draw = { LS_RANDOM_DROPOUT, 0, 0, 0, 0, 0 };
    draw.layer = layer;
    draw.epoch = (uint32_t)step->epoch;
    draw.step = (uint64_t)step->step;
    const ls__philox_input input = ls__random_input(step->seed, &draw);
    LS__FOR_EACH_OF(I, i, count)
    {
        const uint64_t unit = (uint64_t)(step->first_sample * units) + by_unit.quotient(i);
        const bool kept = ls__word_uniform(dropout_word(&input, unit)) >= probability;
        float values[A::n];
        ls__load<A>(x + (int64_t)i * A::n, values);
        LS__UNROLL
        for (int j = 0; j < A::n; j++) values[j] = kept ? values[j] * factor : 0;
        A::store(y + (int64_t)i * A::n, values);
    }
}

int ls__cuda_dropout(const ls__cuda_call *call)
{
    const ls__operand *x = &call->op->operands[0];
    const int64_t count = ls_shape_element_count(&x->shape);
    const float probability = call->op->u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    const int64_t units = ls__dropout_first_unit(call->op, 1); /* of a sample */
    if (call->op->u.dropout.unit != LS__DROPOUT_ELEMENT) {
        const int64_t unit = ls__dropout_unit_elements(call->op);
        return ls__with_index(x, unit, count, [=](auto access, auto number) {
            typedef decltype(access) A;
            typedef decltype(number) I;
            typedef typename A::stored T;
            return LS__LAUNCH((dropout_units_kernel<A, I>), ls__blocks_for(count / A::n), LS__BLOCK,
                              call->stream, (const T *)call->buffers[0], (T *)call->buffers[1],
                              (I)(count / A::n), ls__divisor<I>::of(unit / A::n), units,
                              call->op->u.dropout.layer, probability, factor, call->step);
        });
    }
    return ls__with_type(x, [=](auto type) {
        typedef decltype(type) T;
        return LS__LAUNCH(dropout_kernel<T>, ls__blocks_for((count + 3) / 4), LS__BLOCK,
                          call->stream, (const T *)call->buffers[0], (T *)call->buffers[1], count,
                          units, call->op->u.dropout.layer, probability, factor, call->step);
    });
}

/* y = x in another type. */
int ls__cuda_cast_op(const ls__cuda_call *call)
{
    const ls__operand *x = &call->op->operands[0], *y = &call->op->operands[1];
    return ls__cuda_cast(y->dtype, call->buffers[1], x->dtype, call->buffers[0],
                         ls_shape_element_count(&x->shape), call->stream);
}
