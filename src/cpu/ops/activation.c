/* activation.c: the functions of arith/activation.h, addition, multiplication and dropout:
 * element-wise. */
#include "arith/activation.h"
#include "base/random.h"
#include "cpu/ops/ops.h"
#include "cpu/simd/element.h"

/* Tasks begin at cache lines. */
enum { LINE = 64 / sizeof(ls__element) };

static bool prepare_pass(ls__ops_kernel *k, ls__ops_task run)
{
    const ls__operand *first = &k->op.operands[0];
    if (first->dtype != ls__element_type) return false;
    k->n_chunks = ls__pass_tasks(ls__count(first));
    ls__add_phase(k, run, k->n_chunks);
    return true;
}

/* A task of an op x -> y, y dy -> dx or a b -> y. The expression gives an element of the result
 * from the elements a and b of the inputs; with one input a and b are the same. */
#define ELEMENT_TASK(name, expression)                                                             \
    static void name(const ls__ops_kernel *k, int64_t task)                                        \
    {                                                                                              \
        const ls__element *first = k->buffers[0], *last = k->buffers[k->op.n_operands - 2];        \
        ls__element *result = k->buffers[k->op.n_operands - 1];                                    \
        const ls__range r = ls__task_elements(k, task, LINE);                                      \
        const float slope = k->op.u.leaky_relu.slope; /* of that op */                             \
        (void)slope;                                                                               \
        LS__INDEPENDENT                                                                            \
        for (int64_t i = r.begin; i < r.end; i++) {                                                \
            const float a = ls__get(first[i]), b = ls__get(last[i]);                               \
            (void)b;                                                                               \
            result[i] = ls__put(expression);                                                       \
        }                                                                                          \
    }
#define UNARY_TASKS(op, name)                                                                      \
    ELEMENT_TASK(name##_forward, ls__##name(a))                                                    \
    ELEMENT_TASK(name##_backward, ls__##name##_gradient(a, b))
LS__UNARY_LIST(UNARY_TASKS)
ELEMENT_TASK(leaky_relu, ls__leaky_relu(a, slope))
ELEMENT_TASK(leaky_relu_backward, ls__leaky_relu_gradient(a, b, slope))
ELEMENT_TASK(multiply, (a * b))
ELEMENT_TASK(add, a + b)
ELEMENT_TASK(add_relu, ls__relu(a + b))

static bool prepare_elements(ls__ops_kernel *k)
{
    static const ls__ops_task tasks[LS__N_OPS] = {
#define UNARY_ROWS(op, name)                                                                       \
    [LS__OP_##op] = name##_forward, [LS__OP_##op##_BACKWARD] = name##_backward,
        LS__UNARY_LIST(UNARY_ROWS)[LS__OP_ADD] = add,
        [LS__OP_MUL] = multiply,
        [LS__OP_LEAKY_RELU] = leaky_relu,
        [LS__OP_LEAKY_RELU_BACKWARD] = leaky_relu_backward,
    };
    const bool with_relu = k->op.kind == LS__OP_ADD && k->op.u.add.relu;
    return prepare_pass(k, with_relu ? add_relu : tasks[k->op.kind]);
}

/* ---- Dropout. A draw is four words, for elements 4s to 4s+3. ---- */

enum { DRAWS = 16 }; /* computed side by side */

/* Philox4x32-10 for several samples: words[j][i] is word j of samples[i], as base/philox.h
 * computes it for one. */
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

static int64_t first_unit(const ls__ops_kernel *k)
{
    return ls__dropout_first_unit(&k->op, k->step->first_sample);
}

static void dropout_elements(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    ls__element *y = k->buffers[1];
    const float probability = k->op.u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    const ls__philox_input input = dropout_input(k);
    const ls__range r = ls__task_elements(k, task, LINE);
    const int64_t first = first_unit(k), end = first + r.end;
    for (int64_t unit = (first + r.begin) / 4 * 4; unit < end; unit += 4 * DRAWS) {
        uint64_t samples[DRAWS];
        uint32_t words[4][DRAWS];
        for (int i = 0; i < DRAWS; i++) samples[i] = (uint64_t)unit / 4 + (uint64_t)i;
        draw_words(&input, samples, words);
        float factors[4 * DRAWS];
        for (int i = 0; i < DRAWS; i++)
            for (int j = 0; j < 4; j++) {
                const bool keep = (float)(int32_t)(words[j][i] >> 8) * 0x1p-24f >= probability;
                factors[4 * i + j] = keep ? factor : 0;
            }
        /* the first draw of a task may begin before its elements */
        const int64_t skipped = ls__max_i64(first + r.begin - unit, 0);
        const int64_t n = ls__min_i64(4 * DRAWS, end - unit) - skipped;
        const ls__element *from = x + (unit + skipped - first);
        ls__element *to = y + (unit + skipped - first);
        const float *own = factors + skipped;
        LS__INDEPENDENT
        for (int64_t i = 0; i < n; i++) {
            const float value = ls__get(from[i]) * own[i];
            to[i] = ls__put(own[i] > 0 ? value : 0); /* 0 also where x is not finite */
        }
    }
}

/* Units of images: stochastic depth. */
static void dropout_images(const ls__ops_kernel *k, int64_t task)
{
    const ls__element *x = k->buffers[0];
    ls__element *y = k->buffers[1];
    const float probability = k->op.u.dropout.probability;
    const float factor = (float)(1 / (1 - (double)probability));
    const ls__philox_input input = dropout_input(k);
    const int64_t unit_elements = ls__dropout_unit_elements(&k->op), first = first_unit(k);
    const ls__range r = ls__task_elements(k, task, LINE);
    for (int64_t begin = r.begin, end; begin < r.end; begin = end) {
        const int64_t own = begin / unit_elements, unit = first + own;
        uint32_t words[4];
        ls__philox_sample(&input, (uint64_t)unit / 4, words);
        const bool keep = ls_random_uniform(words[unit % 4]) >= probability;
        end = ls__min_i64((own + 1) * unit_elements, r.end);
        LS__INDEPENDENT
        for (int64_t i = begin; i < end; i++) {
            const float value = ls__get(x[i]) * factor;
            y[i] = ls__put(ls__where(keep, value));
        }
    }
}

/* x -> y, or dy -> dx with the same draws */
static bool prepare_dropout(ls__ops_kernel *k)
{
    const bool elements = k->op.u.dropout.unit == LS__DROPOUT_ELEMENT;
    return prepare_pass(k, elements ? dropout_elements : dropout_images);
}

const ls__ops_prepare LS__ELEMENT_NAME(ls__ops_activation)[LS__N_OPS] = {
#define PREPARE_UNARY(op, name)                                                                    \
    [LS__OP_##op] = prepare_elements, [LS__OP_##op##_BACKWARD] = prepare_elements,
    LS__UNARY_LIST(PREPARE_UNARY)[LS__OP_ADD] = prepare_elements,
    [LS__OP_MUL] = prepare_elements,
    [LS__OP_LEAKY_RELU] = prepare_elements,
    [LS__OP_LEAKY_RELU_BACKWARD] = prepare_elements,
    [LS__OP_DROPOUT] = prepare_dropout,
    [LS__OP_DROPOUT_BACKWARD] = prepare_dropout,
};
