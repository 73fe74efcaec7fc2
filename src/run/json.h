/* json.h: JSON files through jansson, written whole or not at all. */
#ifndef LS_RUN_JSON_H
#define LS_RUN_JSON_H

#include <jansson.h>
#include <lockstep/data.h>

/* Indented, keys in the order in which they were put in. json NULL reports that there was no memory
 * for it. */
ls_status ls__json_save(ls_context *ctx, const char *path, const json_t *json);

/* Lists; NULL without memory. Floats come as the shortest decimals that give them, 0 as
 * `fallback`. */
json_t *ls__json_floats(const float *values, int64_t n, float fallback);
/* Of class names. JSON is UTF-8, names of folders can be anything: in those that are not UTF-8
 * bytes beyond ASCII become \xE9 and the like. */
json_t *ls__json_classes(ls_context *ctx, const ls_dataset *dataset);

#endif
