/* skipped_updates.h: detects that loss scaling skips every update, because such a run learns
 * nothing. */
#ifndef LS_TRAIN_SKIPPED_UPDATES_H
#define LS_TRAIN_SKIPPED_UPDATES_H

#include <stdbool.h>
#include <stdint.h>

/* Each update that is skipped halves the loss scale: this many in a row reduce it from its maximum,
 * 2^24, to its minimum, 2^-24. */
enum { LS__HOPELESS_UPDATES = 50 };

/* The last check at which an update had been applied since the check before it. */
typedef struct ls__skipped_updates {
    int64_t steps, skipped; /* by then */
    bool reported;          /* since then */
} ls__skipped_updates;

/* The next check. Returns true once for each sequence of LS__HOPELESS_UPDATES or more updates that
 * were all skipped. */
bool ls__skipped_updates_check(ls__skipped_updates *last, int64_t steps, int64_t skipped);

#endif
