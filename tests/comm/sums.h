/* sums.h: what the tests of plans share: the values of shards, their sum by definition, layouts of
 * machines, patterns of shards that have samples, and the merges of rows in plain C. */
#ifndef LS_TESTS_COMM_SUMS_H
#define LS_TESTS_COMM_SUMS_H

#include "comm/plan.h"

enum { MAX_SHARDS = LS__MAX_RANK_SHARDS };

/* Returns values of mixed magnitudes, like gradients, so that a sum depends on its order. */
float shard_value(int shard, int64_t element, int step);

/* The sum over the shards that have samples, by the recursive definition in plan.h. */
float sum_by_definition(const bool *present, int n_shards, int64_t element, int step);

/* The number of nodes that have to be sent for shards [begin, end): those whose samples all belong
 * to these shards, and whose parent's do not. */
int count_pieces(const bool *present, int n_shards, int64_t begin, int64_t end);

/* rows [n_rows, count], added as plan.h says. */
void merge_rows(const ls__merges *merges, float *rows, int64_t count);

/* The i-th pattern; at least one shard has samples. Pattern 0 is all. */
enum { N_PATTERNS = 8 };
void fill_present(int pattern, int n_shards, bool *present);

/* The machine of each rank, as ls__comm has it. Returns the number of ranks of each machine if two
 * levels are expected, else 0. */
enum layout {
    ONE_MACHINE,
    OF_1,
    OF_2,
    OF_3,
    OF_4,
    HALVES,
    UNEVEN,      /* the last machine has fewer ranks */
    INTERLEAVED, /* over two machines */
    LAST_APART,  /* two ranks, then interleaved ones */
    N_LAYOUTS
};
int fill_machines(enum layout layout, int n_ranks, int *machines);

#endif
