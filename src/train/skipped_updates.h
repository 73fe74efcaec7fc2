/* skipped_updates.h: detects runs that train nothing because loss scaling skips every update. */
#ifndef LS_TRAIN_SKIPPED_UPDATES_H
#define LS_TRAIN_SKIPPED_UPDATES_H

#include <stdbool.h>
#include <stdint.h>

/* Each update that is skipped halves the loss scale: this many in a row reduce it from its maximum,
 * 2^24, to its minimum, 2^-24. */
enum { LS__HOPELESS_UPDATES = 50 };

/* The last check that found an applied update since the check before it. */
typedef struct ls__skipped_updates {
    int64_t updates, skipped; /* at that check */
    bool reported;            /* since that check */
} ls__skipped_updates;

/* The next check. Returns true once for each sequence of LS__HOPELESS_UPDATES or more updates that
 * were all skipped. */
static inline bool ls__skipped_updates_check(ls__skipped_updates *last, int64_t updates,
                                             int64_t skipped)
{
    if (skipped - last->skipped < updates - last->updates) {
        *last = (ls__skipped_updates){ .updates = updates, .skipped = skipped };
        return false;
    }
    if (last->reported || updates - last->updates < LS__HOPELESS_UPDATES) return false;
    last->reported = true;
    return true;
}

#endif
