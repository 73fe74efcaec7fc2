/* tree.h: the order in which partial sums meet: part i + step is added to part i, for steps of 1,
 * 2, 4 and so on. It follows from the number of parts alone, and that from the shape. */
#ifndef LS_CPU_TREE_H
#define LS_CPU_TREE_H

#include "base/strict_math.h"
#include <stdint.h>

/* Adds n floats of each of n_parts parts into the first. The others lie from `second` on, `apart`
 * floats from each other. */
static inline void ls__tree_sum(float *first, float *second, int64_t apart, int64_t n_parts,
                                int64_t n)
{
    for (int64_t step = 1; step < n_parts; step *= 2)
        for (int64_t part = 0; part + step < n_parts; part += 2 * step) {
            float *restrict to = part == 0 ? first : second + (part - 1) * apart;
            const float *restrict from = second + (part + step - 1) * apart;
            for (int64_t i = 0; i < n; i++) to[i] += from[i];
        }
}

#endif
