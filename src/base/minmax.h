/* minmax.h: the smaller and the larger one of two numbers of one type. */
#ifndef LS_BASE_MINMAX_H
#define LS_BASE_MINMAX_H

#include <stddef.h>
#include <stdint.h>

static inline int ls__min_int(int a, int b)
{
    return a < b ? a : b;
}

static inline int ls__max_int(int a, int b)
{
    return a > b ? a : b;
}

static inline int64_t ls__min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t ls__max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t ls__min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline size_t ls__min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t ls__max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

#endif
