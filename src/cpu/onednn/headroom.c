/* headroom.c: the block is a private writable mapping, because RLIMIT_DATA and strict overcommit
 * count only such mappings. */
#include "cpu/onednn/headroom.h"

#include <sys/mman.h>

bool ls__headroom_hold(ls__headroom *headroom)
{
    if (headroom->block) return true;
    void *block =
        mmap(NULL, headroom->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return false;
    headroom->block = block;
    return true;
}

void ls__headroom_close(ls__headroom *headroom)
{
    if (headroom->block) (void)munmap(headroom->block, headroom->bytes);
    headroom->block = NULL;
}

bool ls__headroom_lend(ls__headroom *headroom)
{
    if (!ls__headroom_hold(headroom)) return false;
    ls__headroom_close(headroom);
    return true;
}
