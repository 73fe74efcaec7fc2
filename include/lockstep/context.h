/* context.h: a context holds the seed, the kernel policy, the memory and the first error of one
 * device.
 *
 * One thread at a time may use a context and everything opened through it. The allocator and the
 * log callback are also called from the library's own threads.
 *
 * Calls set the default floating-point environment (round to nearest, no flushing of denormals) and
 * restore the caller's environment before they return. Callbacks run in the default environment. So
 * neither fesetround nor a program linked with -ffast-math changes a bit of a result. */
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
 * accepts NULL. The alignment is 64 bytes, or 2 MiB for large blocks on a CPU. If allocate returns
 * NULL for 2 MiB, it is called again with 64 bytes. */
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
    LS_BENCHMARK_ON   /* kernels, and fusions of batch norms with convolutions, are selected by
                         timing while a net is built, among those that `deterministic` allows. The
                         selections hold for the net's life, and for nets that are built later.
                         Another process measures again and may select others, with other bits,
                         unless it loads an algorithm cache (algorithm_cache.h). Shapes that first
                         appear after the build use the heuristic */
} ls_benchmark;

/* LS_LOG_INFO: the kernel of each op when a net first uses it, and the reason for its selection. */
typedef enum ls_log_level { LS_LOG_WARNING, LS_LOG_INFO } ls_log_level;
typedef void (*ls_log_fn)(void *user, ls_log_level level, const char *message);

typedef struct ls_context_config {
    const char *device; /* "cpu" (default); "cuda", or "cuda:1" for the second GPU; "auto": "cuda"
                           if it can be opened, else "cpu". The log then has the reason, as a
                           warning if a CUDA module is installed */
    uint64_t seed;
    ls_deterministic deterministic;
    ls_benchmark benchmark;
    int threads;               /* threads that compute; 0 = as many as processors are available */
    size_t memory_limit_bytes; /* of device memory; 0 = no limit but the machine's */
    bool nvtx; /* CUDA: steps run op by op instead of as one CUDA graph, each op in an NVTX range
                  with its name, for NVIDIA's profilers. The same bits, slower. LS_ERR_UNSUPPORTED
                  on the CPU */
    const ls_allocator *allocator; /* NULL = the C library's; copied */
    ls_log_fn log;                 /* NULL = none; warnings are kept either way, see below */
    void *log_user;
} ls_context_config;

/* Opens a context. config NULL = all defaults. Returns NULL only when there is no memory for the
 * context itself; any other failure (unknown device, ...) is kept in the context, and
 * ls_context_status returns it. Such an error can't be cleared; the context can only be closed. */
LS_API ls_context *ls_context_open(const ls_context_config *config);

/* Frees the context and all that was opened through it and is still open. Accepts NULL; sets the
 * pointer to NULL. */
LS_API void ls_context_close(ls_context **ctx);

/* The error that the context keeps: the first one since it was opened or cleared; LS_OK when there
 * is none, LS_ERR_MEMORY for NULL. While an error is kept, every action (a call that returns
 * ls_status) returns LS_ERR_EARLIER and does nothing, and every call that creates an object returns
 * NULL. */
LS_API ls_status ls_context_status(const ls_context *ctx);

/* The text of that error: which call, which layer, which shapes, which file. "" when there is none.
 * Valid until the next call with this context that is not const. */
LS_API const char *ls_context_message(const ls_context *ctx);

/* Clears the error, so that the context can be used again. An error of ls_context_open and the loss
 * of the device can't be cleared. Accepts NULL. */
LS_API void ls_context_clear_error(ls_context *ctx);

/* Warnings report probable mistakes that are not errors, such as an image folder opened one level
 * too high. A program should read them after it has opened everything, with or without a log
 * callback. The first 64 since the context was opened are kept, oldest first. */
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

/* Returns cached device memory, and cached host memory for copies to the device, to the system. */
LS_API ls_status ls_context_trim(ls_context *ctx);

/* "cpu, 2 threads, AVX2, oneDNN 2.6.3": static text about the open device, or "" for NULL. Valid as
 * long as ctx. */
LS_API const char *ls_context_device(const ls_context *ctx);
LS_API int ls_context_thread_count(const ls_context *ctx);
LS_API uint64_t ls_context_seed(const ls_context *ctx);

LS_API const char *ls_version(void); /* "0.1.0" */

/* In config structs, zero means the default, which the field's comment gives. If the comment gives
 * none, the default is zero. If the default is not zero and the field may be zero, LS_ZERO sets a
 * float or double field to zero, and LS_NONE sets an integer field to zero. */
#define LS_ZERO (-0.0f)
#define LS_NONE (-1)

LS_END_DECLARATIONS

#endif
