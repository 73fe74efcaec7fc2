/* check_identity.c: all ranks of a run have one identity; see trainer.h. */
#include "train/trainer.h"

#include "base/alloc.h"
#include "base/c_locale.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/agree.h"
#include "comm/merges.h"
#include "checkpoint/identity.h"
#include "io/json.h"
#include <stdlib.h>
#include <string.h>

/* Rank 0's text, which the caller frees. */
static ls_status get_first_text(ls_context *ctx, const char *own, char **out)
{
    static const char what[] = "identities of ranks";
    const int64_t length = (int64_t)strlen(own);
    int64_t lengths[LS__MAX_RANK_SHARDS], n = 0;
    LS_TRY(ls__comm_gather(ctx->comm, &length, sizeof length, lengths, what));
    for (int r = 0; r < ctx->comm->n_ranks; r++) n += lengths[r];
    *out = ls__alloc(ctx, (size_t)n + 1);
    if (!*out) return ls__fail_memory(ctx, what, (size_t)n + 1);
    const ls_status status = ls__ranks_gather(ctx, own, lengths, 1, *out, what);
    (*out)[lengths[0]] = '\0';
    return status;
}

static ls_status compare(ls_context *ctx, const json_t *first, const json_t *own)
{
    json_t *differences = first && own ? ls__identity_differences(first, own, true) : NULL;
    if (!first && ctx->error == LS_OK)
        return ls__fail(ctx, LS_ERR_DATA, "the identity of rank 0 can't be read");
    if (!differences) return ls__fail_memory(ctx, "identities of ranks", 0);
    char buffer[LS__MESSAGE_SIZE], here[32];
    snprintf(here, sizeof here, "in rank %d", ctx->comm->rank);
    if (json_array_size(differences) > 0) {
        const char *text = ls__identity_text(json_array_get(differences, 0), "in rank 0", here,
                                             buffer, sizeof buffer);
        ls__fail(ctx, LS_ERR_MISMATCH, "the ranks are not of one run: %.*s", LS__CUT(text, 800));
    }
    json_decref(differences);
    return ctx->error;
}

ls_status ls__check_identity_of_ranks(ls_context *ctx, const ls_training_state *state)
{
    if (!ctx->comm) return LS_OK;
    LS__IN_C_LOCALE;
    json_t *own = ls__identity_make(ctx, state);
    char *own_text = own ? json_dumps(own, ls__json_exact(own) | JSON_COMPACT) : NULL, *text = NULL;
    ls_status status = get_first_text(ctx, own_text ? own_text : "", &text);
    json_t *first = status == LS_OK ? json_loads(text, 0, NULL) : NULL;
    if (status == LS_OK) {
        (void)compare(ctx, first, own);
        status = ls__ranks_agree(ctx, NULL);
    }
    json_decref(first);
    json_decref(own);
    ls__free(ctx, text);
    free(own_text);
    return status;
}
