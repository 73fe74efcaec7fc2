/* activation.c: ReLU, sigmoid, addition, multiplication and dropout: element-wise, over memory in
 * its own order. */
#include "base/element.h"
#include "base/random.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/element.h"

/* Tasks begin at cache lines. */
enum { LINE = 64 / sizeof(ls__element) };

static ls__range elements(const ls__ops_kernel *k, int64_t task)
{
    return ls__part(ls__count(&k->op.operands[0]), k->n_chunks, task, LINE);
}

/* All operands lie alike. */
static bool plan_elements(ls__ops_kernel *k, ls__ops_task run)
{
    const ls__operand *first = &k->op.operands[0];
    if (first->dtype != ls__element_type) return false;
    for (int i = 1; i < k->op.n_operands; i++)
        if (!ls__same_layout(first, &k->op.operands[i])) return false;
    k->n_chunks = ls__pass_tasks(ls__count(first));
    k->bytes = (double)k->op.n_operands * (double)ls__count(first) * sizeof(ls__element);
    ls__add_stage(k, run, k->n_chunks);
    return true;
}

/* x -> y */
static void relu(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    ls__element *y = k->buffers[1];
    const ls__range r = elements(k, task);
    LS__INDEPENDENT
    for (int64_t i = r.begin; i < r.end; i++) {
        const float value = ls__get(x[i]);
        y[i] = ls__put(value < 0 ? 0 : value);
    }
}

static bool plan_relu(ls__ops_kernel *k)
{
    return plan_elements(k, relu);
}

/* y dy -> dx */
static void relu_backward(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *y = k->buffers[0], *dy = k->buffers[1];
    ls__element *dx = k->buffers[2];
    const ls__range r = elements(k, task);
    LS__INDEPENDENT
    for (int64_t i = r.begin; i < r.end; i++)
        dx[i] = ls__put(ls__where(ls__get(y[i]) > 0, ls__get(dy[i])));
}

static bool plan_relu_backward(ls__ops_kernel *k)
{
    return plan_elements(k, relu_backward);
}

/* x -> y */
static void sigmoid(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    ls__element *y = k->buffers[1];
    const ls__range r = elements(k, task);
    LS__INDEPENDENT
    for (int64_t i = r.begin; i < r.end; i++) y[i] = ls__put(ls__sigmoid(ls__get(x[i])));
}

static bool plan_sigmoid(ls__ops_kernel *k)
{
    return plan_elements(k, sigmoid);
}

/* y dy -> dx */
static void sigmoid_backward(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *y = k->buffers[0], *dy = k->buffers[1];
    ls__element *dx = k->buffers[2];
    const ls__range r = elements(k, task);
    LS__INDEPENDENT
    for (int64_t i = r.begin; i < r.end; i++)
        dx[i] = ls__put(ls__sigmoid_gradient(ls__get(y[i]), ls__get(dy[i])));
}

static bool plan_sigmoid_backward(ls__ops_kernel *k)
{
    return plan_elements(k, sigmoid_backward);
}

/* a b -> y */
static void multiply(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *a = k->buffers[0], *b = k->buffers[1];
    ls__element *y = k->buffers[2];
    const ls__range r = elements(k, task);
    LS__INDEPENDENT
    for (int64_t i = r.begin; i < r.end; i++) y[i] = ls__put(ls__get(a[i]) * ls__get(b[i]));
}

static bool plan_multiply(ls__ops_kernel *k)
{
    return plan_elements(k, multiply);
}

/* a b -> y */
static void add(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *a = k->buffers[0], *b = k->buffers[1];
    ls__element *y = k->buffers[2];
    const ls__range r = elements(k, task);
    LS__INDEPENDENT
    for (int64_t i = r.begin; i < r.end; i++) y[i] = ls__put(ls__get(a[i]) + ls__get(b[i]));
}

static void add_relu(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *a = k->buffers[0], *b = k->buffers[1];
    ls__element *y = k->buffers[2];
    const ls__range r = elements(k, task);
    LS__INDEPENDENT
    for (int64_t i = r.begin; i < r.end; i++) {
        const float sum = ls__get(a[i]) + ls__get(b[i]);
        y[i] = ls__put(sum < 0 ? 0 : sum);
    }
}

static bool plan_add(ls__ops_kernel *k)
{
    return plan_elements(k, k->op.u.add.relu ? add_relu : add);
}

/* ---- Dropout. A draw is four words, for logical elements 4s to 4s+3. ---- */

enum { DRAWS = 16 }; /* made side by side */

/* Philox4x32-10 for several samples: words[j][i] is word j of samples[i], as base/philox.h gives
 * it one at a time. */
static void draw_words(const ls__philox_input *input, const uint64_t samples[DRAWS],
                       uint32_t words[4][DRAWS])
{
    uint32_t c0[DRAWS], c1[DRAWS], c2[DRAWS], c3[DRAWS];
    for (int i = 0; i < DRAWS; i++) {
        const uint64_t low = input->low + samples[i];
        c0[i] = (uint32_t)low;
        c1[i] = (uint32_t)(low >> 32);
        c2[i] = (uint32_t)input->high;
        c3[i] = (uint32_t)(input->high >> 32);
    }
    uint32_t k0 = input->key[0], k1 = input->key[1];
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < DRAWS; i++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c0[i], b = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(b >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)b;
            c2[i] = (uint32_t)(a >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(words[0], c0, sizeof c0);
    memcpy(words[1], c1, sizeof c1);
    memcpy(words[2], c2, sizeof c2);
    memcpy(words[3], c3, sizeof c3);
}

static ls__philox_input dropout_input(const ls__ops_kernel *k)
{
    return ls__random_input(k->step->seed, &(ls_draw){ .stream = LS_RANDOM_DROPOUT,
                                                       .layer = k->op.u.dropout.layer,
                                                       .epoch = (uint32_t)k->step->epoch,
                                                       .step = (uint64_t)k->step->step });
}

/* The logical element that lies at an offset. */
static int64_t logical(const ls__planes *p, int64_t offset)
{
    const int64_t row = offset / p->width, c = offset % p->width;
    const int64_t place = row % p->places, plane = row / p->places;
    return ((plane / p->groups * p->places + place) * p->groups + plane % p->groups) * p->width + c;
}

/* Where a multiple of four channels lies together, four elements in memory share one draw. */
static void dropout_quads(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    ls__element *y = k->buffers[1];
    const float probability = k->op.u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    const ls__philox_input input = dropout_input(k);
    const ls__range r = elements(k, task);
    for (int64_t begin = r.begin; begin < r.end; begin += 4 * DRAWS) {
        uint64_t samples[DRAWS];
        uint32_t words[4][DRAWS];
        for (int i = 0; i < DRAWS; i++)
            samples[i] = (uint64_t)(k->planes.groups == 1 ? begin + 4 * i
                                                          : logical(&k->planes, begin + 4 * i)) /
                         4;
        draw_words(&input, samples, words);
        float factors[4 * DRAWS];
        for (int i = 0; i < DRAWS; i++)
            for (int j = 0; j < 4; j++) {
                const bool keep = (float)(int32_t)(words[j][i] >> 8) * 0x1p-24f >= probability;
                factors[4 * i + j] = keep ? factor : 0;
            }
        const int64_t n = ls__min(4 * DRAWS, r.end - begin);
        LS__INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            const float value = ls__get(x[begin + i]) * factors[i];
            y[begin + i] = ls__put(factors[i] > 0 ? value : 0); /* 0 also where x is not finite */
        }
    }
}

static void dropout_singles(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    ls__element *y = k->buffers[1];
    const float probability = k->op.u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    const ls__philox_input input = dropout_input(k);
    const ls__range r = elements(k, task);
    for (int64_t i = r.begin; i < r.end; i++) {
        const int64_t element = logical(&k->planes, i);
        uint32_t words[4];
        ls__philox_sample(&input, (uint64_t)element / 4, words);
        const bool keep = ls_random_uniform(words[element % 4]) >= probability;
        y[i] = ls__put(keep ? ls__get(x[i]) * factor : 0);
    }
}

/* x -> y, and dy -> dx with the same draws */
static bool plan_dropout(ls__ops_kernel *k)
{
    k->planes = ls__planes_of(&k->op.operands[0]);
    const bool quads = k->planes.groups == 1 || k->planes.width % 4 == 0;
    return plan_elements(k, quads ? dropout_quads : dropout_singles);
}

const ls__ops_plan LS__ELEMENT_NAME(ls__ops_activation)[LS__N_OPS] = {
    [LS__OP_RELU] = plan_relu,       [LS__OP_RELU_BACKWARD] = plan_relu_backward,
    [LS__OP_SIGMOID] = plan_sigmoid, [LS__OP_SIGMOID_BACKWARD] = plan_sigmoid_backward,
    [LS__OP_ADD] = plan_add,         [LS__OP_MUL] = plan_multiply,
    [LS__OP_DROPOUT] = plan_dropout, [LS__OP_DROPOUT_BACKWARD] = plan_dropout,
};
