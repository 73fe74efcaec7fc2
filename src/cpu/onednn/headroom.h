/* headroom.h: memory reserved for libraries that do not check their allocations. A block of address
 * space is held while none of their code runs and released right before a call, so that the call
 * can allocate at least that much under any limit: RLIMIT_AS, RLIMIT_DATA, strict overcommit. The
 * pages are never touched, so the block uses no memory.
 *
 * Other threads may allocate released memory before the library does. The block is therefore
 * several times larger than a call needs. Not thread-safe: for the owner's thread only. */
#ifndef LS_CPU_ONEDNN_HEADROOM_H
#define LS_CPU_ONEDNN_HEADROOM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ls__headroom {
    size_t bytes; /* set by the owner; a multiple of the page size */
    void *block;  /* NULL = not held */
} ls__headroom;

/* Allocates the block unless it is held. False if that much memory is not available. */
bool ls__headroom_hold(ls__headroom *headroom);
/* Releases the block for a call; allocates it first if it was not held. False as in hold. */
bool ls__headroom_lend(ls__headroom *headroom);
/* Releases the block for good. */
void ls__headroom_close(ls__headroom *headroom);

#endif
