/* agree.c: see agree.h. */
#include "comm/agree.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/text.h"
#include "comm/merges.h"
#include <string.h>

typedef struct vote {
    int32_t status, stop, gives_up;
} vote;

/* The message of the first rank that has an error. */
static ls_status share_error(ls_context *ctx, const vote *votes)
{
    ls__comm *comm = ctx->comm;
    const size_t bytes = (size_t)comm->n_ranks * LS__MESSAGE_SIZE;
    int failed = 0;
    while (votes[failed].status == LS_OK) failed++;
    char *messages = ls__alloc(ctx, bytes);
    if (!messages) return ls__fail_memory(ctx, "communicator", bytes);
    const ls_status status =
        ls__comm_gather(comm, ctx->message, LS__MESSAGE_SIZE, messages, "an error of a rank");
    if (status == LS_OK)
        ls__fail(ctx, (ls_status)votes[failed].status, "rank %d: %.*s", failed,
                 LS__CUT(messages + (size_t)failed * LS__MESSAGE_SIZE, 900));
    ls__free(ctx, messages);
    return status == LS_OK ? (ls_status)votes[failed].status : status;
}

static ls_status agree(ls_context *ctx, const vote *own, bool *stop)
{
    ls__comm *comm = ctx->comm;
    vote votes[LS__MAX_RANK_SHARDS];
    bool is_failed = false, is_over = false;
    LS_TRY(ls__comm_gather(comm, own, sizeof *own, votes, "agreement of ranks"));
    for (int i = 0; i < comm->n_ranks; i++) {
        is_failed |= votes[i].status != LS_OK;
        is_over |= votes[i].gives_up != 0;
        if (stop) *stop |= votes[i].stop != 0;
    }
    const ls_status status = is_failed ? share_error(ctx, votes) : LS_OK;
    comm->is_lost |= is_over;
    return status;
}

ls_status ls__ranks_agree(ls_context *ctx, bool *stop)
{
    const vote own = { .status = ctx->error, .stop = stop && *stop };
    return ctx->comm ? agree(ctx, &own, stop) : ctx->error;
}

void ls__ranks_give_up(ls_context *ctx)
{
    const vote own = { .status = ctx->error, .gives_up = true };
    if (ctx->comm && !ctx->comm->is_lost) (void)agree(ctx, &own, NULL);
}

/* ---- Settings ---- */

ls__rank_setting ls__rank_number(const char *name, int64_t value)
{
    ls__rank_setting setting = { .name = name };
    ls__snprintf(setting.value, sizeof(setting.value), "%lld", (long long)value);
    return setting;
}

/* values: of one setting, of all ranks, `stride` bytes apart. */
static ls_status fail_setting(ls_context *ctx, const char *name, const char *values, size_t stride)
{
    const int n = ctx->comm->n_ranks;
    char buffer[512];
    ls__text text = { buffer, sizeof(buffer), 0 };
    bool is_listed[LS__MAX_RANK_SHARDS] = { false };
    for (int i = 0; i < n; i++) {
        const char *value = values + (size_t)i * stride;
        int n_equal = 0;
        for (int j = i; j < n; j++) n_equal += strcmp(values + (size_t)j * stride, value) == 0;
        if (is_listed[i]) continue;
        ls__text_put(&text, "%s%s in rank%s", i > 0 ? "; " : "", value, n_equal == 1 ? "" : "s");
        for (int j = i; j < n; j++) {
            if (strcmp(values + (size_t)j * stride, value) != 0) continue;
            ls__text_put(&text, j > i ? ", %d" : " %d", j);
            is_listed[j] = true;
        }
    }
    return ls__fail(ctx, LS_ERR_MISMATCH, "the ranks are not of one run: %s is %s", name, buffer);
}

ls_status ls__ranks_check_settings(ls_context *ctx, const ls__rank_setting *settings, int n)
{
    if (!ctx->comm) return LS_OK;
    char own[LS__MAX_RANK_SETTINGS * LS__RANK_VALUE_SIZE] = { 0 };
    const size_t stride = (size_t)n * LS__RANK_VALUE_SIZE;
    const size_t bytes = (size_t)ctx->comm->n_ranks * stride;
    char *all = ls__alloc(ctx, bytes);
    if (!all) return ls__fail_memory(ctx, "settings of ranks", bytes);
    for (int k = 0; k < n; k++)
        ls__snprintf(own + k * LS__RANK_VALUE_SIZE, LS__RANK_VALUE_SIZE, "%s", settings[k].value);
    ls_status status = ls__comm_gather(ctx->comm, own, stride, all, "settings of ranks");
    for (int k = 0; k < n && status == LS_OK; k++) {
        const char *values = all + k * LS__RANK_VALUE_SIZE;
        for (int r = 1; r < ctx->comm->n_ranks && status == LS_OK; r++)
            if (strcmp(values, values + (size_t)r * stride) != 0)
                status = fail_setting(ctx, settings[k].name, values, stride);
    }
    ls__free(ctx, all);
    return status;
}

/* A gather moves the same number of bytes from each rank: the rest of the last ones is not read. */
ls_status ls__ranks_gather(ls_context *ctx, const void *own, const int64_t *counts,
                           size_t item_bytes, void *all, const char *what)
{
    ls__comm *comm = ctx->comm;
    const size_t n_own = (size_t)counts[comm->rank] * item_bytes;
    const size_t bytes = (size_t)comm->n_ranks * LS__GATHER_BYTES;
    char block[LS__GATHER_BYTES], *received = ls__alloc(ctx, bytes);
    ls_status status = received ? LS_OK : ls__fail_memory(ctx, what, bytes);
    size_t max = 0;
    for (int r = 0; r < comm->n_ranks; r++) max = ls__max_size(max, (size_t)counts[r] * item_bytes);
    for (size_t at = 0; at < max && status == LS_OK; at += sizeof block) {
        memset(block, 0, sizeof block);
        if (at < n_own)
            memcpy(block, (const char *)own + at, ls__min_size(n_own - at, sizeof block));
        status = ls__comm_gather(comm, block, sizeof block, received, what);
        char *out = all;
        for (int r = 0; r < comm->n_ranks && status == LS_OK; r++) {
            const size_t n = (size_t)counts[r] * item_bytes;
            if (at < n)
                memcpy(out + at, received + (size_t)r * sizeof block,
                       ls__min_size(n - at, sizeof block));
            out += n;
        }
    }
    ls__free(ctx, received);
    return status;
}
