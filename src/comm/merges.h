/* merges.h: the order in which sums of shards are added up, as data. */
#ifndef LS_COMM_MERGES_H
#define LS_COMM_MERGES_H

enum { LS__MAX_RANK_SHARDS = 64 }; /* of a run with several ranks */

/* Rows that are added as they come: after row i the last n_merged[i] sums before it are added to
 * it, the latest first, each as sum = earlier + sum. The n_sums that are left are rows 0 to
 * n_sums - 1, in the order of shards. */
typedef struct ls__merges {
    int n_rows, n_sums;
    signed char n_merged[LS__MAX_RANK_SHARDS];
} ls__merges;

#endif
