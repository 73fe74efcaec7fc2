/* bump.c: chunks that are divided into allocations; see bump.h. */
#include "base/bump.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 16 * 1024, ALIGNMENT = 16 };

typedef struct ls__bump_chunk {
    struct ls__bump_chunk *next;
    size_t used, size;
    unsigned char *memory;
} chunk;

void ls__bump_open(ls__bump *bump, const ls_context *ctx)
{
    *bump = (ls__bump){ .ctx = ctx };
}

void *ls__bump_alloc(ls__bump *bump, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    const size_t rounded = ls__round_up(bytes ? bytes : 1, ALIGNMENT);
    chunk *top = bump->chunks;
    if (!top || top->size - top->used < rounded) {
        const size_t header = ls__round_up(sizeof(chunk), LS__ALIGNMENT);
        const size_t size = rounded > CHUNK_BYTES / 4 ? rounded : CHUNK_BYTES;
        unsigned char *memory = ls__zalloc(bump->ctx, header + size);
        if (!memory) return NULL;
        top = (chunk *)memory;
        *top = (chunk){ .next = bump->chunks, .size = size, .memory = memory + header };
        bump->chunks = top;
    }
    void *out = top->memory + top->used;
    top->used += rounded;
    return out;
}

char *ls__bump_strdup(ls__bump *bump, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = ls__bump_alloc(bump, size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

char *ls__bump_vformat(ls__bump *bump, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, args);
    char *out = n < 0 ? NULL : ls__bump_alloc(bump, (size_t)n + 1);
    if (out) vsnprintf(out, (size_t)n + 1, format, again);
    va_end(again);
    return out;
}

char *ls__bump_format(ls__bump *bump, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *out = ls__bump_vformat(bump, format, args);
    va_end(args);
    return out;
}

void *ls__bump_room(ls__bump *bump, void *array, size_t n, size_t more, size_t *capacity,
                    size_t size)
{
    enum { FIRST_CAPACITY = 16 };
    if (array && n <= *capacity && more <= *capacity - n) return array;
    size_t needed, bytes;
    if (!ls__add_size(n, more, &needed) || needed > SIZE_MAX / 2) return NULL;
    const size_t new_capacity = needed < FIRST_CAPACITY / 2 ? FIRST_CAPACITY : 2 * needed;
    if (!ls__mul_size(new_capacity, size, &bytes)) return NULL;
    void *larger = ls__bump_alloc(bump, bytes);
    if (!larger) return NULL;
    if (n > 0) memcpy(larger, array, n * size);
    *capacity = new_capacity;
    return larger;
}

void ls__bump_close(ls__bump *bump)
{
    while (bump->chunks) {
        chunk *top = bump->chunks;
        bump->chunks = top->next;
        ls__free(bump->ctx, top);
    }
}
