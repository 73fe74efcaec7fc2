/* conv.c: convolution kernels: one oneDNN primitive per task.
 *
 * Forward and backward data: w is packed into the primitive's format, slice by slice; then one task
 * per sub-batch and slice. Backward weights: one task per sub-batch and slice computes a partial dw
 * in the primitive's format, partial sums are added in a binary tree over sub-batches, and the sum
 * is unpacked. */
#include "base/alloc.h"
#include "arith/element.h"
#include "base/error.h"
#include "arith/half.h"
#include "cpu/onednn/plan.h"
#include "cpu/tree.h"
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { N_SIZES = 2 };        /* sub-batches of task.n images, and of one less */
enum { SUM_FLOATS = 16384 }; /* of partial sums that one task adds */

/* Memory objects of one thread, for each size. Those of packed weights and biases, which threads
 * share, are in `slice`. */
typedef struct worker {
    ls__dnn_memory *memories[N_SIZES][LS__DNN_N_ARGUMENTS];
    ls__dnn_memory *reorder_scratch;
} worker;

typedef struct slice {
    ls__dnn_memory *packed, *dense, *bias;
} slice;

typedef struct conv_kernel {
    ls__kernel kernel;
    ls__cpu *cpu;
    ls__conv_plan plan;
    ls__conv_roles roles;
    ls__dnn_primitive *primitives[N_SIZES]; /* NULL: no sub-batch of that size */
    ls__dnn_primitive *reorder;
    worker *workers;
    slice *slices;
    size_t packed_bytes; /* of one slice's weights and then its slice of db; whole cache lines */
    size_t bias_offset;  /* in packed weights */
    size_t dnn_bytes;    /* of oneDNN's scratch; the task's copy follows */
    /* The activation whose channels are cut into slices: dx or y, or dy in backward weights. If
     * there are several slices, a task computes with a dense copy of its own. */
    int64_t image_pixels;
    size_t pixel_bytes, slice_bytes; /* of a pixel: all channels, those of a slice */
    size_t x_image_bytes, y_image_bytes;
    bool relu;                                        /* over y */
    unsigned char *x_data, *w_data, *y_data, *b_data; /* of the present run */
    unsigned char *packed;
    bool has_run;
    atomic_bool failed;
} conv_kernel;

static bool is_weights(const conv_kernel *k)
{
    return k->plan.task.direction == LS__DNN_WEIGHTS;
}

/* The operand whose channels are cut into slices. */
static ls__dnn_argument cut_argument(const conv_kernel *k)
{
    return k->plan.task.direction == LS__DNN_DATA ? LS__DNN_X : LS__DNN_Y;
}

static unsigned char *packed_slice(const conv_kernel *k, int64_t batch, int64_t s)
{
    const int64_t n = is_weights(k) ? k->plan.n_batches : 1;
    return k->packed + (size_t)(s * n + batch) * k->packed_bytes;
}

static void run_reorder(void *arg, int64_t s, int thread)
{
    conv_kernel *k = arg;
    ls__dnn_memory *const scratch = k->workers[thread].reorder_scratch;
    const bool unpack = is_weights(k);
    ls__dnn_memory_set(scratch, k->cpu->scratch[thread]);
    ls__dnn_memory *const memories[LS__DNN_N_ARGUMENTS] = {
        [LS__DNN_X] = unpack ? k->slices[s].packed : k->slices[s].dense,
        [LS__DNN_Y] = unpack ? k->slices[s].dense : k->slices[s].packed,
        [LS__DNN_SCRATCH] = scratch,
    };
    if (!ls__dnn_run(k->reorder, thread, memories)) k->failed = true;
    if (unpack && k->b_data) {
        const size_t bytes = (size_t)k->plan.task.y_channels * sizeof(float);
        memcpy(k->b_data + (size_t)s * bytes, packed_slice(k, 0, s) + k->bias_offset, bytes);
    }
}

static void run_relu(void *values, size_t bytes)
{
    uint16_t *y = values;
    for (size_t i = 0; i < bytes / sizeof *y; i++)
        y[i] = ls__f32_to_bf16(ls__relu(ls__bf16_to_f32(y[i])));
}

static void copy_pixels(unsigned char *to, size_t to_stride, const unsigned char *from,
                        size_t from_stride, size_t bytes, int64_t n)
{
    for (int64_t i = 0; i < n; i++, to += to_stride, from += from_stride) memcpy(to, from, bytes);
}

/* One sub-batch of images, one slice of channels. */
static void dnn_conv_run_task(void *arg, int64_t task, int thread)
{
    conv_kernel *k = arg;
    const ls__conv_plan *plan = &k->plan;
    const int64_t batch = task / plan->n_slices, s = task % plan->n_slices;
    const int64_t image = ls__conv_plan_first_image(plan, batch);
    const int size = batch < plan->n_larger ? 0 : 1;
    const ls__dnn_argument cut = cut_argument(k);
    const int64_t pixels = (plan->task.n - size) * k->image_pixels;

    unsigned char *activations[] = { [LS__DNN_X] = k->x_data + (size_t)image * k->x_image_bytes,
                                     [LS__DNN_Y] = k->y_data + (size_t)image * k->y_image_bytes };
    unsigned char *const whole = activations[cut] + (size_t)s * k->slice_bytes;
    const bool copies = plan->n_slices > 1; /* without them there may be no scratch */
    if (copies) activations[cut] = k->cpu->scratch[thread] + k->dnn_bytes;
    if (copies && is_weights(k))
        copy_pixels(activations[cut], k->slice_bytes, whole, k->pixel_bytes, k->slice_bytes,
                    pixels);

    ls__dnn_memory *memories[LS__DNN_N_ARGUMENTS];
    memcpy(memories, k->workers[thread].memories[size], sizeof memories);
    ls__dnn_memory_set(memories[LS__DNN_X], activations[LS__DNN_X]);
    ls__dnn_memory_set(memories[LS__DNN_Y], activations[LS__DNN_Y]);
    ls__dnn_memory_set(memories[LS__DNN_SCRATCH], k->cpu->scratch[thread]);
    if (is_weights(k)) {
        unsigned char *const partial = packed_slice(k, batch, s);
        ls__dnn_memory_set(memories[LS__DNN_W], partial);
        ls__dnn_memory_set(memories[LS__DNN_B], partial + k->bias_offset);
    } else {
        memories[LS__DNN_W] = k->slices[s].packed;
        memories[LS__DNN_B] = k->slices[s].bias;
    }
    if (!ls__dnn_run(k->primitives[size], thread, memories)) k->failed = true;

    if (k->relu) run_relu(activations[LS__DNN_Y], (size_t)pixels * k->slice_bytes);
    if (copies && !is_weights(k))
        copy_pixels(whole, k->pixel_bytes, activations[cut], k->slice_bytes, k->slice_bytes,
                    pixels);
}

/* Tasks that add the partial sums of a slice. */
static int64_t sum_tasks(const conv_kernel *k)
{
    return ls__divide_up((int64_t)(k->packed_bytes / sizeof(float)), SUM_FLOATS);
}

/* Adds SUM_FLOATS floats of one slice's partial sums into the first, in a binary tree. */
static void run_sum(void *arg, int64_t task, int thread)
{
    (void)thread;
    const conv_kernel *k = arg;
    enum { LINE = LS__ALIGNMENT / sizeof(float) };
    const int64_t n_tasks = sum_tasks(k), s = task / n_tasks;
    const int64_t floats = (int64_t)(k->packed_bytes / sizeof(float));
    const int64_t first = task % n_tasks * SUM_FLOATS;
    const int64_t last = ls__min_i64(first + SUM_FLOATS, floats);
    float *const sums = (float *)(void *)packed_slice(k, 0, s);
    for (int64_t line = first; line < last; line += LINE)
        ls__tree_sum(sums + line, sums + line + floats, floats, k->plan.n_batches, LINE);
}

/* Sets the addresses that the slices of dense w, packed w and b have in this run. */
static void set_slices(conv_kernel *k)
{
    const ls__dnn_conv *t = &k->plan.task;
    const int64_t elements =
        t->direction == LS__DNN_DATA
            ? t->x_channels
            : t->y_channels * t->kernel[0] * t->kernel[1] * (k->plan.x_channels / t->groups);
    const int64_t w_bytes = elements * (int64_t)ls__dnn_element_bytes(t, LS__DNN_W);
    const int64_t b_bytes = t->y_channels * (int64_t)ls__dnn_element_bytes(t, LS__DNN_B);
    for (int64_t s = 0; s < k->plan.n_slices; s++) {
        ls__dnn_memory_set(k->slices[s].dense, k->w_data + s * w_bytes);
        ls__dnn_memory_set(k->slices[s].packed, packed_slice(k, 0, s));
        if (k->b_data) ls__dnn_memory_set(k->slices[s].bias, k->b_data + s * b_bytes);
    }
}

static ls_status conv_run(ls__kernel *kernel, void *const *buffers, void *workspace,
                          const ls__step *step)
{
    (void)step;
    conv_kernel *k = (conv_kernel *)kernel;
    LS_TRY(ls__onednn_check_memory(k->cpu, kernel, &k->has_run));
    const int64_t n_slices = k->plan.n_slices, n_tasks = n_slices * k->plan.n_batches;
    k->x_data = buffers[k->roles.x];
    k->w_data = buffers[k->roles.w];
    k->y_data = buffers[k->roles.y];
    k->b_data = k->plan.task.bias ? buffers[k->roles.b] : NULL;
    k->packed = workspace;
    k->failed = false;
    if (is_weights(k)) {
        ls__threads_run(k->cpu->threads, n_tasks, dnn_conv_run_task, k);
        if (k->plan.n_batches > 1)
            ls__threads_run(k->cpu->threads, n_slices * sum_tasks(k), run_sum, k);
        set_slices(k);
        ls__threads_run(k->cpu->threads, n_slices, run_reorder, k);
    } else {
        set_slices(k);
        ls__threads_run(k->cpu->threads, n_slices, run_reorder, k);
        ls__threads_run(k->cpu->threads, n_tasks, dnn_conv_run_task, k);
    }
    if (!k->failed) return LS_OK;
    return ls__fail(k->cpu->device.ctx, LS_ERR_DEVICE, "kernel '%s': oneDNN failed", kernel->name);
}

static void conv_close(ls__kernel *kernel)
{
    conv_kernel *k = (conv_kernel *)kernel;
    ls_context *ctx = k->cpu->device.ctx;
    for (int t = 0; k->workers && t < k->cpu->n_threads; t++) {
        for (int size = 0; size < N_SIZES; size++)
            for (int i = 0; i < LS__DNN_N_ARGUMENTS; i++)
                ls__dnn_memory_close(k->workers[t].memories[size][i]);
        ls__dnn_memory_close(k->workers[t].reorder_scratch);
    }
    for (int64_t s = 0; k->slices && s < k->plan.n_slices; s++) {
        ls__dnn_memory_close(k->slices[s].packed);
        ls__dnn_memory_close(k->slices[s].dense);
        ls__dnn_memory_close(k->slices[s].bias);
    }
    for (int i = 0; i < N_SIZES; i++) ls__dnn_primitive_close(&k->primitives[i]);
    ls__dnn_primitive_close(&k->reorder);
    ls__free(ctx, k->workers);
    ls__free(ctx, k->slices);
    ls__free(ctx, k);
}

static ls_status open_primitives(conv_kernel *k, const char *implementation)
{
    ls__dnn *dnn = k->cpu->onednn->dnn;
    const ls__conv_plan *plan = &k->plan;
    ls__dnn_conv task = plan->task;
    LS_TRY(ls__dnn_conv_open(dnn, &task, implementation, &k->primitives[0]));
    if (plan->n_larger < plan->n_batches) {
        task.n--;
        LS_TRY(ls__dnn_conv_open(dnn, &task, implementation, &k->primitives[1]));
        if (!ls__dnn_same_weights(k->primitives[0], k->primitives[1]))
            return ls__fail(k->cpu->device.ctx, LS_ERR_UNSUPPORTED,
                            "oneDNN: '%s' packs weights for %d and %d images differently",
                            implementation, (int)plan->task.n, (int)task.n);
    }
    return ls__dnn_reorder_open(k->primitives[0], plan->x_channels / plan->task.groups,
                                &k->reorder);
}

static ls_status open_memories(conv_kernel *k)
{
    ls_context *ctx = k->cpu->device.ctx;
    const bool weights = is_weights(k);
    const size_t workers_bytes = (size_t)k->cpu->n_threads * sizeof *k->workers;
    const size_t slices_bytes = (size_t)k->plan.n_slices * sizeof *k->slices;
    k->workers = ls__zalloc(ctx, workers_bytes);
    k->slices = ls__zalloc(ctx, slices_bytes);
    if (!k->workers || !k->slices)
        return ls__fail_memory(ctx, k->kernel.name, workers_bytes + slices_bytes);
    for (int t = 0; t < k->cpu->n_threads; t++) {
        worker *w = &k->workers[t];
        for (int size = 0; size < N_SIZES && k->primitives[size]; size++)
            for (int i = 0; i < LS__DNN_N_ARGUMENTS; i++) {
                if (!weights && (i == LS__DNN_W || i == LS__DNN_B)) continue;
                LS_TRY(ls__dnn_memory_open(k->primitives[size], (ls__dnn_argument)i,
                                           &w->memories[size][i]));
            }
        LS_TRY(ls__dnn_memory_open(k->reorder, LS__DNN_SCRATCH, &w->reorder_scratch));
    }
    for (int64_t s = 0; s < k->plan.n_slices; s++) {
        slice *w = &k->slices[s];
        LS_TRY(ls__dnn_memory_open(k->reorder, weights ? LS__DNN_X : LS__DNN_Y, &w->packed));
        LS_TRY(ls__dnn_memory_open(k->reorder, weights ? LS__DNN_Y : LS__DNN_X, &w->dense));
        if (!weights) LS_TRY(ls__dnn_memory_open(k->primitives[0], LS__DNN_B, &w->bias));
    }
    return LS_OK;
}

/* Sets the sizes of activations, the workspace and the scratch. */
static ls_status set_sizes(conv_kernel *k)
{
    const ls__conv_plan *plan = &k->plan;
    const ls__dnn_conv *t = &plan->task;
    const bool cuts_x = cut_argument(k) == LS__DNN_X;
    const size_t element = ls__dnn_element_bytes(t, LS__DNN_X);
    const int64_t x_pixels = t->x_size[0] * t->x_size[1], y_pixels = t->y_size[0] * t->y_size[1];
    k->image_pixels = cuts_x ? x_pixels : y_pixels;
    k->pixel_bytes = (size_t)(cuts_x ? plan->x_channels : plan->y_channels) * element;
    k->slice_bytes = k->pixel_bytes / (size_t)plan->n_slices;
    k->x_image_bytes = (size_t)(x_pixels * plan->x_channels) * element;
    k->y_image_bytes = (size_t)(y_pixels * plan->y_channels) * element;

    const bool weights = is_weights(k);
    size_t scratch = ls__dnn_bytes(k->reorder, LS__DNN_SCRATCH);
    for (int i = 0; i < N_SIZES && k->primitives[i]; i++) {
        const size_t bytes = ls__dnn_bytes(k->primitives[i], LS__DNN_SCRATCH);
        if (bytes > scratch) scratch = bytes;
    }
    k->dnn_bytes = ls__round_up(scratch, LS__ALIGNMENT);
    k->bias_offset = ls__round_up(ls__dnn_bytes(k->primitives[0], LS__DNN_W), LS__ALIGNMENT);
    k->packed_bytes = k->bias_offset;
    if (weights)
        k->packed_bytes += ls__round_up(ls__dnn_bytes(k->primitives[0], LS__DNN_B), LS__ALIGNMENT);
    k->kernel.workspace_bytes =
        k->packed_bytes * (size_t)(plan->n_slices * (weights ? plan->n_batches : 1));
    const size_t copy_bytes =
        plan->n_slices > 1 ? (size_t)(t->n * k->image_pixels) * k->slice_bytes : 0;
    return ls__cpu_reserve_scratch(k->cpu, k->dnn_bytes + copy_bytes);
}

ls_status ls__onednn_conv_open(ls__cpu *cpu, const ls__op *op, bool relu, const char *name,
                               ls__kernel **out)
{
    ls_context *ctx = cpu->device.ctx;
    *out = NULL;
    const char *space = strchr(name, ' '); /* after the provider's name */
    const char *implementation = space ? space + 1 : "";
    conv_kernel *k = ls__zalloc(ctx, sizeof *k);
    if (!k) return ls__fail_memory(ctx, name, sizeof *k);
    snprintf(k->kernel.name, sizeof k->kernel.name, "%s", name);
    k->kernel.run = conv_run;
    k->kernel.close = conv_close;
    k->cpu = cpu;
    k->relu = relu;

    ls_status status = LS_OK;
    if (!ls__conv_roles_of(op->kind, &k->roles) || !ls__conv_plan_make(op, &k->plan))
        status = ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: '%s' does not support this shape",
                          ls__op_name(op->kind), name);
    if (status == LS_OK) status = open_primitives(k, implementation);
    if (status == LS_OK) status = open_memories(k);
    if (status == LS_OK) status = set_sizes(k);
    if (status != LS_OK) {
        conv_close(&k->kernel);
        return status;
    }
    *out = &k->kernel;
    return LS_OK;
}
