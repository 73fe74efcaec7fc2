/* checkpoint_tensors.c: the tensors of a checkpoint, by torchvision's names and in its order. */
#include "run/checkpoint.h"

#include "base/element.h"
#include "base/error.h"
#include "nn/net.h"
#include "optim/optimizer.h"

#include <stdio.h>
#include <string.h>

/* torch counts batches in every batch norm, and its load_state_dict fails without the counter. */
static const char RUNNING_MEAN[] = ".running_mean", COUNTER[] = ".num_batches_tracked";
static const char OPTIMIZER[] = "optimizer.", LOSS_SCALE[] = "optimizer.loss_scale";

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

bool ls__is_optimizer_name(const char *name)
{
    return strncmp(name, OPTIMIZER, strlen(OPTIMIZER)) == 0;
}

bool ls__is_torch_counter(const char *name)
{
    return ends_with(name, COUNTER);
}

/* prefix, part and name joined by dots; an empty prefix is skipped. */
static char *join(ls__bump *bump, const char *prefix, const char *part, const char *name)
{
    const size_t size = strlen(prefix) + strlen(part) + strlen(name) + 2;
    char *out = ls__bump_alloc(bump, size);
    if (out) snprintf(out, size, "%s%s%s%s", prefix, part, *part ? "." : "", name);
    return out;
}

static ls_status open_records(ls__bump *bump, ls_context *ctx, int64_t n, ls__records *out)
{
    const size_t bytes = (size_t)n * sizeof *out->items;
    *out = (ls__records){ .items = ls__bump_alloc(bump, bytes) };
    return out->items ? LS_OK : ls__fail_memory(ctx, "checkpoint", bytes);
}

static ls_status add(ls_context *ctx, ls__records *records, ls__record record)
{
    if (!record.name) return ls__fail_memory(ctx, "checkpoint", 0);
    record.count = ls_shape_count(&record.spec.shape);
    if (record.count > records->largest) records->largest = record.count;
    records->items[records->n++] = record;
    return LS_OK;
}

/* The record of a parameter or buffer, or of an optimizer state of it. */
static ls__record record_of(const ls__parameter *parameter, const char *name, float *block)
{
    ls__record record = { .name = name,
                          .spec = { LS_F32, parameter->shape },
                          .memory = block + parameter->offset,
                          .transposed = parameter->kind == LS_PARAMETER_WEIGHT &&
                                        parameter->shape.n_dims == 4 };
    const int64_t *ours = parameter->shape.dims;
    if (record.transposed)
        record.spec.shape = LS_SHAPE(ours[0], ours[3], ours[1], ours[2]); /* O,H,W,I: O,I,H,W */
    return record;
}

ls_status ls__records_of_net(ls__bump *bump, const ls_net *net, int64_t n_steps, ls__records *out)
{
    *out = (ls__records){ 0 };
    if (!net) return LS_OK;
    ls_context *ctx = ls_net_context((ls_net *)net);
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    LS_TRY(open_records(bump, ctx, 2 * blocks.n_parameters, out));
    for (int64_t i = 0; i < blocks.n_parameters; i++) {
        const ls__parameter *parameter = &blocks.parameters[i];
        LS_TRY(add(ctx, out, record_of(parameter, parameter->name, blocks.values)));
        if (parameter->kind != LS_PARAMETER_BUFFER || !ends_with(parameter->name, RUNNING_MEAN))
            continue;
        char *name = ls__bump_alloc(bump, strlen(parameter->name) + sizeof(COUNTER));
        if (name) {
            strcpy(name, parameter->name);
            strcpy(name + strlen(name) - strlen(RUNNING_MEAN), COUNTER);
        }
        LS_TRY(add(ctx, out,
                   (ls__record){ .name = name, .spec = { LS_I64, { 0 } }, .number = n_steps }));
    }
    return LS_OK;
}

ls_status ls__records_of_optimizer(ls__bump *bump, const ls_optimizer *opt, ls__records *out)
{
    *out = (ls__records){ 0 };
    if (!opt) return LS_OK;
    ls_context *ctx = opt->owned.ctx;
    const ls__net_blocks blocks = ls__net_get_blocks(opt->net);
    const int n_states = ls_optimizer_state_count(opt);
    LS_TRY(open_records(bump, ctx, blocks.n_parameters * n_states + 1, out));
    for (int state = 0; state < n_states; state++) {
        for (int64_t i = 0; i < blocks.n_parameters; i++) {
            const ls__parameter *parameter = &blocks.parameters[i];
            if (parameter->kind == LS_PARAMETER_BUFFER) continue;
            const char *name =
                join(bump, OPTIMIZER, ls_optimizer_state_name(opt, state), parameter->name);
            LS_TRY(
                add(ctx, out, record_of(parameter, name, ls__optimizer_state_block(opt, state))));
        }
    }
    if (!blocks.loss_scale) return LS_OK;
    return add(ctx, out,
               (ls__record){ .name = LOSS_SCALE,
                             .spec = { LS_F32, LS_SHAPE(LS__LOSS_SCALE_SIZE) },
                             .memory = blocks.loss_scale });
}

/* ---- Order ---- */

void ls__weights_to_file(float *out, const float *in, const ls_shape *shape)
{
    const int64_t *d = shape->dims, n_places = d[2] * d[3];
    for (int64_t o = 0; o < d[0]; o++, in += d[1] * n_places)
        for (int64_t i = 0; i < d[1]; i++)
            for (int64_t place = 0; place < n_places; place++) *out++ = in[place * d[1] + i];
}

void ls__weights_from_file(float *out, const float *in, const ls_shape *shape)
{
    const int64_t *d = shape->dims, n_places = d[2] * d[3];
    for (int64_t o = 0; o < d[0]; o++, in += d[1] * n_places)
        for (int64_t place = 0; place < n_places; place++)
            for (int64_t i = 0; i < d[1]; i++) *out++ = in[i * n_places + place];
}
