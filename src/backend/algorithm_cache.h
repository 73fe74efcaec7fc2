/* algorithm_cache.h: tables of kernel selections, sorted by the op's text (ls__op_text). The table
 * of a context is filled by files, checkpoints and timing, and read when nets are built. The table
 * of a net has the selections that its programs use; it is part of a run's identity. */
#ifndef LS_BACKEND_ALGORITHM_CACHE_H
#define LS_BACKEND_ALGORITHM_CACHE_H

#include "backend/backend.h"

/* The largest table; see the two ls__selections_keep functions. */
enum { LS__MAX_SELECTIONS = 4096, LS__SELECTION_REASON_SIZE = 48 };

typedef struct ls__selection {
    const char *op; /* copied by put */
    char kernel[LS__KERNEL_NAME_SIZE];
    char reason[LS__SELECTION_REASON_SIZE]; /* "heuristic", "algorithm cache", "checkpoint", "timed
                                            0.12 ms of 3 candidates" */
    bool derived;   /* by the heuristic, which makes the same selection again */
    bool inherited; /* from a checkpoint: the resumed run has used it */
    int64_t used;   /* by the table's clock; set by put and find */
    uint64_t hash;  /* of op; set by put */
} ls__selection;

typedef struct ls__selections {
    const ls_context *ctx;
    ls__selection **items; /* sorted by op */
    int n, capacity;
    int64_t clock;
    int64_t n_timed; /* ops that were timed for this table */
} ls__selections;

ls_status ls__selections_open(ls_context *ctx, ls__selections **out);
void ls__selections_close(ls__selections **selections);

/* Returns the op's selection, valid until the table changes; NULL if there is none. */
const ls__selection *ls__selections_find(ls__selections *selections, const char *op);
/* Adds a copy, which replaces one for the same op. An error is kept in ctx. */
ls_status ls__selections_put(ls_context *ctx, ls__selections *selections,
                             const ls__selection *selection);

/* Removes the least recently used selections until there are `max`. */
void ls__selections_keep_recent(ls__selections *selections, int max);
/* Removes derived selections with the greatest hashes until there are `max` of them. The result
 * depends on the set of ops, not on their order or on restarts. */
void ls__selections_keep_sample(ls__selections *selections, int max);

#endif
