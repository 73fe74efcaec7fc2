/* plan.h: kernel choices as JSON, for plan files and checkpoints. */
#ifndef LS_RUN_PLAN_H
#define LS_RUN_PLAN_H

#include "tensor/choices.h"
#include <jansson.h>

/* What a plan file holds; whole: also the choices by the heuristic, as "heuristic". NULL without
 * memory. */
json_t *ls__plan_json(const ls_context *ctx, const ls__choices *choices, bool whole);

/* Puts what the JSON text holds into the context's table, as ls_plan_load says; path is for errors.
 * The choices of a checkpoint are inherited: they stay in the lists of nets that are built next. */
ls_status ls__plan_read(ls_context *ctx, const char *path, const char *text, bool checkpoint);

#endif
