/* algorithm_cache_file.h: kernel choices as JSON, for plan files and checkpoints. */
#ifndef LS_RUN_ALGORITHM_CACHE_FILE_H
#define LS_RUN_ALGORITHM_CACHE_FILE_H

#include "nn/net.h"
#include "backend/algorithm_cache.h"
#include <jansson.h>

/* What a plan file holds. NULL without memory. */
json_t *ls__plan_json(const ls_context *ctx, const ls__selections *selections);
/* What a checkpoint holds: the choices that the net has used, those by the heuristic apart, as
 * "heuristic"; and as "known" those that the context's table had for ops that the net has not come
 * to yet, or never will. NULL without memory. */
json_t *ls__plan_of_net(const ls_context *ctx, const ls_net *net);

/* Puts what the JSON text holds into a table, as ls_algorithm_cache_load says, or for a checkpoint
 * ls_checkpoint_load_algorithms; path is for errors.
 * The choices that a checkpoint's run has used are inherited: they stay in the lists of nets that
 * are built next. */
ls_status ls__plan_read(ls_context *ctx, ls__selections *table, const char *path, const char *text,
                        bool checkpoint);

/* Whether ls_algorithm_cache_save could write there: an error now, before anything is timed for
 * nothing. */
ls_status ls__plan_check_place(ls_context *ctx, const char *path);

#endif
