/* provenance.h: where a run was made: by which build, on which machine, when. */
#ifndef LS_RUN_PROVENANCE_H
#define LS_RUN_PROVENANCE_H

#include <jansson.h>

/* {"lockstep", "commit", "compiler", "flags", "host", "system", "begun"}, texts, the last one the
 * time in UTC. NULL without memory. */
json_t *ls__provenance_make(void);

#endif
