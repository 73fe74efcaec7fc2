/* run_log_digest.c: digests of a net's last step; see lockstep/run_log.h. */
#include "log/step_digest.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "nn/net/net.h"
#include <math.h>
#include <string.h>

/* Digests that the device computes. */
enum { GRADIENTS = LS__N_BATCH_TENSORS, WEIGHTS, N_SUMS };
typedef struct device_digests {
    ls__digest_sum sums[N_SUMS];
    float losses[];
} device_digests;

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

static ls_status open_digest(ls__step_digest *digest, const char *call, ls_net *net)
{
    ls_context *ctx = ls_net_context(net);
    const int n = ls__net_losses(net, NULL, NULL, 0);
    const size_t bytes = sizeof(device_digests) + (size_t)n * sizeof(float);
    if (digest->readback.ctx == ctx && digest->n_losses == n) return LS_OK;
    ls__step_digest_close(digest);
    LS_TRY(ls__readback_open(&digest->readback, ctx, call, bytes));
    digest->n_losses = n;
    digest->weights = ls__alloc(ctx, (size_t)n * sizeof(*digest->weights));
    digest->losses = ls__alloc(ctx, (size_t)n * sizeof(*digest->losses));
    if (digest->weights && digest->losses) return LS_OK;
    ls__step_digest_close(digest); /* so that the next step opens it again */
    return ls__fail_memory(ctx, call, (size_t)n * sizeof(double));
}

void ls__step_digest_close(ls__step_digest *digest)
{
    const ls_context *ctx = digest->readback.ctx;
    if (!ctx) return;
    ls__free(ctx, digest->weights);
    ls__free(ctx, digest->losses);
    ls__readback_close(&digest->readback);
    *digest = (ls__step_digest){ 0 };
}

/* The numbers of this rank's samples. */
static void add_samples(const ls_context *ctx, ls__step_digest *digest, const ls_batch *batch)
{
    /* after the tensors' digests */
    const uint64_t position = 2 + (batch->labels ? 2 : 0) + (batch->targets ? 2 : 0);
    int64_t begin, end;
    digest->ranks.samples = (ls__digest_sum){ { 0, 0 } };
    digest->n_samples = batch->samples ? batch->n : 0;
    ls__rank_samples(ctx, digest->n_samples, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        ls__digest_word(&digest->ranks.samples, (uint64_t)batch->samples[i],
                        position + (uint64_t)i);
}

static ls_status queue_tensors(ls__step_digest *digest, const ls_context *ctx)
{
    device_digests *computed = digest->readback.memory;
    for (int i = 0; i < LS__N_BATCH_TENSORS; i++) {
        const ls_tensor *tensor = &digest->tensors[i];
        if (!tensor->owned.ctx) continue;
        LS_TRY(ctx->comm
                   ? ls__rank_digest_queue(tensor, &computed->sums[i], &digest->ranks.partial[i])
                   : ls__tensor_digest_queue(tensor, &computed->sums[i]));
    }
    return LS_OK;
}

static ls_status check(const char *call, ls_net *net, const ls_batch *batch)
{
    ls_context *ctx = ls_net_context(net);
    LS__ENTER(ctx);
    if (!batch || !batch->images)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: the batch is NULL", call);
    if (!ls__net_get_blocks(net).gradients)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s: the net was built for inference", call);
    const ls_tensor *labels = batch->labels, *targets = batch->targets;
    if (batch->images->owned.ctx != ctx || (labels && labels->owned.ctx != ctx) ||
        (targets && targets->owned.ctx != ctx))
        return ls__fail(ctx, LS_ERR_MISMATCH,
                        "%s: the batch belongs to another context than the net", call);
    return ls__net_expect_results(net, call);
}

ls_status ls__step_digest_begin(ls__step_digest *digest, const char *call, ls_net *net,
                                const ls_batch *batch)
{
    LS_TRY(check(call, net, batch));
    LS_TRY(open_digest(digest, call, net));
    const ls__net_blocks blocks = ls__net_get_blocks(net);
    ls__device *device = ls_net_context(net)->device;
    device_digests *computed = digest->readback.memory;
    const ls_tensor *tensors[LS__N_BATCH_TENSORS] = { batch->images, batch->labels,
                                                      batch->targets };
    for (int i = 0; i < LS__N_BATCH_TENSORS; i++)
        digest->tensors[i] = tensors[i] ? *tensors[i] : (ls_tensor){ 0 };
    digest->gradient_bytes = (size_t)blocks.parameter_elements * sizeof(float);
    digest->value_bytes = (size_t)block_elements(&blocks) * sizeof(float);
    add_samples(ls_net_context(net), digest, batch);
    LS_TRY(ls__readback_clear(&digest->readback));
    LS_TRY(queue_tensors(digest, ls_net_context(net)));
    LS_TRY(device->backend->digest(device, LS_F32, blocks.gradients, digest->gradient_bytes, 0,
                                   &computed->sums[GRADIENTS]));
    LS_TRY(device->backend->digest(device, LS_F32, blocks.values, digest->value_bytes, 0,
                                   &computed->sums[WEIGHTS]));
    ls__net_losses(net, digest->losses, digest->weights, digest->n_losses);
    LS_TRY(device->backend->gather(device, computed->losses, digest->losses, digest->n_losses));
    return ls__readback_send(&digest->readback);
}

static ls_digest finish_batch(const ls__step_digest *digest)
{
    ls__digest_sum sum = digest->ranks.samples;
    uint64_t position = 0;
    for (int i = 0; i < LS__N_BATCH_TENSORS; i++) {
        const ls_tensor *tensor = &digest->tensors[i];
        if (!tensor->owned.ctx) continue;
        const ls_digest one = ls__tensor_digest_finish(tensor, &digest->ranks.tensors[i]);
        for (int j = 0; j < 2; j++) ls__digest_word(&sum, one.words[j], position++);
    }
    return ls__digest_finish(&sum, 8 * (size_t)(position + (uint64_t)digest->n_samples));
}

ls_status ls__step_digest_end(ls__step_digest *digest, ls_step_digest *out)
{
    LS_TRY(ls__readback_wait(&digest->readback));
    const device_digests *computed = digest->readback.host;
    memcpy(digest->ranks.tensors, computed->sums, sizeof digest->ranks.tensors);
    digest->ranks.gradients = computed->sums[GRADIENTS];
    digest->ranks.weights = computed->sums[WEIGHTS];
    ls_context *ctx = digest->readback.ctx;
    if (ctx->comm) LS_TRY(ls__rank_digest_gather(ctx, &digest->ranks));
    *out = (ls_step_digest){
        .batch = finish_batch(digest),
        .gradients = ls__digest_finish(&computed->sums[GRADIENTS], digest->gradient_bytes),
        .weights = ls__digest_finish(&computed->sums[WEIGHTS], digest->value_bytes)
    };
    for (int i = 0; i < digest->n_losses; i++)
        out->loss += digest->weights[i] * (double)computed->losses[i];
    if (isnan(out->loss)) out->loss = NAN; /* the same bits on every processor */
    return LS_OK;
}

ls_status ls_net_digest(ls_net *net, const ls_batch *batch, ls_step_digest *out)
{
    if (!net) return LS_ERR_EARLIER;
    ls_context *ctx = ls_net_context(net);
    LS__ENTER(ctx);
    if (!out) return ls__fail(ctx, LS_ERR_INVALID, "ls_net_digest: out is NULL");
    ls__step_digest digest = { 0 };
    ls_status status = ls__step_digest_begin(&digest, "ls_net_digest", net, batch);
    if (status == LS_OK) status = ls__step_digest_end(&digest, out);
    ls__step_digest_close(&digest);
    return status;
}
