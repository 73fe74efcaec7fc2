/* captures.c: see captures.h. */
#include "nn/plan/captures.h"

void ls__capture_drop(ls_context *ctx, ls__capture *capture)
{
    if (capture->graph) ctx->device->backend->captured_close(ctx->device, capture->graph);
    capture->graph = NULL;
}

void ls__captures_drop(ls_context *ctx, ls__captures *captures)
{
    for (int i = 0; i < LS__MAX_CAPTURES; i++) {
        ls__capture_drop(ctx, &captures->items[i]);
        captures->items[i].refused = false;
    }
}

ls__capture *ls__captures_find(ls_context *ctx, ls__captures *captures, uint64_t update, int begin,
                               int end)
{
    ls__capture *oldest = &captures->items[0];
    for (int i = 0; i < LS__MAX_CAPTURES; i++) {
        ls__capture *c = &captures->items[i];
        if (c->update == update && c->begin == begin && c->end == end) return c;
        if (c->last_used < oldest->last_used) oldest = c;
    }
    ls__capture_drop(ctx, oldest);
    *oldest = (ls__capture){ .update = update, .begin = begin, .end = end };
    return oldest;
}
