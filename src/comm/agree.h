/* agree.h: ranks agree on errors and on a stop, so that all of them end at the same call; they
 * compare settings and gather arrays. */
#ifndef LS_COMM_AGREE_H
#define LS_COMM_AGREE_H

#include "comm/comm.h"

/* All ranks call it. If a rank's context has an error, the others get that of the lowest such rank,
 * with its number, and its status is returned. *stop, unless NULL, becomes true if it is true in
 * any rank. With one rank: returns the context's error; *stop does not change. */
ls_status ls__ranks_agree(ls_context *ctx, bool *stop);

/* A rank that ends with the error in its context calls this instead of ls__ranks_agree: the other
 * ranks get the error, and comm->is_lost is set in all. Does nothing with one rank, or if ranks are
 * lost already. */
void ls__ranks_give_up(ls_context *ctx);

/* All ranks call it. Rank r has counts[r] items; `all` becomes those of all ranks, in the order of
 * ranks. With several ranks only. */
ls_status ls__ranks_gather(ls_context *ctx, const void *own, const int64_t *counts,
                           size_t item_bytes, void *all, const char *what);

enum { LS__RANK_VALUE_SIZE = 24, LS__MAX_RANK_SETTINGS = 64 };

typedef struct ls__rank_setting {
    const char *name;
    char value[LS__RANK_VALUE_SIZE];
} ls__rank_setting;

ls__rank_setting ls__rank_number(const char *name, int64_t value);

/* All ranks call it with as many settings, at most LS__MAX_RANK_SETTINGS. If the values of one
 * differ, all ranks get LS_ERR_MISMATCH with the first such name, the values and their ranks. With
 * one rank: nothing. */
ls_status ls__ranks_check_settings(ls_context *ctx, const ls__rank_setting *settings, int n);

#endif
