/* providers.c: see providers.h. */
#include "cuda/providers.h"
#include "base/context.h"
#include "base/error.h"
#include "base/text.h"
#include "cuda/provider.h"
#include <stdlib.h>
#include <string.h>

static ls_status load_libraries(ls__cuda *cuda)
{
    static const char variable[] = "LOCKSTEP_CUDA_LIBRARIES";
    ls_context *ctx = cuda->device.ctx;
    const char *set = getenv(variable);
    const bool excluded = set && strcmp(set, "none") == 0;
    if (set && set[0] && !excluded)
        return ls__fail(ctx, LS_ERR_INVALID, "%s is '%.*s', expected 'none' or nothing", variable,
                        LS__CUT(set, 100));
    for (int i = 0; ls__cuda_providers[i]; i++) {
        const ls__cuda_provider *provider = ls__cuda_providers[i];
        char text[512];
        if (!provider->load) continue;
        cuda->left_out[i] = excluded || !provider->load(text, sizeof(text));
        if (excluded)
            ls__inform(ctx, LS_LOG_CONTEXT, "device 'cuda': %s is left out: %s is none",
                       provider->title, variable);
        else if (cuda->left_out[i])
            ls__warn(ctx, LS_LOG_CONTEXT,
                     "device 'cuda': %s can't be used, slow kernels of our own run instead: %s",
                     provider->title, text);
        else
            ls__inform(ctx, LS_LOG_CONTEXT, "device 'cuda': %s is loaded from %s", provider->title,
                       text);
    }
    return LS_OK;
}

/* Appends advice to an error that a provider's library has just kept. */
static ls_status add_advice(ls__cuda *cuda, const ls__cuda_provider *provider, ls_status status)
{
    ls_context *ctx = cuda->device.ctx;
    char reason[LS__MESSAGE_SIZE];
    if (status == LS_OK || status == LS_ERR_MEMORY || !provider->title || ctx->unusable)
        return status;
    memcpy(reason, ctx->message, sizeof(reason));
    ctx->error = LS_OK;
    return ls__fail(ctx, status,
                    "device 'cuda': %.*s (%s; LOCKSTEP_CUDA_LIBRARIES=none computes without %s, "
                    "slowly)",
                    LS__CUT(reason, 700), cuda->driver_text, provider->title);
}

ls_status ls__cuda_providers_open(ls__cuda *cuda)
{
    LS_TRY(load_libraries(cuda));
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (ls__cuda_providers[i]->open && !cuda->left_out[i])
            LS_TRY(add_advice(cuda, ls__cuda_providers[i],
                              ls__cuda_providers[i]->open(cuda, &cuda->states[i])));
    return LS_OK;
}

void ls__cuda_providers_close(ls__cuda *cuda)
{
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (cuda->states[i]) ls__cuda_providers[i]->close(cuda, cuda->states[i]);
}

void ls__cuda_providers_describe(const ls__cuda *cuda, ls__text *out)
{
    for (int i = 0; ls__cuda_providers[i]; i++) {
        const ls__cuda_provider *provider = ls__cuda_providers[i];
        if (cuda->left_out[i])
            ls__text_put(out, ", no %s", provider->title);
        else if (provider->library)
            ls__text_put(out, ", %s", provider->library(cuda->states[i]));
    }
}

int64_t ls__cuda_channel_multiple(const ls__device *device)
{
    const ls__cuda *cuda = (const ls__cuda *)device;
    int64_t multiple = 0;
    for (int i = 0; ls__cuda_providers[i]; i++)
        if (!cuda->left_out[i] && ls__cuda_providers[i]->channel_multiple > multiple)
            multiple = ls__cuda_providers[i]->channel_multiple;
    return multiple;
}

int ls__cuda_candidates(ls__device *device, const ls__op *op, ls__candidate *out, int max)
{
    ls__cuda *cuda = (ls__cuda *)device;
    int n = 0;
    (void)ls__cuda_enter(device);
    for (int i = 0; ls__cuda_providers[i] && n < max; i++) {
        if (cuda->left_out[i]) continue;
        n += ls__cuda_providers[i]->candidates(cuda, cuda->states[i], op, out + n, max - n);
        /* Without the failed provider's candidates a slower kernel would be selected. */
        if (ls__has_error(device->ctx)) {
            (void)add_advice(cuda, ls__cuda_providers[i], device->ctx->error);
            return 0;
        }
    }
    return n;
}

ls_status ls__cuda_kernel_open(ls__device *device, const ls__op *op, const char *name,
                               ls__kernel **out)
{
    ls__cuda *cuda = (ls__cuda *)device;
    *out = NULL;
    (void)ls__cuda_enter(device);
    for (int i = 0; ls__cuda_providers[i]; i++) {
        const ls__cuda_provider *provider = ls__cuda_providers[i];
        const size_t length = strlen(provider->name);
        if (!cuda->left_out[i] && strncmp(name, provider->name, length) == 0 &&
            (name[length] == '\0' || name[length] == ' '))
            return provider->kernel_open(cuda, cuda->states[i], op, name, out);
    }
    return ls__fail(device->ctx, LS_ERR_NOT_FOUND, "%s: cuda has no kernel '%s'",
                    ls__op_name(op->kind), name);
}
