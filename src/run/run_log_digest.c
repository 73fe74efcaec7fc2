/* run_log_digest.c: digests of a net's last step; see lockstep/run_log.h. */
#include "run/step_digest.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "nn/net.h"
#include <string.h>

/* Digests that the device computes. */
enum { IMAGES, LABELS, GRADIENTS, WEIGHTS, N_SUMS };
typedef struct device_part {
    ls__digest_sum sums[N_SUMS];
    float losses[];
} device_part;

/* Parameters, then buffers, and the gaps between them, which are zero. */
static int64_t block_elements(const ls__net_blocks *blocks)
{
    int64_t end = blocks->parameter_elements;
    for (int64_t i = 0; i < blocks->n_parameters; i++) {
        const ls__parameter *parameter = &blocks->parameters[i];
        if (parameter->offset + parameter->count > end) end = parameter->offset + parameter->count;
    }
    return end;
}

static ls_status open_digest(ls__step_digest *digest, ls_net *net)
{
    ls_context *ctx = ls_net_context(net);
    const int n = ls__net_losses(net, NULL, NULL, 0);
    const size_t bytes = sizeof(device_part) + (size_t)n * sizeof(float);
    if (digest->readback.ctx == ctx && digest->n_losses == n) return LS_OK;
    ls__step_digest_close(digest);
    LS_TRY(ls__readback_open(&digest->readback, ctx, "ls_net_digest", bytes));
    digest->n_losses = n;
    digest->weights = ls__alloc(ctx, (size_t)n * sizeof(double));
    if (digest->weights) return LS_OK;
    ls__step_digest_close(digest); /* so that the next step opens it again */
    return ls__fail_memory(ctx, "ls_net_digest", (size_t)n * sizeof(double));
}

void ls__step_digest_close(ls__step_digest *digest)
{
    const ls_context *ctx = digest->readback.ctx;
    if (!ctx) return;
    ls__free(ctx, digest->weights);
    ls__readback_close(&digest->readback);
    *digest = (ls__step_digest){ 0 };
}

static ls_status queue_losses(ls__step_digest *digest, ls_net *net, float *out)
{
    ls_context *ctx = ls_net_context(net);
    const size_t bytes = (size_t)digest->n_losses * sizeof(float *);
    const float **losses = ls__alloc(ctx, bytes);
    if (!losses) return ls__fail_memory(ctx, "ls_net_digest", bytes);
    ls__net_losses(net, losses, digest->weights, digest->n_losses);
    const ls_status status =
        ctx->device->backend->gather(ctx->device, out, losses, digest->n_losses);
    ls__free(ctx, losses);
    return status;
}

static void count_samples(ls__step_digest *digest, const ls_batch *batch)
{
    uint64_t position = batch->labels ? 4 : 2; /* after the tensors' digests */
    digest->samples = (ls__digest_sum){ { 0, 0 } };
    digest->n_samples = batch->samples ? batch->n : 0;
    for (int64_t i = 0; i < digest->n_samples; i++)
        ls__digest_word(&digest->samples, (uint64_t)batch->samples[i], position++);
}

static ls_status check(ls_net *net, const ls_batch *batch)
{
    ls_context *ctx = ls_net_context(net);
    LS__ENTER(ctx);
    if (!batch || !batch->images)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_net_digest: the batch is NULL");
    if (!ls__net_get_blocks(net).gradients)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "ls_net_digest: the net was built for inference");
    if (batch->images->owned.ctx != ctx || (batch->labels && batch->labels->owned.ctx != ctx))
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "ls_net_digest: the batch belongs to another context than the net");
    return ls__net_need_results(net, "ls_net_digest");
}

ls_status ls__step_digest_begin(ls__step_digest *digest, ls_net *net, const ls_batch *batch)
{
    LS_TRY(check(net, batch));
    LS_TRY(open_digest(digest, net));
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    ls__device *device = ls_net_context(net)->device;
    device_part *part = digest->readback.memory;
    digest->images = *batch->images;
    digest->labels = batch->labels ? *batch->labels : (ls_tensor){ 0 };
    digest->gradient_bytes = (size_t)blocks.parameter_elements * sizeof(float);
    digest->value_bytes = (size_t)block_elements(&blocks) * sizeof(float);
    count_samples(digest, batch);
    LS_TRY(ls__readback_clear(&digest->readback));
    LS_TRY(ls__tensor_digest_queue(batch->images, &part->sums[IMAGES]));
    if (batch->labels) LS_TRY(ls__tensor_digest_queue(batch->labels, &part->sums[LABELS]));
    LS_TRY(device->backend->digest(device, blocks.gradients, digest->gradient_bytes, 0,
                                   &part->sums[GRADIENTS]));
    LS_TRY(device->backend->digest(device, blocks.values, digest->value_bytes, 0,
                                   &part->sums[WEIGHTS]));
    LS_TRY(queue_losses(digest, net, part->losses));
    return ls__readback_send(&digest->readback);
}

static ls_digest finish(ls__digest_sum sum, size_t bytes)
{
    ls_digest out;
    ls__digest_finish(&sum, bytes);
    memcpy(out.lanes, sum.lanes, sizeof(out.lanes));
    return out;
}

static ls_digest finish_batch(const ls__step_digest *digest, const device_part *part)
{
    ls__digest_sum sum = digest->samples;
    const bool has_labels = digest->labels.owned.ctx != NULL;
    const ls_digest tensors[2] = {
        ls__tensor_digest_finish(&digest->images, &part->sums[IMAGES]),
        has_labels ? ls__tensor_digest_finish(&digest->labels, &part->sums[LABELS])
                   : (ls_digest){ { 0, 0 } },
    };
    uint64_t position = 0;
    for (int i = 0; i < 1 + has_labels; i++)
        for (int j = 0; j < 2; j++) ls__digest_word(&sum, tensors[i].lanes[j], position++);
    return finish(sum, 8 * (size_t)(position + (uint64_t)digest->n_samples));
}

ls_status ls__step_digest_end(ls__step_digest *digest, ls_step_digest *out)
{
    LS_TRY(ls__readback_wait(&digest->readback));
    const device_part *part = digest->readback.host;
    *out = (ls_step_digest){ .batch = finish_batch(digest, part),
                             .gradients = finish(part->sums[GRADIENTS], digest->gradient_bytes),
                             .weights = finish(part->sums[WEIGHTS], digest->value_bytes) };
    for (int i = 0; i < digest->n_losses; i++)
        out->loss += digest->weights[i] * (double)part->losses[i];
    return LS_OK;
}

ls_status ls_net_digest(ls_net *net, const ls_batch *batch, ls_step_digest *out)
{
    if (!net) return LS_ERR_EARLIER;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER(ctx);
    if (!out) return ls__fail(ctx, LS_ERR_INVALID, "ls_net_digest: out is NULL");
    ls__step_digest digest = { 0 };
    ls_status status = ls__step_digest_begin(&digest, net, batch);
    if (status == LS_OK) status = ls__step_digest_end(&digest, out);
    ls__step_digest_close(&digest);
    return status;
}
