/* json.h: JSON files through jansson, read whole, written whole or not at all. */
#ifndef LS_RUN_JSON_H
#define LS_RUN_JSON_H

#include <jansson.h>
#include <lockstep/context.h>

/* Indented, keys in the order in which they were put in. json NULL reports that there was no memory
 * for it. */
ls_status ls__json_save(ls_context *ctx, const char *path, const json_t *json);

/* A new object, to be given back with json_decref; NULL and an error that says where the text is
 * wrong. */
json_t *ls__json_load(ls_context *ctx, const char *path);

#endif
