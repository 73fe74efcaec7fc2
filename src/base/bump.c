/* bump.c: chunks that are divided into allocations; see bump.h. */
#include "base/bump.h"

#include "base/alloc.h"

#include <string.h>

enum { CHUNK_BYTES = 16 * 1024, PIECE_ALIGNMENT = 16 };

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
    const size_t wanted = ls__round_up(bytes ? bytes : 1, PIECE_ALIGNMENT);
    chunk *top = bump->chunks;
    if (!top || top->size - top->used < wanted) {
        const size_t header = ls__round_up(sizeof(chunk), LS__ALIGNMENT);
        const size_t size = wanted > CHUNK_BYTES / 4 ? wanted : CHUNK_BYTES;
        unsigned char *memory = ls__zalloc(bump->ctx, header + size);
        if (!memory) return NULL;
        top = (chunk *)memory;
        *top = (chunk){ .next = bump->chunks, .size = size, .memory = memory + header };
        bump->chunks = top;
    }
    void *piece = top->memory + top->used;
    top->used += wanted;
    return piece;
}

char *ls__bump_strdup(ls__bump *bump, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = ls__bump_alloc(bump, size);
    if (copy) memcpy(copy, text, size);
    return copy;
}

void *ls__bump_room(ls__bump *bump, void *array, size_t n, size_t more, size_t *room, size_t size)
{
    enum { FIRST_ROOM = 16 };
    if (array && n <= *room && more <= *room - n) return array;
    size_t needed, bytes;
    if (!ls__add_size(n, more, &needed) || needed > SIZE_MAX / 2) return NULL;
    const size_t larger_room = needed < FIRST_ROOM / 2 ? FIRST_ROOM : 2 * needed;
    if (!ls__mul_size(larger_room, size, &bytes)) return NULL;
    void *larger = ls__bump_alloc(bump, bytes);
    if (!larger) return NULL;
    if (n > 0) memcpy(larger, array, n * size);
    *room = larger_room;
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
