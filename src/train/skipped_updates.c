/* skipped_updates.c: see skipped_updates.h. */
#include "train/skipped_updates.h"

bool ls__skipped_updates_check(ls__skipped_updates *last, int64_t steps, int64_t skipped)
{
    if (skipped - last->skipped < steps - last->steps) {
        *last = (ls__skipped_updates){ .steps = steps, .skipped = skipped };
        return false;
    }
    if (last->reported || steps - last->steps < LS__HOPELESS_UPDATES) return false;
    last->reported = true;
    return true;
}
