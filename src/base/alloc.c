/* alloc.c: host memory through the context's allocator. */
#include "base/alloc.h"

#include "base/context.h"
#include "base/minmax.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *default_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (bytes > SIZE_MAX - alignment) return NULL;
    return aligned_alloc(alignment, ls__round_up(bytes ? bytes : 1, alignment));
}

static void default_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

const ls_allocator ls__default_allocator = { default_allocate, default_release, NULL };

void *ls__alloc(const ls_context *ctx, size_t bytes)
{
    /* a request for 0 bytes becomes 1, because user allocators may differ for 0 */
    return ctx->allocator.allocate(ctx->allocator.user, bytes ? bytes : 1, LS__ALIGNMENT);
}

void *ls__zalloc(const ls_context *ctx, size_t bytes)
{
    void *memory = ls__alloc(ctx, bytes);
    if (memory) memset(memory, 0, bytes);
    return memory;
}

void *ls__realloc(const ls_context *ctx, void *memory, size_t old_bytes, size_t new_bytes)
{
    void *larger = ls__alloc(ctx, new_bytes);
    if (!larger) return NULL;
    if (memory) memcpy(larger, memory, ls__min_size(old_bytes, new_bytes));
    ls__free(ctx, memory);
    return larger;
}

void *ls__grow(const ls_context *ctx, void *items, size_t n, size_t more, size_t *capacity,
               size_t size)
{
    size_t needed, bytes;
    if (items && more <= *capacity - n) return items;
    if (!ls__add_size(n, more, &needed) || needed > SIZE_MAX / 2 ||
        !ls__mul_size(2 * needed, size, &bytes))
        return NULL;
    void *larger = ls__realloc(ctx, items, n * size, bytes);
    if (larger) *capacity = 2 * needed;
    return larger;
}

void ls__free(const ls_context *ctx, void *memory)
{
    if (memory) ctx->allocator.release(ctx->allocator.user, memory);
}

char *ls__strdup(const ls_context *ctx, const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = ls__alloc(ctx, bytes);
    if (copy) memcpy(copy, text, bytes);
    return copy;
}

char *ls__format(const ls_context *ctx, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : ls__alloc(ctx, (size_t)length + 1);
    if (!text) return NULL;
    va_start(args, format);
    vsnprintf(text, (size_t)length + 1, format, args);
    va_end(args);
    return text;
}

bool ls__mul_size(size_t a, size_t b, size_t *out)
{
    if (b && a > SIZE_MAX / b) return false;
    *out = a * b;
    return true;
}

bool ls__add_size(size_t a, size_t b, size_t *out)
{
    if (a > SIZE_MAX - b) return false;
    *out = a + b;
    return true;
}
