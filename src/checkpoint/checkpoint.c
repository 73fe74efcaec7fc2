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

ls_status ls__state_context(const char *call, const ls_training_state *state, ls_context **out)
{
    if (!state) return LS_ERR_INVALID;
    ls_context *const all[] = { state->net ? ls_net_context(state->net) : NULL,
                                state->optimizer ? state->optimizer->owned.ctx : NULL,
                                state->schedule ? state->schedule->owned.ctx : NULL,
                                state->loader ? state->loader->owned.ctx : NULL,
                                state->validation ? state->validation->owned.ctx : NULL };
    *out = NULL;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!*out) *out = all[i];
    LS__ENTER(*out);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] && all[i] != *out)
            return ls__fail(*out, LS_ERR_MISMATCH,
                            "%s: the state's members belong to different contexts", call);
    if (state->net && state->optimizer && state->optimizer->net != state->net)
        return ls__fail(*out, LS_ERR_MISMATCH, "%s: the optimizer belongs to another net", call);
    if (state->optimizer && state->optimizer->holds_average)
        return ls__fail(*out, LS_ERR_INVALID,
                        "%s: the net holds the moving averages; call ls_optimizer_swap_ema first",
                        call);
    return LS_OK;
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
