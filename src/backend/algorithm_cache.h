/* algorithm_cache.h: which kernel runs which op, as a table sorted by the op's text (ls__op_text).
 * A context has one: what plan files, checkpoints and timing have settled, for the nets that are
 * built in it. Every net has another: what its programs use, which is a part of a run's identity.
 */
#ifndef LS_BACKEND_ALGORITHM_CACHE_H
#define LS_BACKEND_ALGORITHM_CACHE_H

#include "backend/backend.h"

/* What a table holds at most, see the two ls__choices_keep functions. */
enum { LS__MAX_CHOICES = 4096, LS__CHOICE_REASON_SIZE = 48 };

typedef struct ls__choice {
    const char *op; /* copied by put */
    char kernel[LS__KERNEL_NAME_SIZE];
    char reason[LS__CHOICE_REASON_SIZE]; /* "heuristic", "plan", "checkpoint", "timed 0.12 ms of 3
                                            candidates" */
    bool derived;   /* the heuristic's: when it is dropped, the same is found again */
    bool inherited; /* from a checkpoint: the run that goes on has used it */
    int64_t used;   /* by the table's clock; set by put and find */
    uint64_t hash;  /* of op; set by put */
} ls__choice;

typedef struct ls__choices {
    const ls_context *ctx;
    ls__choice **items; /* sorted by op */
    int n, room;
    int64_t clock;
    int64_t n_timed; /* ops that were timed for this table */
} ls__choices;

ls_status ls__choices_open(ls_context *ctx, ls__choices **out);
void ls__choices_close(ls__choices **choices);

/* NULL when there is none. Valid until the table changes. */
const ls__choice *ls__choices_find(ls__choices *choices, const char *op);
/* Adds a copy, in the place of one for the same op. The error is kept in ctx. */
ls_status ls__choices_put(ls_context *ctx, ls__choices *choices, const ls__choice *choice);

/* Drops that of an op, if there is one. */
void ls__choices_remove(ls__choices *choices, const char *op);
/* Drops the least recently used ones until there are `most`. */
void ls__choices_keep_recent(ls__choices *choices, int most);
/* Drops derived ones until there are `most` of these: those whose hashes are greatest, so that what
 * stays depends on which ops there were, and not on their order, nor on stops in between. */
void ls__choices_keep_sample(ls__choices *choices, int most);

#endif
