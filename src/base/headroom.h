/* headroom.h: memory reserved for libraries that do not check their allocations. A block of
 * address space is held while none of their code runs and given back right before a call, so that
 * the call finds at least as much as the block had, whatever limits the process: RLIMIT_AS,
 * RLIMIT_DATA, strict overcommit. The pages are never touched, so the block takes no memory.
 *
 * Between lending and the library's allocations other threads may take what was lent. The block is
 * therefore a multiple of what a call needs. Not thread-safe: its owner's thread only. */
#ifndef LS_BASE_HEADROOM_H
#define LS_BASE_HEADROOM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ls__headroom {
    size_t bytes; /* set by the owner; a multiple of the page size */
    void *block;  /* NULL: lent, or not there */
} ls__headroom;

/* Holds the block, unless it is held already. False where that much is not available. */
bool ls__headroom_hold(ls__headroom *headroom);
/* Gives the block back to the system, after holding it if it was not. False: there is less. */
bool ls__headroom_lend(ls__headroom *headroom);
/* As lend, where nothing follows. */
void ls__headroom_close(ls__headroom *headroom);

#endif
