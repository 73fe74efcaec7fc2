/* json_text.c: see json_text.h. Not json_dumps, which without memory may return half a text
 * (jansson 2.14). */
#include "io/json_text.h"

#include "base/alloc.h"
#include "base/c_locale.h"

bool ls__json_dump(const ls_context *ctx, const json_t *json, size_t flags, char **out,
                   size_t *size)
{
    LS__IN_C_LOCALE;
    *size = json ? json_dumpb(json, NULL, 0, flags) : 0;
    *out = *size > 0 ? ls__alloc(ctx, *size) : NULL;
    if (!*out) return false;
    if (json_dumpb(json, *out, *size, flags) == *size) return true;
    ls__free(ctx, *out);
    *out = NULL;
    return false;
}
