/* provenance.h: where a run was made: by which build, on which machine, when. */
#ifndef LS_RUN_PROVENANCE_H
#define LS_RUN_PROVENANCE_H

#include <jansson.h>
#include <lockstep/context.h>

/* {"lockstep", "commit", "compiler", "flags", "host", "system", "begun", "driver"}, texts; begun is
 * the time in UTC, driver the device's, left out where it has none. NULL without memory. */
json_t *ls__provenance_make(const ls_context *ctx);

#endif
