/* net_audit.c: ls_context_config.audit_every. In an audited step each rank first computes one shard
 * of another rank, from that rank's samples. All results of the shard (plan/shard.h) must have the
 * digest that the other rank computes in the step itself, before they enter the sums. */
#include "backend/readback.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "nn/exec/run_call.h"
#include "nn/net/net_state.h"
#include <string.h>

typedef struct audit {
    ls_net *net;
    int source, auditor;    /* the rank that this one audits, and the one that audits this one */
    int64_t own, other;     /* numbers of shards */
    ls_tensor *feeds;       /* per graph input: samples of the other shard */
    const ls_tensor **list; /* their addresses */
    ls__message *messages;  /* one per graph input to the auditor, then from the source */
    ls__readback digests;   /* of the own shard's results, of the other's */
} audit;
enum { OWN, OTHER, N_DIGESTS };

bool ls__net_is_audited(const ls_net *net)
{
    const int64_t every = net->owned.ctx->config.audit_every;
    return every > 0 && ls__net_comm(net) && net->executor.step.step % every == 0;
}

/* ---- Who audits what ---- */

static int64_t select_shard(const ls__comm *comm, int64_t n_shards, int rank, int64_t turn)
{
    const int64_t begin = ls__rank_first_shard(n_shards, rank, comm->n_ranks),
                  end = ls__rank_first_shard(n_shards, rank + 1, comm->n_ranks);
    return begin + turn % (end - begin);
}

/* The audits of an epoch take turns among all pairs of ranks and all shards. */
static void select_shards(audit *a)
{
    const ls_net *net = a->net;
    const ls__comm *comm = ls__net_comm(net);
    const ls__step *step = &net->executor.step;
    const int64_t turn = step->epoch + step->step / net->owned.ctx->config.audit_every;
    const int n = comm->n_ranks, distance = 1 + (int)(turn % (n - 1));
    a->auditor = (comm->rank + distance) % n;
    a->source = (comm->rank + n - distance) % n;
    a->own = select_shard(comm, net->shards.n, comm->rank, turn / (n - 1));
    a->other = select_shard(comm, net->shards.n, a->source, turn / (n - 1));
}

/* ---- Samples ---- */

static int64_t first_sample(const audit *a, int64_t shard)
{
    return ls__shard_first_sample(a->net->n_samples, shard, a->net->shards.n);
}

static ls_status open_samples(audit *a, int input)
{
    ls_context *ctx = a->net->owned.ctx;
    const ls_tensor *fed = a->net->feeds[input];
    const size_t sample = fed->bytes / (size_t)fed->shape.dims[0];
    const int64_t own = first_sample(a, a->own), own_end = first_sample(a, a->own + 1),
                  other = first_sample(a, a->other), other_end = first_sample(a, a->other + 1);
    const size_t bytes = (size_t)(other_end - other) * sample;
    void *memory = ls__pool_allocate(ctx->pool, bytes);
    if (!memory) return ls__fail_memory(ctx, "samples of an audit", bytes);
    a->list[input] = &a->feeds[input];
    a->feeds[input] = *fed; /* its shape is that of the batch */
    a->feeds[input].data = memory;
    a->messages[input] = (ls__message){ .rank = a->auditor,
                                        .data = (char *)fed->data + (size_t)own * sample,
                                        .bytes = (size_t)(own_end - own) * sample };
    a->messages[a->net->graph.inputs.n + input] =
        (ls__message){ .rank = a->source, .data = memory, .bytes = bytes };
    return LS_OK;
}

static ls_status open_audit(audit *a)
{
    ls_context *ctx = a->net->owned.ctx;
    const size_t n = (size_t)a->net->graph.inputs.n;
    a->feeds = ls__zalloc(ctx, n * sizeof *a->feeds);
    a->list = ls__zalloc(ctx, n * sizeof *a->list);
    a->messages = ls__zalloc(ctx, 2 * n * sizeof *a->messages);
    if (!a->feeds || !a->list || !a->messages)
        return ls__fail_memory(ctx, "audit",
                               n * (sizeof *a->feeds + sizeof *a->list + 2 * sizeof *a->messages));
    LS_TRY(ls__readback_open(&a->digests, ctx, "audit", N_DIGESTS * sizeof(ls__digest_sum)));
    for (int i = 0; i < (int)n; i++) LS_TRY(open_samples(a, i));
    return ls__readback_clear(&a->digests);
}

/* Nothing that was queued reads the memory any more, or the context has failed. */
static void close_audit(audit *a)
{
    ls_context *ctx = a->net->owned.ctx;
    ls__readback_close(&a->digests);
    for (int i = 0; a->feeds && i < a->net->graph.inputs.n; i++)
        if (a->list && a->list[i]) ls__pool_release(ctx->pool, a->feeds[i].data);
    ls__free(ctx, a->messages);
    ls__free(ctx, a->list);
    ls__free(ctx, a->feeds);
}

/* ---- The step ---- */

static ls_status add_digest(audit *a, int which)
{
    const ls_net *net = a->net;
    ls__device *device = net->owned.ctx->device;
    ls__digest_sum *sums = a->digests.memory;
    const size_t bytes =
        (size_t)ls__shard_elements(net->blocks.block_elements, &net->graph) * sizeof(float);
    return device->backend->digest(device, LS_F32, net->blocks.gradients, bytes, 0, &sums[which]);
}

static ls_status compute_other(audit *a, double lr)
{
    ls_net *net = a->net;
    ls__shard shard = { .first_sample = first_sample(a, a->other) };
    const ls__parts parts = { &shard,
                              .n = 1,
                              .n_all = net->shards.n,
                              .first = a->other,
                              .feeds = a->list,
                              .first_fed = shard.first_sample };
    const int64_t end = first_sample(a, a->other + 1);
    LS_TRY(ls__net_find_shard_program(net, end - shard.first_sample, &shard.program));
    shard.calls = shard.program->calls;
    LS_TRY(ls__executor_begin(&net->executor, &parts, NULL, lr));
    net->executor.call_by_call = true;
    LS_TRY(ls__executor_run(&net->executor, net->executor.list->n_calls));
    return add_digest(a, OTHER);
}

/* The position after the own audited shard's calls, before its results are added. */
static int end_of_own(const audit *a)
{
    const ls__parts *parts = &a->net->shards.parts;
    int at = 0;
    for (int64_t i = 0; i < a->own - a->net->shards.first; i++)
        at += parts->list[i].program->n_calls + parts->n_sums;
    return at + parts->list[a->own - a->net->shards.first].program->n_calls;
}

static ls_status compute_own(audit *a, ls__update *update, double lr)
{
    ls_net *net = a->net;
    net->shards.parts.sums_last = true;
    LS_TRY(ls__executor_begin(&net->executor, &net->shards.parts, update, lr));
    LS_TRY(ls__executor_place_fault(&net->executor));
    net->executor.call_by_call = true;
    LS_TRY(ls__executor_run(&net->executor, end_of_own(a)));
    LS_TRY(add_digest(a, OWN));
    return ls__readback_send(&a->digests);
}

static ls_status audit_compare(audit *a, const char *step)
{
    const ls_net *net = a->net;
    ls__comm *comm = ls__net_comm(net);
    struct {
        ls__digest_sum sums[N_DIGESTS];
        int64_t auditor, shard;
    } own = { .auditor = a->auditor, .shard = a->own }, all[LS__MAX_RANK_SHARDS];
    LS_TRY(ls__readback_wait(&a->digests));
    memcpy(own.sums, a->digests.host, sizeof own.sums);
    LS_TRY(ls__comm_gather(comm, &own, sizeof own, all, step));
    for (int i = 0; i < comm->n_ranks; i++) {
        const ls__digest_sum *audited = &all[i].sums[OWN],
                             *again = &all[all[i].auditor].sums[OTHER];
        if (memcmp(audited, again, sizeof *again) != 0)
            return ls__fail(net->owned.ctx, LS_ERR_MISMATCH,
                            "%s: audit: rank %d and rank %lld computed different results of shard "
                            "%lld: a processor, its memory or a library of one of them is faulty",
                            step, i, (long long)all[i].auditor, (long long)all[i].shard);
    }
    return LS_OK;
}

static ls_status audit_run(audit *a, ls__update *update, double lr)
{
    char step[LS__STEP_TEXT_SIZE];
    const int n = a->net->graph.inputs.n;
    ls__step_text(&a->net->executor.step, step);
    select_shards(a);
    LS_TRY(open_audit(a));
    LS_TRY(ls__comm_exchange(a->net->owned.ctx->device_comm, a->messages, n, a->messages + n, n,
                             step));
    LS_TRY(compute_other(a, lr));
    LS_TRY(compute_own(a, update, lr));
    return audit_compare(a, step);
}

ls_status ls__net_audit(ls_net *net, ls__update *update, double lr)
{
    audit a = { .net = net };
    const ls_status status = audit_run(&a, update, lr);
    close_audit(&a);
    return status;
}
