/* context.h: one context per device holds the seed, the policy on kernels, the memory, and the
 * first error.
 *
 * A context and everything opened through it belong to one thread at a time; only the allocator and
 * the log callback are called from the library's own threads as well.
 *
 * Calls compute in the default floating-point environment, round to nearest without flushing of
 * denormals, and restore the caller's before they return; callbacks run in the default one. So
 * neither fesetround nor a program linked with -ffast-math changes a bit. */
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include <lockstep/export.h>
#include <lockstep/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_context ls_context;

/* Where host memory comes from. Both functions must be safe to call from any thread.
 * allocate returns `bytes` of memory aligned to `alignment` (a power of two), or NULL; release
 * accepts NULL. Alignments are 64, or 2 MiB for large blocks of a CPU; where that gives NULL, the
 * block is asked for again with 64. */
typedef struct ls_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory);
    void *user;
} ls_allocator;

typedef enum ls_deterministic {
    LS_DETERMINISTIC_STRICT, /* only deterministic kernels; an op without one is an error at build
                              */
    LS_DETERMINISTIC_WARN,   /* deterministic kernels first, a warning where an op has none */
    LS_DETERMINISTIC_OFF     /* any kernel */
} ls_deterministic;

typedef enum ls_benchmark {
    LS_BENCHMARK_OFF, /* kernels by the library's heuristic */
    LS_BENCHMARK_ON   /* kernels, and fusions of batch norms with convolutions, by time measured
                         while a net is built, among those that `deterministic` leaves; they stay for
                         the net's life, and for nets that are built later. Another process measures
                         anew and may choose others, with other bits, unless it is given the choices:
                         algorithm_cache.h. Shapes that come up after the build go by the heuristic */
} ls_benchmark;

/* Info: the kernel of each op when a net first uses it, and why it was taken. */
typedef enum ls_log_level { LS_LOG_WARNING, LS_LOG_INFO } ls_log_level;
typedef void (*ls_log_fn)(void *user, ls_log_level level, const char *message);

typedef struct ls_context_config {
    const char *device; /* "cpu" (default); "cuda", or "cuda:1" for the second one; "auto": cuda
                           where that can be had, else the cpu, with the reason in the log: as
                           a warning where a CUDA module is installed */
    uint64_t seed;
    ls_deterministic deterministic;
    ls_benchmark benchmark;
    int threads;               /* threads that compute; 0 = as many as processors are available */
    size_t memory_limit_bytes; /* of device memory; 0 = no limit but the machine's */
    bool nvtx; /* CUDA: each op is queued by itself, in an NVTX range with its name, for NVIDIA's
                  profilers, instead of a step as one CUDA graph. The same bits, slower. The CPU
                  refuses it: LS_ERR_UNSUPPORTED */
    const ls_allocator *allocator; /* NULL = the C library's; copied */
    ls_log_fn log;                 /* NULL = none; warnings are kept either way, see below */
    void *log_user;
} ls_context_config;

/* Opens a context. config NULL = all defaults. Returns NULL only when there is no memory for the
 * context itself; any other failure (unknown device, ...) is kept in the context: ask
 * ls_context_status. Such an error stays for good: the context can only be closed. */
LS_API ls_context *ls_context_open(const ls_context_config *config);

/* Frees the context and all that was opened through it and is still open. Accepts NULL; sets the
 * pointer to NULL. */
LS_API void ls_context_close(ls_context **ctx);

/* The error that the context keeps: the first one since it was opened or cleared; LS_OK when there
 * is none, LS_ERR_MEMORY for NULL. While an error is kept, every verb returns LS_ERR_EARLIER and
 * does nothing, and every call that makes something returns NULL. */
LS_API ls_status ls_context_status(const ls_context *ctx);

/* The text of that error: which call, which layer, which shapes, which file. "" when there is none.
 * Valid until the next call with this context that is not const. */
LS_API const char *ls_context_message(const ls_context *ctx);

/* Drops the error, after which the context works on. An error of ls_context_open, or that the
 * device is lost, stays. Accepts NULL. */
LS_API void ls_context_clear_error(ls_context *ctx);

/* Warnings: what is probably a mistake and no error, such as an image folder opened one level too
 * high. A program reads them once all is opened, whether or not it has a log callback. The first 64
 * since the context was opened are kept, oldest first. */
LS_API int64_t ls_context_warning_count(const ls_context *ctx); /* of those kept; 0 for NULL */
/* Warnings after the first 64. */
LS_API int64_t ls_context_dropped_warning_count(const ls_context *ctx);
/* The i-th warning, valid as long as ctx; NULL out of range. */
LS_API const char *ls_context_warning(const ls_context *ctx, int64_t i);

/* Device memory taken through this context, in bytes. */
typedef struct ls_memory_stats {
    size_t current_bytes; /* handed out now */
    size_t peak_bytes;    /* most ever handed out */
    size_t cached_bytes;  /* held by the pool for reuse, not handed out */
    size_t limit_bytes;   /* 0 = none */
    int64_t n_blocks;     /* handed out now */
    int64_t n_reused;     /* requests that a cached block answered */
    int64_t n_allocated;  /* requests that went to the system */
} ls_memory_stats;
LS_API ls_memory_stats ls_context_memory(const ls_context *ctx);

/* Gives cached device memory, and cached host memory for copies to it, back to the system. */
LS_API ls_status ls_context_trim(ls_context *ctx);

/* "cpu, 2 threads, AVX2, oneDNN 2.6.3": static text about the open device, or "" for NULL. Valid as
 * long as ctx. */
LS_API const char *ls_context_device(const ls_context *ctx);
LS_API int ls_context_thread_count(const ls_context *ctx);
LS_API uint64_t ls_context_seed(const ls_context *ctx);

LS_API const char *ls_version(void); /* "0.1.0" */

/* In config structs zero means the default, which the field's comment gives; without one the
 * default is zero itself. Where the default is another value, zero itself is LS_ZERO in a float or
 * double field and LS_NONE in an integer field, if the field can be zero. */
#define LS_ZERO (-0.0f)
#define LS_NONE (-1)

LS_END_DECLARATIONS

#endif
