/* skipped_updates.c: see skipped_updates.h. */
#include "skipped_updates.h"

bool skipped_updates_look(skipped_updates *last, int64_t steps, int64_t skipped)
{
    if (skipped - last->skipped < steps - last->steps) {
        *last = (skipped_updates){ .steps = steps, .skipped = skipped };
        return false;
    }
    if (last->told || steps - last->steps < HOPELESS_UPDATES) return false;
    last->told = true;
    return true;
}
