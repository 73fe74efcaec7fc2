/* bytes.c: see bytes.h. */
#include "io/bytes.h"

#include "base/alloc.h"
#include <string.h>

unsigned char *ls__bytes_extend(ls__bytes *b, size_t size)
{
    if (b->capacity - b->size < size) {
        const size_t capacity = 2 * (b->size + size);
        unsigned char *larger = ls__realloc(b->ctx, b->data, b->size, capacity);
        if (!larger) {
            b->failed = true;
            return NULL;
        }
        b->data = larger;
        b->capacity = capacity;
    }
    b->size += size;
    return b->data + b->size - size;
}

void ls__bytes_put(ls__bytes *b, const void *data, size_t size)
{
    if (size == 0) return;
    unsigned char *to = ls__bytes_extend(b, size);
    if (to) memcpy(to, data, size);
}

void ls__bytes_clear(ls__bytes *b)
{
    b->size = 0;
    b->failed = false;
}

void ls__bytes_free(ls__bytes *b)
{
    ls__free(b->ctx, b->data);
    *b = (ls__bytes){ .ctx = b->ctx };
}
