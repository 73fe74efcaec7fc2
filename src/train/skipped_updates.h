/* skipped_updates.h: detects that loss scaling skips every update, because such a run learns
 * nothing. */
#ifndef LS_TRAIN_SKIPPED_UPDATES_H
#define LS_TRAIN_SKIPPED_UPDATES_H

#include <stdbool.h>
#include <stdint.h>

/* Each update that is skipped halves the loss scale: so many in a row bring it from its highest,
 * 2^24, to its lowest, 2^-24, and nothing is left to try. */
enum { LS__HOPELESS_UPDATES = 50 };

/* The last look at which not all updates since the look before had been skipped. */
typedef struct ls__skipped_updates {
    int64_t steps, skipped; /* by then */
    bool told;              /* since then */
} ls__skipped_updates;

/* The next look. True, once for each such row of updates, where LS__HOPELESS_UPDATES or more, with
 * none between them that was not, have been skipped. */
bool ls__skipped_updates_look(ls__skipped_updates *last, int64_t steps, int64_t skipped);

#endif
