/* context.h: the struct of a context. Objects opened through a context begin with an ls__owned. The
 * context closes those that are still open, the last one first. An object that others use remains
 * until the last of them is closed. */
#ifndef LS_BASE_CONTEXT_H
#define LS_BASE_CONTEXT_H

#include <lockstep/context.h>
#include <stdatomic.h>

enum { LS__MESSAGE_SIZE = 1024, LS__KEPT_WARNINGS = 64 };

typedef struct ls__owned ls__owned;
struct ls__owned {
    ls_context *ctx;
    void (*close)(ls__owned *self); /* frees the whole object; it is already unlinked */
    ls__owned *previous, *next;
    int n_users;    /* objects that need it, and calls in progress */
    bool is_closed; /* by the program: freed when n_users becomes 0 */
};

struct ls_context {
    ls_allocator allocator;
    ls_context_config config;
    ls_status error; /* the first one since it was cleared, or LS_OK */
    bool unusable;   /* opening failed, or the device is lost: the error can't be cleared */
    bool is_remote;  /* a GPU's memory or other ranks belong to it, which a fork must not touch */
    int64_t process; /* process that opened it; 0 = any */
    char message[LS__MESSAGE_SIZE];              /* of the last error, also after it was cleared */
    char hint[LS__MESSAGE_SIZE];                 /* for that error, or "" */
    _Atomic(char *) warnings[LS__KEPT_WARNINGS]; /* NULL = memory was short */
    _Atomic int64_t n_warnings;                  /* includes those that were dropped */
    ls__owned *last_owned;
    struct ls__comm *comm;             /* comm/comm.h, of host memory; NULL = one process */
    struct ls__comm *device_comm;      /* of device memory: the same one, or the device's */
    struct ls__device *device;         /* backend/backend.h */
    struct ls__pool *pool;             /* device memory, backend/pool.h */
    struct ls__pool *host_pool;        /* pinned host memory */
    struct ls__selections *selections; /* of kernels, backend/algorithm_cache.h */
};

void ls__own(ls_context *ctx, ls__owned *object, void (*close)(ls__owned *self));
/* A new object of `bytes` bytes, which begins with an ls__owned, the rest zero. NULL with the error
 * if memory is short; `what` is for its text. */
void *ls__open_owned(ls_context *ctx, const char *what, size_t bytes,
                     void (*close)(ls__owned *self));
/* Closes an object, whose member `owned` is its ls__owned, and sets the pointer to NULL. The
 * handle, the address of that pointer, and the pointer may be NULL already. */
#define LS__CLOSE_OWNED(handle)                                                                    \
    do {                                                                                           \
        if ((handle) && *(handle)) ls__disown_and_close(&(*(handle))->owned);                      \
        if (handle) *(handle) = NULL;                                                              \
    } while (0)
/* Unlinks and closes, now or when the last user releases it. */
void ls__disown_and_close(ls__owned *object);
/* Unlinks and closes the last object of a closing context, even if something uses it. */
void ls__close_last_owned(ls_context *ctx);

/* Keeps an object, which begins with an ls__owned, until it is released as often, also if the
 * program closes it. Both accept NULL. */
void ls__use(void *object);
void ls__release(void *object);

/* True in a child of the process that opened ctx, made by fork. It has none of the context's
 * threads, so closing an object there frees memory and does nothing else. */
bool ls__is_forked(const ls_context *ctx);

#endif
