/* context.h: a context holds a device, the seed, the rules of kernel selection (deterministic,
 * benchmark), the memory pool and the first error.
 *
 * One thread at a time may use a context and everything opened through it. The allocator and the
 * log callback are also called from the library's own threads.
 *
 * Calls set the default floating-point environment (round to nearest, no flushing of denormals) and
 * restore the caller's environment before they return. Callbacks run in the default environment. So
 * neither fesetround nor a program linked with -ffast-math changes a result.
 *
 * Objects may be closed in any order. One that others use remains until the last of these is
 * closed: a dataset for its loaders and splits, a net for its optimizers, all of them for a trainer
 * and during a call that reports events or progress. The callbacks of allocators, logs and custom
 * ops must not close objects or call functions of their context. Only ls_context_close frees
 * everything at once, which leaves all pointers to objects of the context invalid.
 *
 * A child made by fork has none of the library's threads. There calls fail with
 * LS_ERR_UNSUPPORTED, and those that close free memory and do nothing else; of a GPU and of several
 * ranks they free nothing. A child may open a context of its own. It shares the lock of a run's
 * folder until it closes the trainer, or ends where closing frees nothing.
 *
 * Writing beyond the limit of file size is an error (EFBIG), and so is writing into a pipe that
 * nobody reads (EPIPE): SIGXFSZ and SIGPIPE are not delivered for the library's writes. */
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include <lockstep/export.h>
#include <lockstep/status.h>
#include <lockstep/version.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_context ls_context;

/* The allocator of host memory. Both functions must be safe to call from any thread.
 * allocate returns `bytes` of memory aligned to `alignment` (a power of two), or NULL; release
 * accepts NULL. The alignment is 64 bytes, or 2 MiB for large blocks on a CPU. If allocate returns
 * NULL for 2 MiB, it is called again with 64 bytes. */
typedef struct ls_allocator {
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory);
    void *user;
    LS_RESERVED(4);
} ls_allocator;

typedef enum ls_deterministic {
    LS_DETERMINISTIC_STRICT, /* only deterministic kernels; an op without one is a build error */
    LS_DETERMINISTIC_WARN,   /* deterministic kernels first, a warning where an op has none */
    LS_DETERMINISTIC_OFF     /* any kernel */
} ls_deterministic;

/* The arithmetic of kernels on the CPU. A GPU's kernels are those of its libraries with either. */
typedef enum ls_arithmetic {
    LS_ARITHMETIC_PORTABLE, /* Lockstep's own kernels: the same bits on every processor, whatever
                               its instruction set, its caches and the versions of libraries */
    LS_ARITHMETIC_NATIVE    /* where the processor multiplies bf16 (AVX512_BF16, AMX) also oneDNN's
                               kernels in bf16, which are faster; results hold for that kind of
                               processor and version of oneDNN. LS_ERR_UNSUPPORTED in a build
                               without oneDNN */
} ls_arithmetic;

typedef enum ls_benchmark {
    LS_BENCHMARK_OFF, /* kernels by the library's heuristic */
    LS_BENCHMARK_ON /* kernels, and fusions of batch norms with convolutions, are selected by timing
                       while a net is built, among those that `deterministic` allows. A CPU must
                       have native arithmetic (else LS_ERR_INVALID, or off where device is "auto").
                       The selections stay in the context: they do not change while a net exists,
                       and nets that are built later use them. Another process measures again and
                       may select other kernels, with bitwise different results, unless it loads an
                       algorithm cache (algorithm_cache.h). Shapes that first appear after the build
                       use the heuristic */
} ls_benchmark;

/* LS_LOG_INFO: the kernel of each op when a net first uses it, and the reason for its selection.
 * LS_LOG_NOTE: what a user should know, and is as it should be. */
typedef enum ls_log_level { LS_LOG_WARNING, LS_LOG_INFO, LS_LOG_NOTE } ls_log_level;
/* What a message is about. */
typedef enum ls_log_category {
    LS_LOG_CONTEXT, /* devices, ranks, libraries */
    LS_LOG_DATA,    /* datasets, packs, images */
    LS_LOG_NET,     /* layers, kernels, precision */
    LS_LOG_RUN      /* run folders, checkpoints, settings that are hardly intended */
} ls_log_category;
typedef void (*ls_log_fn)(void *user, ls_log_level level, ls_log_category category,
                          const char *message);

typedef struct ls_context_config {
    const char *device; /* "cpu" (default); "cuda", or "cuda:1" for the second GPU; "auto": "cuda"
                           if it can be opened, otherwise "cpu". With several ranks "cuda" is
                           another GPU for each rank of a machine, and "cuda:1" is an error. If
                           "auto" selects "cpu", the log gives the reason, as a warning if a CUDA
                           module is installed */
    uint64_t seed;
    ls_deterministic deterministic;
    ls_arithmetic arithmetic; /* of a CPU */
    ls_benchmark benchmark;
    int shards; /* parts of each training batch, up to 65536; 0 = 1. Results depend on it, unlike on
                   threads; see ls_net_step */
    bool sync_batch_norm; /* batch norms use the statistics of all shards of the batch, not of their
                             shard; see ls_net_step */
    int threads; /* compute threads; 0 = number of available processors, which the ranks of a
                    machine divide among themselves */
    const char *communicator; /* NULL = one process; "mpi": the processes that mpirun or srun
                                 started are ranks, which compute the shards of each batch together;
                                 "auto": "mpi" if a launcher started this process as one of several,
                                 otherwise one process. See below */
    double communication_timeout_seconds; /* limit of a wait for other ranks, which then fails with
                                             LS_ERR_TIMEOUT; 0 = 600 */
    bool partition_optimizer; /* each rank holds the optimizer's states of its part of the
                                 parameters alone, and sends the updated part to the others (ZeRO
                                 stage 1). Less memory, more bytes between ranks, the same results
                                 and checkpoints. With one rank: no effect */
    int64_t audit_every; /* with several ranks: in steps 0, N, 2 N, ... of each epoch each rank also
                            computes one shard of another rank. Different bits are LS_ERR_MISMATCH
                            in all ranks, whose message names the two. Detects faulty processors and
                            memory. Such a step takes the time of one more shard. 0 = never.
                            LS_ERR_UNSUPPORTED with sync_batch_norm. One rank: no effect */
    size_t memory_limit_bytes; /* limit of device memory; 0 = none */
    bool nvtx; /* CUDA: steps run op by op instead of as one CUDA graph, each op in an NVTX range
                  with its name, for NVIDIA's profilers. Bit-identical, but slower.
                  LS_ERR_UNSUPPORTED on the CPU */
    const ls_allocator *allocator; /* NULL = the C library's; copied */
    ls_log_fn log;                 /* NULL = none; warnings are kept either way, see below */
    void *log_user;
    LS_RESERVED(16);
} ls_context_config;

/* Ranks: results do not depend on their number. `shards` is at least that and at most 64. All ranks
 * open their contexts in the same order and with the same configuration; only `threads`, the log
 * and the allocator may differ. The launcher ends all ranks if one ends with an open context or an
 * exit status other than 0. MPI is initialized when the first context with ranks is opened, and
 * finalized when the process exits, unless the program itself has initialized it (with
 * MPI_THREAD_FUNNELED or more). */

/* Opens a context. config NULL = all defaults. Returns NULL only when there is no memory for the
 * context itself; any other failure (unknown device, ...) is kept in the context, and
 * ls_context_status returns it. Such an error can't be cleared; the context can only be closed.
 *
 * The environment variable LOCKSTEP_MAX_ISA (plain, avx2 or avx512) limits the vector instructions
 * of kernels on the CPU; another value is LS_ERR_INVALID. See docs/reproducibility.md. */
LS_API ls_context *ls_context_open(const ls_context_config *config);
/* As ls_context_open. `version` is the LS_VERSION_NUMBER of the headers that the program was
 * compiled with, which the macro passes. LS_ERR_UNSUPPORTED for headers that are newer than the
 * library, because it would ignore the fields that it does not know, and for those of another minor
 * version. Where another function of the name ls_context_open is meant, or its address,
 * (ls_context_open) is not expanded. */
LS_API ls_context *ls_context_open_for(int version, const ls_context_config *config);
#define ls_context_open(...) ls_context_open_for(LS_VERSION_NUMBER, __VA_ARGS__)

/* Frees the context and all that was opened through it and is still open. Accepts NULL; sets the
 * pointer to NULL. */
LS_API void ls_context_close(ls_context **ctx);

/* Returns the first error since the context was opened or its error was cleared; LS_OK when there
 * is none, LS_ERR_MEMORY for NULL. While an error is kept, every other call that returns ls_status,
 * except ls_loader_status, returns LS_ERR_EARLIER and does nothing, and every call that creates an
 * object returns NULL. */
LS_API ls_status ls_context_status(const ls_context *ctx);

/* The text of that error: which call, which layer, which shapes, which file. "" when there is none.
 * Valid until the next call that takes the context, or an object opened through it, by a non-const
 * pointer. */
LS_API const char *ls_context_message(const ls_context *ctx);

/* Advice about that error, in a sentence; "" where the message says all. Valid as long as
 * the message. Hints and messages about the settings of a run (run.h) write a setting as the option
 * of the command: --batch-size. */
LS_API const char *ls_context_hint(const ls_context *ctx);

/* Clears the error, so that the context can be used again. An error of ls_context_open and the loss
 * of the device can't be cleared. Accepts NULL. */
LS_API void ls_context_clear_error(ls_context *ctx);

/* Warnings report probable mistakes that are not errors, such as opening the parent of an image
 * folder. A program should read them after it has opened everything, with or without a log
 * callback. The first 64 since the context was opened are kept, oldest first. */
LS_API int64_t ls_context_warning_count(const ls_context *ctx); /* at most 64; 0 for NULL */
/* The number of further warnings, whose texts were not kept. */
LS_API int64_t ls_context_dropped_warning_count(const ls_context *ctx);
/* The i-th warning, valid as long as ctx; NULL out of range. */
LS_API const char *ls_context_warning(const ls_context *ctx, int64_t i);

/* Device memory allocated through this context, in bytes. */
typedef struct ls_memory_stats {
    size_t current_bytes; /* in use now */
    size_t peak_bytes;    /* maximum of current_bytes */
    size_t cached_bytes;  /* held by the pool for reuse, not in use */
    size_t limit_bytes;   /* 0 = none */
    int64_t n_blocks;     /* blocks in use now */
    int64_t n_reused;     /* allocations served from the pool */
    int64_t n_allocated;  /* allocations made from the system */
    LS_RESERVED(8);
} ls_memory_stats;
LS_API ls_memory_stats ls_context_memory(const ls_context *ctx);

/* Gives back to the system the cached device memory, and the cached host memory used for copies to
 * the device. */
LS_API ls_status ls_context_trim(ls_context *ctx);

/* "cpu, 2 threads, AVX2, own kernels 5": the open device; "" for NULL. Valid until ctx is
 * closed. */
LS_API const char *ls_context_device(const ls_context *ctx);
LS_API int ls_context_thread_count(const ls_context *ctx);
LS_API uint64_t ls_context_seed(const ls_context *ctx);

/* The number of this process among the ranks, from 0 on, and the number of ranks; 0 and 1 without a
 * communicator. Ranks of one machine have consecutive numbers, which may differ from MPI's. */
LS_API int ls_context_rank(const ls_context *ctx);
LS_API int ls_context_rank_count(const ls_context *ctx);
enum { LS_MAX_RANKS = 64 }; /* that train together */
/* On how many machines the ranks run. */
LS_API int ls_context_machine_count(const ls_context *ctx);
/* Writes the numbers `own` of all ranks to `all`, by rank. All ranks call it, and each waits for
 * the others. */
LS_API ls_status ls_context_gather(ls_context *ctx, int own, int all[LS_MAX_RANKS]);
/* Ends the processes of all ranks with this exit status, this one too, if there are several; for a
 * rank that can't go on. ctx may be NULL. */
LS_API void ls_context_abort(ls_context *ctx, int exit_status);

/* What a launcher of MPI programs (mpirun, srun) told this process by environment variables. Those
 * of a Slurm allocation (SLURM_NTASKS) do not count, because each shell in it has them. */
typedef struct ls_launch {
    const char *variable; /* that counts the processes; NULL: no launcher started this one */
    long n_ranks;         /* 0 = unknown, perhaps more than one */
    long rank;            /* -1 = unknown; rank 0 is rank 0 of the communicator, too */
    LS_RESERVED(4);
} ls_launch;
/* That of the innermost launcher, as far as the environment shows it. */
LS_API ls_launch ls_launch_find(void);

/* In config structs, zero means the default, which the field's comment gives: "0 = 10" means that
 * zero selects the default, 10. If the comment gives none, the default is zero. If the default is
 * not zero and the field may be zero, LS_ZERO sets a float or double field to zero, and LS_ZERO_INT
 * sets an integer field to zero. */
#define LS_ZERO     (-0.0f)
#define LS_ZERO_INT (-1)

LS_END_DECLARATIONS

#endif
