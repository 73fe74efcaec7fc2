/* json.h: JSON files through jansson, written whole or not at all. */
#ifndef LS_RUN_JSON_H
#define LS_RUN_JSON_H

#include <jansson.h>
#include <lockstep/context.h>

/* Indented, keys in the order in which they were put in. json NULL reports that there was no memory
 * for it. */
ls_status ls__json_save(ls_context *ctx, const char *path, const json_t *json);

#endif
