/* algorithm_cache.h: which kernel runs which op, as a table sorted by the op's text (ls__op_text).
 * A context has one: what plan files, checkpoints and timing have settled, for the nets that are
 * built in it. Every net has another: what its programs use, which is a part of a run's identity.
 */
#ifndef LS_BACKEND_ALGORITHM_CACHE_H
#define LS_BACKEND_ALGORITHM_CACHE_H

#include "backend/backend.h"

/* What a table holds at most, see the two ls__selections_keep functions. */
enum { LS__MAX_SELECTIONS = 4096, LS__SELECTION_REASON_SIZE = 48 };

typedef struct ls__selection {
    const char *op; /* copied by put */
    char kernel[LS__KERNEL_NAME_SIZE];
    char reason[LS__SELECTION_REASON_SIZE]; /* "heuristic", "algorithm cache", "checkpoint", "timed
                                            0.12 ms of 3 candidates" */
    bool derived;   /* the heuristic's: when it is dropped, the same is found again */
    bool inherited; /* from a checkpoint: the run that goes on has used it */
    int64_t used;   /* by the table's clock; set by put and find */
    uint64_t hash;  /* of op; set by put */
} ls__selection;

typedef struct ls__selections {
    const ls_context *ctx;
    ls__selection **items; /* sorted by op */
    int n, room;
    int64_t clock;
    int64_t n_timed; /* ops that were timed for this table */
} ls__selections;

ls_status ls__selections_open(ls_context *ctx, ls__selections **out);
void ls__selections_close(ls__selections **selections);

/* NULL when there is none. Valid until the table changes. */
const ls__selection *ls__selections_find(ls__selections *selections, const char *op);
/* Adds a copy, in the place of one for the same op. The error is kept in ctx. */
ls_status ls__selections_put(ls_context *ctx, ls__selections *selections,
                             const ls__selection *selection);

/* Drops that of an op, if there is one. */
void ls__selections_remove(ls__selections *selections, const char *op);
/* Drops the least recently used ones until there are `most`. */
void ls__selections_keep_recent(ls__selections *selections, int most);
/* Drops derived ones until there are `most` of these: those whose hashes are greatest, so that what
 * stays depends on which ops there were, and not on their order, nor on stops in between. */
void ls__selections_keep_sample(ls__selections *selections, int most);

#endif
