/* block_list.c: see block_list.h. */
#include "backend/block_list.h"

#include <string.h>

int64_t ls__block_list_find(const ls__block_list *list, size_t bytes, const char *memory)
{
    int64_t low = 0, high = list->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const ls__block *b = list->blocks[middle];
        const bool below = list->by_size && b->bytes != bytes
                               ? b->bytes < bytes
                               : (uintptr_t)b->memory < (uintptr_t)memory;
        if (below) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void ls__block_list_insert(ls__block_list *list, ls__block *b)
{
    const int64_t i = ls__block_list_find(list, b->bytes, b->memory);
    memmove(list->blocks + i + 1, list->blocks + i, (size_t)(list->n - i) * sizeof(b));
    list->blocks[i] = b;
    list->n++;
}

void ls__block_list_remove(ls__block_list *list, const ls__block *b)
{
    const int64_t i = ls__block_list_find(list, b->bytes, b->memory);
    list->n--;
    memmove(list->blocks + i, list->blocks + i + 1, (size_t)(list->n - i) * sizeof(b));
}
