/* net_labels.c: checks that fed labels are classes of the losses that read them, because another
 * number would make the loss and then every weight NaN. Labels and targets of batches that have
 * none, and targets made of labels. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/net/net_state.h"
#include <string.h>

/* The first label outside -1..classes-1; -1 if there is none. */
static int64_t find_bad_label(const int32_t *labels, int64_t n, int64_t classes)
{
    bool bad = false; /* no branch, so that the loop is vectorised */
    for (int64_t i = 0; i < n; i++) bad |= (uint32_t)labels[i] + 1 > (uint32_t)classes;
    for (int64_t i = 0; bad && i < n; i++)
        if (labels[i] < -1 || labels[i] >= classes) return i;
    return -1;
}

static ls_status check_label_values(ls_net *net, const ls_node *input, const int32_t *labels,
                                    int64_t n)
{
    const int64_t classes = input->u.input.classes, bad = find_bad_label(labels, n, classes);
    if (bad < 0) return LS_OK;
    return ls__fail(net->owned.ctx, LS_ERR_INVALID,
                    "input '%s': label %lld of %lld, counted from 0, is %d; expected 0 to %lld, or "
                    "-1 for a row that the loss ignores",
                    input->name, (long long)bad, (long long)n, (int)labels[bad],
                    (long long)(classes - 1));
}

/* Labels in device memory are read back once after each write of their tensor. */
static ls_status check_on_device(ls_net *net, const ls_node *input, const ls_tensor *tensor)
{
    ls_context *ctx = net->owned.ctx;
    if (tensor->checked_classes == input->u.input.classes) return LS_OK;
    int32_t *labels = ls__alloc(ctx, tensor->bytes);
    if (!labels) return ls__fail_memory(ctx, input->name, tensor->bytes);
    ls_status status = ls__table(tensor)->read(ctx->device, labels, tensor->data, tensor->bytes);
    if (status == LS_OK) status = check_label_values(net, input, labels, tensor->count);
    /* Caches the result of the check; the elements do not change. */
    if (status == LS_OK) ((ls_tensor *)tensor)->checked_classes = input->u.input.classes;
    ls__free(ctx, labels);
    return status;
}

ls_status ls__net_check_labels(ls_net *net)
{
    for (int i = 0; i < net->graph.inputs.n; i++) {
        const ls_node *input = net->graph.inputs.items[i].node;
        const ls_tensor *tensor = net->feeds[i];
        if (input->u.input.classes == 0) continue;
        const int32_t *host = ls_tensor_data_const(tensor);
        if (!host) host = tensor->host_copy;
        LS_TRY(host ? check_label_values(net, input, host, tensor->count)
                    : check_on_device(net, input, tensor));
    }
    return LS_OK;
}

void ls__net_drop_constant(ls_net *net, ls_tensor *tensor)
{
    ls__pool_release(net->owned.ctx->pool, tensor->data);
    *tensor = (ls_tensor){ 0 };
}

ls_status ls__net_fill_constant(ls_net *net, ls_tensor *tensor, ls_dtype dtype, ls_shape shape,
                                double value)
{
    ls_context *ctx = net->owned.ctx;
    if (ls_shape_equal(&tensor->shape, &shape)) return LS_OK;
    ls__net_drop_constant(net, tensor);
    const size_t bytes = (size_t)ls_shape_element_count(&shape) * ls_dtype_bytes(dtype);
    void *memory = ls__pool_allocate(ctx->pool, bytes);
    if (!memory) return ls__pool_fail(ctx->pool, bytes, "net: labels or targets");
    ls__tensor_view(ctx, tensor, dtype, shape, memory);
    const ls_status status = ls_tensor_fill(tensor, value);
    if (status != LS_OK) ls__net_drop_constant(net, tensor);
    return status;
}

/* ---- Targets made of labels. The uploads follow data/loader/staging.c. ---- */

void ls__one_hot_close(ls_context *ctx, ls__one_hot *one_hot)
{
    const ls__backend *backend = ctx->device->backend;
    for (int i = 0; i < LS__N_ONE_HOT_SLOTS; i++) {
        ls__one_hot_slot *slot = &one_hot->slots[i];
        if (slot->uploading && backend->event_wait(ctx->device, slot->uploaded) != LS_OK)
            (void)backend->wait(ctx->device); /* no copy may still read the block */
        if (slot->uploaded) backend->event_close(ctx->device, slot->uploaded);
        if (slot->read) backend->event_close(ctx->device, slot->read);
        ls__pool_release(ctx->host_pool, slot->block);
        ls__pool_release(ctx->pool, slot->memory);
    }
    ls__free(ctx, one_hot->labels);
    *one_hot = (ls__one_hot){ 0 };
}

static ls_status one_hot_allocate(ls__pool *pool, ls__stream stream, size_t bytes, void **out)
{
    *out = ls__pool_allocate_for(pool, stream, bytes);
    return *out ? LS_OK : ls__pool_fail(pool, bytes, "net: targets");
}

static ls_status open_slot(ls_context *ctx, ls__one_hot_slot *slot, size_t bytes)
{
    const ls__backend *backend = ctx->device->backend;
    const bool on_host = backend->host_memory;
    void *block;
    LS_TRY(one_hot_allocate(ctx->pool, on_host ? LS__STREAM_COMPUTE : LS__STREAM_COPY, bytes,
                            &slot->memory));
    if (on_host) return LS_OK;
    LS_TRY(one_hot_allocate(ctx->host_pool, LS__STREAM_COMPUTE, bytes, &block));
    slot->block = block;
    LS_TRY(backend->event_open(ctx->device, &slot->uploaded));
    return backend->event_open(ctx->device, &slot->read);
}

/* Memory for batches of up to n rows, which the next ones use again. */
static ls_status open_slots(ls_context *ctx, ls__one_hot *one_hot, int64_t n, int64_t classes)
{
    const size_t bytes = (size_t)(n * classes) * sizeof(float);
    const size_t label_bytes = (size_t)n * sizeof(int32_t);
    const int n_slots = ctx->device->backend->host_memory ? 1 : LS__N_ONE_HOT_SLOTS;
    ls_status status = LS_OK;
    for (int i = 0; i < n_slots && status == LS_OK; i++)
        status = open_slot(ctx, &one_hot->slots[i], bytes);
    if (status == LS_OK && n_slots > 1) {
        one_hot->labels = ls__alloc(ctx, label_bytes);
        if (!one_hot->labels) status = ls__fail_memory(ctx, "net: targets", label_bytes);
    }
    one_hot->max_n = n;
    if (status != LS_OK) ls__one_hot_close(ctx, one_hot);
    return status;
}

static ls_status one_hot_reserve(ls_context *ctx, ls__one_hot *one_hot, int64_t n, int64_t classes)
{
    const ls_shape *last = &one_hot->targets.shape;
    if (n > one_hot->max_n || last->dims[1] != classes) {
        ls__one_hot_close(ctx, one_hot);
        LS_TRY(open_slots(ctx, one_hot, n, classes));
    }
    if (last->dims[0] != n)
        ls__tensor_view(ctx, &one_hot->targets, LS_F32, LS_SHAPE(n, classes),
                        one_hot->slots[0].memory);
    return LS_OK;
}

static void write_rows(float *targets, const int32_t *labels, int64_t n, int64_t classes)
{
    memset(targets, 0, (size_t)(n * classes) * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        if (labels[i] >= 0 && labels[i] < classes) targets[i * classes + labels[i]] = 1;
}

/* All work on the previous batch is queued by now. */
static ls_status one_hot_upload(ls_context *ctx, ls__one_hot *one_hot, const int32_t *labels,
                                int64_t n, int64_t classes)
{
    ls__device *device = ctx->device;
    const int64_t at = one_hot->n_filled % LS__N_ONE_HOT_SLOTS;
    ls__one_hot_slot *slot = &one_hot->slots[at], *other = &one_hot->slots[1 - at];
    if (one_hot->n_filled > 0) LS_TRY(device->backend->event_record(device, other->read));
    if (slot->uploading) LS_TRY(device->backend->event_wait(device, slot->uploaded));
    slot->uploading = false;
    write_rows(slot->block, labels, n, classes);
    const bool is_used = one_hot->n_filled >= LS__N_ONE_HOT_SLOTS;
    LS_TRY(device->backend->upload(device, slot->memory, slot->block, one_hot->targets.bytes,
                                   is_used ? slot->read : NULL, slot->uploaded));
    slot->uploading = true;
    one_hot->n_filled++;
    one_hot->targets.data = slot->memory;
    return LS_OK;
}

ls_status ls__one_hot_fill(ls_context *ctx, ls__one_hot *one_hot, const ls_tensor *labels,
                           int64_t classes)
{
    const int64_t n = labels->count;
    LS_TRY(one_hot_reserve(ctx, one_hot, n, classes));
    const int32_t *values = ls_tensor_data_const(labels);
    if (!values) values = labels->host_copy;
    if (!values) {
        LS_TRY(ls_tensor_read(labels, one_hot->labels, (size_t)n * sizeof(int32_t)));
        values = one_hot->labels;
    }
    if (!ctx->device->backend->host_memory) return one_hot_upload(ctx, one_hot, values, n, classes);
    write_rows(one_hot->slots[0].memory, values, n, classes);
    return LS_OK;
}
