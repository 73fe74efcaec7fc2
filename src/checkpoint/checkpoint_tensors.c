/* checkpoint_tensors.c: the list of the tensors of a checkpoint, by torchvision's names and in its
 * order; the file has an order of its own. */
#include "checkpoint/checkpoint.h"

#include "arith/element.h"
#include "base/error.h"
#include "base/text.h"
#include "io/tensor_file.h"
#include "nn/net/net.h"
#include "optim/optimizer.h"

#include <string.h>

/* torch counts batches in every batch norm, and its load_state_dict fails without the counter. */
static const char RUNNING_MEAN[] = ".running_mean", COUNTER[] = ".num_batches_tracked";
static const char OPTIMIZER[] = "optimizer.", LOSS_SCALE[] = "optimizer.loss_scale";

bool ls__is_optimizer_name(const char *name)
{
    return strncmp(name, OPTIMIZER, strlen(OPTIMIZER)) == 0;
}

bool ls__is_torch_counter(const char *name)
{
    return ls__ends_with(name, COUNTER);
}

static ls_status add(ls_context *ctx, ls__saved_tensors *all, ls__saved_tensor tensor)
{
    if (!tensor.name) return ls__fail_memory(ctx, "checkpoint", 0);
    tensor.count = ls_shape_element_count(&tensor.spec.shape);
    if (tensor.count > all->largest) all->largest = tensor.count;
    if (tensor.memory) all->total += tensor.count;
    all->items[all->n++] = tensor;
    return LS_OK;
}

/* The tensor of a parameter or buffer, or of an optimizer state of it. */
static ls__saved_tensor tensor_of(const ls__parameter *parameter, const char *name, float *memory,
                                  bool torch)
{
    ls__saved_tensor tensor = { .name = name,
                                .spec = { LS_F32, parameter->shape },
                                .memory = memory,
                                .channels = torch ? parameter->flattened : 0 };
    const int64_t *ours = parameter->shape.dims;
    if (parameter->kind == LS_PARAMETER_WEIGHT && parameter->shape.n_dims == 4) {
        tensor.spec.shape = LS_SHAPE(ours[0], ours[3], ours[1], ours[2]); /* O,H,W,I: O,I,H,W */
        tensor.channels = ours[3];
    }
    return tensor;
}

static ls_status add_net(ls__bump *bump, ls_context *ctx, const ls__net_blocks *blocks,
                         int64_t n_steps, bool torch, ls__saved_tensors *out)
{
    for (int64_t i = 0; i < blocks->n_parameters; i++) {
        const ls__parameter *parameter = &blocks->parameters[i];
        const char *name = parameter->name;
        LS_TRY(
            add(ctx, out, tensor_of(parameter, name, blocks->values + parameter->offset, torch)));
        if (parameter->kind != LS_PARAMETER_BUFFER || !ls__ends_with(name, RUNNING_MEAN)) continue;
        const int length = (int)(strlen(name) - strlen(RUNNING_MEAN));
        name = ls__bump_format(bump, "%.*s%s", length, name, COUNTER);
        LS_TRY(add(ctx, out,
                   (ls__saved_tensor){ .name = name, .spec = { LS_I64 }, .number = n_steps }));
    }
    return LS_OK;
}

static ls_status add_optimizer(ls__bump *bump, ls_context *ctx, const ls__net_blocks *blocks,
                               const ls_optimizer *opt, ls__saved_tensors *out)
{
    for (int state = 0; state < ls_optimizer_state_count(opt); state++) {
        for (int64_t i = 0; i < blocks->n_parameters; i++) {
            const ls__parameter *parameter = &blocks->parameters[i];
            float *memory = ls__optimizer_state(opt, state, parameter);
            if (!memory) continue;
            const char *name = ls__bump_format(
                bump, "%s%s.%s", OPTIMIZER, ls_optimizer_state_name(opt, state), parameter->name);
            LS_TRY(add(ctx, out, tensor_of(parameter, name, memory, false)));
        }
    }
    for (int64_t i = 0; i < blocks->n_parameters; i++) {
        const ls__parameter *parameter = &blocks->parameters[i];
        float *memory = ls__optimizer_state(opt, opt->n_states, parameter);
        if (!memory) continue;
        const char *name = ls__bump_format(bump, "%sema.%s", OPTIMIZER, parameter->name);
        LS_TRY(add(ctx, out, tensor_of(parameter, name, memory, false)));
    }
    return LS_OK;
}

ls_status ls__saved_tensors_list(ls__bump *bump, ls_context *ctx, const ls_net *net,
                                 const ls__optimizers *optimizers, bool torch,
                                 ls__saved_tensors *out)
{
    const ls__net_blocks of_net = net ? ls__net_get_blocks(net) : (ls__net_blocks){ 0 };
    const int64_t n_optimizers = optimizers ? optimizers->n : 0;
    ls_optimizer *first = n_optimizers > 0 ? optimizers->items[0] : NULL;
    const ls__net_blocks trained = first ? ls__net_get_blocks(first->net) : (ls__net_blocks){ 0 };
    int64_t n = 2 * of_net.n_parameters + 1;
    for (int64_t i = 0; i < n_optimizers; i++)
        n += (ls_optimizer_state_count(optimizers->items[i]) + 1) * trained.n_parameters;
    const size_t bytes = (size_t)n * sizeof *out->items;
    *out = (ls__saved_tensors){ .items = ls__bump_alloc(bump, bytes) };
    if (!out->items) return ls__fail_memory(ctx, "checkpoint", bytes);
    LS_TRY(add_net(bump, ctx, &of_net, ls_optimizer_step_count(first), torch, out));
    out->n_net = out->n;
    for (int64_t i = 0; i < n_optimizers; i++)
        LS_TRY(add_optimizer(bump, ctx, &trained, optimizers->items[i], out));
    if (!trained.loss_scale) return LS_OK;
    return add(ctx, out,
               (ls__saved_tensor){ .name = LOSS_SCALE,
                                   .spec = { LS_F32, LS_SHAPE(LS__LOSS_SCALE_SIZE) },
                                   .memory = trained.loss_scale });
}

void ls__transpose(float *out, const float *in, int64_t n, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < n; i++, in += rows * columns)
        for (int64_t column = 0; column < columns; column++)
            for (int64_t row = 0; row < rows; row++) *out++ = in[row * columns + column];
}

ls_status ls__saved_tensors_read(ls__bump *bump, ls_context *ctx, const ls_tensor_file *file,
                                 const ls__saved_tensors *tensors, float **out)
{
    const size_t largest = (size_t)tensors->largest * sizeof(float);
    const size_t total = (size_t)tensors->total * sizeof(float);
    float *raw = ls__bump_alloc(bump, largest); /* of the largest tensor, in the file's order */
    float *values = *out = ls__bump_alloc(bump, total);
    if (!raw || !values) return ls__fail_memory(ctx, "checkpoint", total);
    for (int64_t i = 0; i < tensors->n; i++) {
        const ls__saved_tensor *tensor = &tensors->items[i];
        if (!tensor->memory) continue;
        const int64_t n = tensor->spec.shape.dims[0];
        const int64_t pixels = tensor->channels ? tensor->count / (n * tensor->channels) : 0;
        LS_TRY(ls__tensor_file_read_f32(file, ls__tensor_file_get(file, tensor->name),
                                        tensor->channels ? raw : values));
        if (tensor->channels) ls__transpose(values, raw, n, tensor->channels, pixels);
        values += tensor->count;
    }
    return LS_OK;
}

ls_status ls__saved_tensors_write(ls_context *ctx, const ls__saved_tensors *tensors,
                                  const float *values)
{
    for (int64_t i = 0; i < tensors->n; i++) {
        const ls__saved_tensor *tensor = &tensors->items[i];
        if (!tensor->memory) continue;
        LS_TRY(ctx->device->backend->write(ctx->device, tensor->memory, values,
                                           (size_t)tensor->count * sizeof(float)));
        values += tensor->count;
    }
    return LS_OK;
}
