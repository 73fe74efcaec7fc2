/* sums.c: see sums.h. */
#include "sums.h"

float shard_value(int shard, int64_t element, int step)
{
    uint64_t x = (uint64_t)element * 4099 + (uint64_t)shard * 131 + (uint64_t)step + 1;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 32;
    return ((float)(x >> 40) * 0x1p-24f - 0.5f) / (float)(1 << (x & 15));
}

typedef struct node_sum {
    bool exists;
    float value;
} node_sum;

static node_sum sum_node(const bool *present, int n_shards, int64_t element, int step, int begin,
                         int width)
{
    if (begin >= n_shards) return (node_sum){ 0 };
    if (width == 1) return (node_sum){ present[begin], shard_value(begin, element, step) };
    const int half = width / 2;
    const node_sum a = sum_node(present, n_shards, element, step, begin, half);
    const node_sum b = sum_node(present, n_shards, element, step, begin + half, half);
    if (!a.exists || !b.exists) return a.exists ? a : b;
    return (node_sum){ true, a.value + b.value };
}

float sum_by_definition(const bool *present, int n_shards, int64_t element, int step)
{
    return sum_node(present, n_shards, element, step, 0, MAX_SHARDS).value;
}

static int count_in_node(const bool *present, int n_shards, int64_t begin, int64_t end, int node,
                         int width)
{
    int n_inside = 0, n_all = 0;
    for (int s = node; s < node + width && s < n_shards; s++) {
        n_all += present[s];
        n_inside += present[s] && s >= begin && s < end;
    }
    if (n_inside == 0) return 0;
    if (n_inside == n_all) return 1;
    return count_in_node(present, n_shards, begin, end, node, width / 2) +
           count_in_node(present, n_shards, begin, end, node + width / 2, width / 2);
}

int count_pieces(const bool *present, int n_shards, int64_t begin, int64_t end)
{
    return count_in_node(present, n_shards, begin, end, 0, MAX_SHARDS);
}

void merge_rows(const ls__merges *merges, float *rows, int64_t count)
{
    int n_sums = 0;
    for (int i = 0; i < merges->n_rows; i++) {
        const int first = n_sums - merges->n_merged[i];
        for (int64_t k = 0; k < count; k++) {
            float sum = rows[i * count + k];
            for (int s = n_sums - 1; s >= first; s--) sum = rows[s * count + k] + sum;
            rows[first * count + k] = sum;
        }
        n_sums = first + 1;
    }
}

void fill_present(int pattern, int n_shards, bool *present)
{
    const int n_samples = pattern == 1 ? n_shards / 2 + 1 : pattern == 2 ? 3 : 0;
    bool any = false;
    for (int s = 0; s < n_shards; s++) {
        const unsigned random = (unsigned)(s * 7 + n_shards + 3) * 2654435761u >> 28;
        const bool has_samples = n_samples * (s + 1) / n_shards > n_samples * s / n_shards;
        const bool patterns[N_PATTERNS] = { true,       has_samples,       has_samples,
                                            s % 2 == 0, s >= n_shards / 2, s == n_shards - 1,
                                            random & 1, (random & 6) == 0 };
        present[s] = patterns[pattern];
        any = any || present[s];
    }
    if (!any) present[n_shards / 3] = true;
}

int fill_machines(enum layout layout, int n_ranks, int *machines)
{
    static const int sizes[N_LAYOUTS] = { [OF_1] = 1, [OF_2] = 2, [OF_3] = 3, [OF_4] = 4 };
    const int size = layout == ONE_MACHINE ? n_ranks
                     : layout == HALVES    ? (n_ranks + 1) / 2
                     : layout == UNEVEN    ? n_ranks / 2 + 1
                                           : sizes[layout];
    for (int r = 0; r < n_ranks; r++)
        machines[r] = size ? r / size * size : layout == INTERLEAVED || r < 2 ? r % 2 : 2 + r % 2;
    if (layout == LAST_APART && n_ranks > 1) machines[1] = 0;
    return size > 1 && size < n_ranks && n_ranks % size == 0 ? size : 0;
}
