/* checkpoint.c: functions for both saving and loading. */
#include "optim/optimizer.h"
#include "checkpoint/checkpoint.h"

#include "base/error.h"
#include "base/text.h"
#include "data/loader/loader.h"
#include "io/safetensors.h"
#include "nn/net/net.h"
#include "optim/schedule.h"

#include <string.h>

static const char EXTENSION[] = ".safetensors";

static ls_status check_optimizer(const ls_training_state *state, const char *call,
                                 const ls_optimizer *opt)
{
    ls_context *ctx = opt->owned.ctx;
    if (state->net && opt->net != state->net)
        return ls__fail(ctx, LS_ERR_MISMATCH, "%s: the optimizer belongs to another net", call);
    if (opt->holds_average)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: the net holds the moving averages; call ls_optimizer_swap_ema first",
                        call);
    return LS_OK;
}

/* Fails if two optimizers train the same parameter, whose states would have the same name. */
static ls_status check_apart(const char *call, const ls_optimizer *a, const ls_optimizer *b)
{
    const ls__net_blocks blocks = ls__net_get_blocks(a->net);
    if (a->net != b->net)
        return ls__fail(a->owned.ctx, LS_ERR_MISMATCH,
                        "%s: the optimizers belong to different nets", call);
    for (int64_t i = 0; i < blocks.n_parameters; i++)
        if (ls__is_trained_by(a->parameters, &blocks.parameters[i]) &&
            ls__is_trained_by(b->parameters, &blocks.parameters[i]))
            return ls__fail(a->owned.ctx, LS_ERR_INVALID, "%s: two optimizers train '%s'", call,
                            blocks.parameters[i].name);
    return LS_OK;
}

static ls_status check_optimizers(ls_context *ctx, const ls_training_state *state, const char *call)
{
    const ls__optimizers all = ls__optimizers_of(state);
    if (state->optimizer && state->n_optimizers != 0)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: the state has both optimizer and optimizers",
                        call);
    for (int64_t i = 0; i < all.n; i++) {
        LS_TRY(check_optimizer(state, call, all.items[i]));
        for (int64_t j = 0; j < i; j++) LS_TRY(check_apart(call, all.items[j], all.items[i]));
    }
    return LS_OK;
}

ls_status ls__state_context(const char *call, const ls_training_state *state, ls_context **out)
{
    if (!state) return LS_ERR_INVALID;
    ls_context *all[4 + LS_MAX_OPTIMIZERS] = { state->net ? ls_net_context(state->net) : NULL,
                                               state->schedule ? state->schedule->owned.ctx : NULL,
                                               state->loader ? state->loader->owned.ctx : NULL,
                                               state->validation ? state->validation->owned.ctx
                                                                 : NULL };
    const ls__optimizers optimizers = ls__optimizers_of(state);
    bool are_optimizers = optimizers.n >= 0 && optimizers.n <= LS_MAX_OPTIMIZERS;
    for (int64_t i = 0; i < optimizers.n && are_optimizers; i++) {
        are_optimizers = optimizers.items && optimizers.items[i];
        if (are_optimizers) all[4 + i] = optimizers.items[i]->owned.ctx;
    }
    *out = NULL;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!*out) *out = all[i];
    LS__ENTER(*out);
    if (!are_optimizers)
        return ls__fail(*out, LS_ERR_INVALID,
                        "%s: n_optimizers is %lld; expected 0 to %d, and none of them NULL", call,
                        (long long)state->n_optimizers, LS_MAX_OPTIMIZERS);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] && all[i] != *out)
            return ls__fail(*out, LS_ERR_MISMATCH,
                            "%s: the state's members belong to different contexts", call);
    return check_optimizers(*out, state, call);
}

const char *ls__checkpoint_path(ls_context *ctx, ls__bump *bump, const char *call, const char *path)
{
    if (!path || !*path) {
        ls__fail(ctx, LS_ERR_INVALID, "%s: path is %s", call, path ? "empty" : "NULL");
        return NULL;
    }
    if (ls__ends_with(path, EXTENSION) && strcmp(path, EXTENSION) != 0) return path;
    const char *out = ls__bump_format(bump, "%s%s", path, EXTENSION);
    if (!out) ls__fail_memory(ctx, call, strlen(path) + sizeof(EXTENSION));
    return out;
}

ls_status ls__checkpoint_check_digest(ls_context *ctx, const char *path, const ls_tensor_file *file,
                                      bool needed)
{
    const char *wrote = ls_tensor_file_metadata(file, LS__CHECKPOINT_DIGEST);
    if (!wrote && !needed) return LS_OK;
    if (!wrote)
        return ls__fail(ctx, LS_ERR_FORMAT,
                        "'%s' is no checkpoint of a run: its metadata has no '%s'", path,
                        LS__CHECKPOINT_DIGEST);
    ls_digest digest;
    char text[LS_DIGEST_TEXT_SIZE];
    LS_TRY(ls__tensor_file_digest(file, LS__CHECKPOINT_DIGEST, &digest));
    if (strcmp(ls_digest_text(digest, text), wrote) == 0) return LS_OK;
    return ls__fail(ctx, LS_ERR_FORMAT,
                    "'%s' is damaged, or was changed: the digest of its contents is %s, expected "
                    "%.*s",
                    path, text, LS__CUT(wrote, 40));
}
