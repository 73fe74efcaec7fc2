/* failing_allocator.h: an allocator whose n-th request fails, and which counts what is not
 * released.
 *
 *   for (int64_t n = 1;; n++) {
 *       failing_allocator a;
 *       failing_allocator_init(&a, n);
 *       ls_context *ctx = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
 *       ... the work; where a call failed, the error must be LS_ERR_MEMORY ...
 *       ls_context_close(&ctx);
 *       ck_assert_int_eq(failing_allocator_live(&a), 0);
 *       if (!failing_allocator_failed(&a)) break;    // fewer than n requests: every one has failed
 * once
 *   }
 *
 * A call may recover and succeed (the memory pool gives its cache back and asks again). Safe to
 * call from any thread. */
#ifndef LS_TESTS_FAILING_ALLOCATOR_H
#define LS_TESTS_FAILING_ALLOCATOR_H

#include <lockstep/context.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct failing_allocator {
    ls_allocator allocator; /* give this to the context; the struct must outlive it */
    int64_t fail_at;        /* which request fails, counted from 1; 0 = none */
    _Atomic int64_t n_requests;
    _Atomic int64_t n_live; /* given out and not released */
} failing_allocator;

static inline void *failing_allocator_allocate(void *user, size_t bytes, size_t alignment)
{
    failing_allocator *a = user;
    if (atomic_fetch_add(&a->n_requests, 1) + 1 == a->fail_at) return NULL;
    if (bytes > SIZE_MAX - alignment) return NULL;
    void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory) atomic_fetch_add(&a->n_live, 1);
    return memory;
}

static inline void failing_allocator_release(void *user, void *memory)
{
    failing_allocator *a = user;
    if (memory) atomic_fetch_sub(&a->n_live, 1);
    free(memory);
}

static inline void failing_allocator_init(failing_allocator *a, int64_t fail_at)
{
    a->allocator = (ls_allocator){ failing_allocator_allocate, failing_allocator_release, a };
    a->fail_at = fail_at;
    atomic_init(&a->n_requests, 0);
    atomic_init(&a->n_live, 0);
}

/* Was there an n-th request? */
static inline bool failing_allocator_failed(failing_allocator *a)
{
    return a->fail_at > 0 && atomic_load(&a->n_requests) >= a->fail_at;
}

static inline int64_t failing_allocator_live(failing_allocator *a)
{
    return atomic_load(&a->n_live);
}

#endif
