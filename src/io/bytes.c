/* bytes.c: see bytes.h. */
#include "io/bytes.h"

#include "base/alloc.h"
#include <string.h>

unsigned char *ls__bytes_extend(ls__bytes *b, size_t size)
{
    unsigned char *data = ls__grow(b->ctx, b->data, b->size, size, &b->capacity, 1);
    b->failed |= !data;
    if (!data) return NULL;
    b->data = data;
    b->size += size;
    return data + b->size - size;
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
