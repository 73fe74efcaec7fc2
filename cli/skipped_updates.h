/* skipped_updates.h: when loss scaling skips every update, a run goes on and learns nothing: who
 * has begun it wants to be told. */
#ifndef LS_CLI_SKIPPED_UPDATES_H
#define LS_CLI_SKIPPED_UPDATES_H

#include <stdbool.h>
#include <stdint.h>

/* Each update that is skipped halves the loss scale: so many in a row bring it from its highest,
 * 2^24, to its lowest, 2^-24, and nothing is left to try. */
enum { HOPELESS_UPDATES = 50 };

/* The last look at which not all updates since the look before had been skipped. */
typedef struct skipped_updates {
    int64_t steps, skipped; /* by then */
    bool told;              /* since then */
} skipped_updates;

/* The next look. True, once for each such row of updates, where HOPELESS_UPDATES or more, with none
 * between them that was not, have been skipped. */
bool skipped_updates_look(skipped_updates *last, int64_t steps, int64_t skipped);

#endif
