/* provenance.h: the build, machine and time of a run. */
#ifndef LS_RUN_PROVENANCE_H
#define LS_RUN_PROVENANCE_H

#include <jansson.h>
#include <lockstep/context.h>

/* {"lockstep", "commit", "compiler", "flags", "webp", "host", "system", "begun", "driver"}, texts;
 * webp is the decoder's version, because WebP files may have another format's extension, by which
 * the identity does not list it; begun is the time in UTC, driver the device's, left out if it has
 * none. NULL if memory is short. */
json_t *ls__provenance_make(const ls_context *ctx);

#endif
