/* block_list.h: the pool's blocks in sorted lists; at most some thousands, so that inserting by
 * moving is fast enough. */
#ifndef LS_BACKEND_BLOCK_LIST_H
#define LS_BACKEND_BLOCK_LIST_H

#include "backend/backend.h"

typedef struct ls__block ls__block;
struct ls__block {
    char *memory;
    size_t bytes;
    ls__block *previous, *next; /* neighbours in the segment; `next` also links unused structs */
    ls__stream stream;          /* released after this one */
    bool used;                  /* handed out */
    bool shared;                /* of a segment for small blocks */
};

typedef struct ls__block_list {
    ls__block **blocks; /* with room for one more */
    int64_t n;
    bool by_size; /* then by address; else by address alone */
} ls__block_list;

/* The index of a block of `bytes` at `memory`, or the index at which to insert it. */
int64_t ls__block_list_find(const ls__block_list *list, size_t bytes, const char *memory);
void ls__block_list_insert(ls__block_list *list, ls__block *block);
void ls__block_list_remove(ls__block_list *list, const ls__block *block);

#endif
