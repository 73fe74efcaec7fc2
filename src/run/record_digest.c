/* record_digest.c: digests of a step that a net has done; see lockstep/record.h. */
#include <lockstep/record.h>

#include "base/error.h"
#include "base/hash.h"
#include "nn/net.h"
#include "tensor/backend.h"
#include "tensor/tensor.h"
#include <string.h>

static ls_status digest_tensor(ls_context *ctx, const ls_tensor *tensor, uint64_t *position,
                               ls__digest_sum *sum)
{
    ls_digest digest;
    if (tensor->owned.ctx != ctx)
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "ls_net_digest: the batch belongs to another context than the net");
    LS_TRY(ls_tensor_digest(tensor, &digest));
    for (int i = 0; i < 2; i++) ls__digest_word(sum, digest.lanes[i], (*position)++);
    return LS_OK;
}

static ls_status digest_batch(ls_context *ctx, const ls_batch *batch, ls_digest *out)
{
    ls__digest_sum sum = { { 0, 0 } };
    uint64_t position = 0;
    LS_TRY(digest_tensor(ctx, batch->images, &position, &sum));
    if (batch->labels) LS_TRY(digest_tensor(ctx, batch->labels, &position, &sum));
    for (int64_t i = 0; batch->samples && i < batch->n; i++)
        ls__digest_word(&sum, (uint64_t)batch->samples[i], position++);
    ls__digest_finish(&sum, 8 * position);
    memcpy(out->lanes, sum.lanes, sizeof(out->lanes));
    return LS_OK;
}

static ls_status digest_block(ls_context *ctx, const float *block, int64_t count, ls_digest *out)
{
    const size_t bytes = (size_t)count * sizeof(float);
    ls__digest_sum sum = { { 0, 0 } };
    LS_TRY(ctx->device->backend->digest(ctx->device, block, bytes, 0, &sum));
    ls__digest_finish(&sum, bytes);
    memcpy(out->lanes, sum.lanes, sizeof(out->lanes));
    return LS_OK;
}

/* Parameters, then buffers, and the gaps between them, which are zero. */
static int64_t block_elements(const ls__net_blocks *blocks)
{
    int64_t end = blocks->parameter_elements;
    for (int64_t i = 0; i < blocks->n_entries; i++) {
        const ls__entry *entry = &blocks->entries[i];
        if (entry->offset + entry->count > end) end = entry->offset + entry->count;
    }
    return end;
}

ls_status ls_net_digest(ls_net *net, const ls_batch *batch, ls_step_digest *out)
{
    if (!net) return LS_ERR_EARLIER;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER(ctx);
    if (!batch || !batch->images || !out)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_net_digest: %s is NULL",
                        out ? "the batch" : "out");
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    if (!blocks.gradients)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "ls_net_digest: the net was built for inference");
    LS_TRY(digest_batch(ctx, batch, &out->batch));
    LS_TRY(ls_net_loss(net, &out->loss));
    LS_TRY(digest_block(ctx, blocks.gradients, blocks.parameter_elements, &out->gradients));
    return digest_block(ctx, blocks.values, block_elements(&blocks), &out->weights);
}
