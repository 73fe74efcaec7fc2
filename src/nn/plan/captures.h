/* captures.h: ranges of a step's call list that a device has captured as graphs. */
#ifndef LS_NN_PLAN_CAPTURES_H
#define LS_NN_PLAN_CAPTURES_H

#include "base/context.h"
#include "backend/backend.h"

typedef struct ls__capture {
    uint64_t update; /* the optimizer's serial number; 0 = none */
    int begin, end;  /* positions in the list */
    bool was_run, refused;
    ls__captured *graph; /* NULL: not captured yet */
    int64_t number;      /* of a capture that all ranks have made at the same time */
    int64_t last_used;
} ls__capture;

/* The captures are those of a whole step, forward alone, backward alone, and the steps of another
 * optimizer. */
enum { LS__MAX_CAPTURES = 4 };
typedef struct ls__captures {
    ls__capture items[LS__MAX_CAPTURES];
} ls__captures;

/* The capture of this range. A new one replaces the least recently used. */
ls__capture *ls__captures_find(ls_context *ctx, ls__captures *captures, uint64_t update, int begin,
                               int end);
void ls__capture_drop(ls_context *ctx, ls__capture *capture);
/* Frees all graphs, because they contain old addresses. */
void ls__captures_drop(ls_context *ctx, ls__captures *captures);

#endif
