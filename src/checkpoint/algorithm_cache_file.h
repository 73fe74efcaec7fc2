/* algorithm_cache_file.h: kernel selections as JSON, for files and checkpoints. */
#ifndef LS_CHECKPOINT_ALGORITHM_CACHE_FILE_H
#define LS_CHECKPOINT_ALGORITHM_CACHE_FILE_H

#include "nn/net/net.h"
#include "backend/algorithm_cache.h"
#include <jansson.h>

/* The JSON of an algorithm cache file. NULL on a memory failure. */
json_t *ls__algorithm_cache_json(const ls_context *ctx, const ls__selections *selections);
/* The JSON of a checkpoint: the net's selections as "kernels", except the heuristic's, which are
 * in "heuristic". "known" lists the context's selections for ops that the net has not used so far.
 * NULL on a memory failure. */
json_t *ls__algorithm_cache_of_net(const ls_context *ctx, const ls_net *net);

/* Puts the selections of a JSON text into `table`; see ls_algorithm_cache_load, or with
 * `checkpoint` ls_checkpoint_load_algorithms. `path` names the file in errors. The
 * selections that a checkpoint's run has used are inherited: each new net lists them as used. */
ls_status ls__algorithm_cache_read(ls_context *ctx, ls__selections *table, const char *path,
                                   const char *text, bool checkpoint);

/* Fails if ls_algorithm_cache_save can't write to `path`; called before timing. */
ls_status ls__algorithm_cache_check_path(ls_context *ctx, const char *path);

#endif
