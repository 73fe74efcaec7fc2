/* net_labels.c: checks that fed labels are classes of the losses that read them, because another
 * number would make the loss and then every weight NaN. Labels and targets of batches that have
 * none. */
#include "base/alloc.h"
#include "base/error.h"
#include "nn/net/net_state.h"

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
