/* backend.h: the contract between the core and a backend (src/cpu, src/cuda). A backend lists its
 * kernels for an op, opens one by name and runs it. Calls only queue work unless stated otherwise;
 * on the CPU the work has finished when the call returns. The ops are in ops.h.
 *
 * A backend includes this header, arith/ and base/ only; a module also module_host.h and comm.h. */
#ifndef LS_BACKEND_BACKEND_H
#define LS_BACKEND_BACKEND_H

#include "backend/ops.h"
#include "base/hash.h"
#include "base/strict_math.h"
#include <lockstep/random.h>

struct ls__comm;

typedef struct ls__device ls__device;
typedef struct ls__kernel ls__kernel;

/* The only inputs of kernels that change from step to step, beside the contents of buffers. Kernels
 * that can be captured read them when they run, not when they are queued. */
typedef struct ls__step {
    uint64_t seed;
    int64_t epoch, step;
    double lr;
    int64_t optimizer_step; /* updates before this one, including skipped ones */
    int64_t accumulated;    /* batches since the last update, without this one */
    int64_t first_sample;   /* the index in the batch of the first sample of the operands */
    int64_t n_samples;      /* of the batch, in all shards */
    int64_t shard;          /* of the operands, among those that have samples */
    int64_t n_shards;       /* parts of the batch that have samples */
    int64_t n_sums, n_merged, is_last_shard; /* for SHARD_SUM */
} ls__step;

/* A kernel that could run an op. */
enum { LS__KERNEL_NAME_SIZE = 128, LS__MAX_CANDIDATES = 72 };
typedef struct ls__candidate {
    char name[LS__KERNEL_NAME_SIZE]; /* "onednn jit:avx512_core_amx_bf16", "winograd 4x4": unique
                                        among an op's candidates */
    bool deterministic;
    double cost_ms; /* estimate, comparable between candidates and ops. On the CPU for one thread,
                       because the selection must not depend on their number. */
} ls__candidate;

/* A kernel that was opened for one op; the first member of a backend's own struct. */
struct ls__kernel {
    char name[LS__KERNEL_NAME_SIZE];
    bool nondeterministic;
    bool unproven;          /* a library's, which may be opened and still fail when it runs */
    float error_bound;      /* largest error relative to the largest result, if the kernel rounds
                               more than a sum in f32 does; else 0 */
    size_t workspace_bytes; /* memory that run requires; its contents are not kept */
    /* buffers: one pointer per operand, NULL for absent ones, aligned to 16 bytes at least; they
     * overlap only as `in_place` allows. workspace: aligned to the backend's `alignment`. */
    ls_status (*run)(ls__kernel *kernel, void *const *buffers, void *workspace,
                     const ls__step *step);
    void (*close)(ls__kernel *kernel);
};

typedef struct ls__event ls__event;
/* A captured graph: work that one call queues again. */
typedef struct ls__captured ls__captured;

/* Work in one stream runs in order; two streams are ordered by stream_wait alone. COMPUTE is used
 * unless COPY is stated, or launch_in has selected SIDE. */
typedef enum ls__stream {
    LS__STREAM_COMPUTE,
    LS__STREAM_COPY,
    LS__STREAM_SIDE,
    LS__N_STREAMS
} ls__stream;

enum { LS__HAS_TF32 = 1, LS__HAS_BF16 = 2, LS__HAS_F16 = 4 };

typedef struct ls__backend {
    const char *name; /* "cpu" */

    /* Opens device number `index` for ctx (threads, policy from ctx->config). */
    ls_status (*open)(ls_context *ctx, int index, ls__device **out);
    void (*close)(ls__device *device);

    /* These texts are valid until the device is closed: "cpu, 2 threads, AVX2, own kernels 5". */
    const char *(*describe)(const ls__device *device);
    int (*threads)(const ls__device *device);
    /* Results of nets whose activations have that type may depend on these two and the kernels'
     * names: the numeric libraries with their versions, "own kernels 5"; the processor, "oneDNN
     * AVX-512 AMX, caches 48 KiB", "" if they do not depend on it. */
    const char *(*libraries)(const ls__device *device, ls_dtype activations);
    const char *(*processor)(const ls__device *device, ls_dtype activations);
    /* "NVIDIA driver 580.65.06", on which no result depends; NULL if there is none. */
    const char *(*driver)(const ls__device *device);

    /* Segments of the pool are at least segment_bytes long, and multiples of it if possible; 0: any
     * size. */
    size_t segment_bytes;
    /* Alignment of activations and workspaces in planned memory, in bytes: a power of two, at most
     * the pool's. */
    size_t alignment;
    /* Memory for the pool, aligned to 64 bytes; NULL if there is none. release waits for work that
     * uses it. */
    void *(*allocate)(ls__device *device, size_t bytes);
    void (*release)(ls__device *device, void *memory, size_t bytes);
    /* Host memory for asynchronous copies: pinned for a GPU, and pooled because that is slow to
     * allocate. NULL if there is none. */
    void *(*host_allocate)(ls__device *device, size_t bytes);
    void (*host_release)(ls__device *device, void *memory, size_t bytes);
    /* An estimate of the bytes that can still be allocated; 0 if unknown. */
    size_t (*free_bytes)(ls__device *device);
    /* The host may read device memory directly. */
    bool host_memory;
    /* Bits: LS__HAS_TF32: ops may have tf32 set; LS__HAS_BF16, LS__HAS_F16: types of operands. */
    unsigned precisions;
    /* Optional: true if f32 arithmetic emulates products of bf16 or f16, so that they are not
     * faster. */
    bool (*emulates)(const ls__device *device, ls_dtype dtype);
    /* Optional, for the warning about that: how bf16 is faster on this machine, as "; TEXT", or
     * "". */
    const char *(*faster_bf16)(const ls__device *device);
    /* Optional: 16-bit convolutions are faster if x's channels are a multiple of this, so that each
     * pixel is aligned; NORMALIZE then adds channels of 0 to images. 0: any number is as fast. */
    int64_t (*channel_multiple)(const ls__device *device);

    /* Copies between host and device memory, in the order of COMPUTE; finished on return. */
    ls_status (*read)(ls__device *device, void *host, const void *memory, size_t bytes);
    ls_status (*write)(ls__device *device, void *memory, const void *host, size_t bytes);
    /* Copies device memory to memory from host_allocate; queued. */
    ls_status (*download)(ls__device *device, void *host, const void *memory, size_t bytes);
    /* Copies memory from host_allocate to device memory in COPY: after the event `after` (NULL: at
     * once) and before all work that is queued later. Then records `done`. */
    ls_status (*upload)(ls__device *device, void *memory, const void *host, size_t bytes,
                        ls__event *after, ls__event *done);
    /* Device to device, and fill with zeros; queued. */
    ls_status (*copy)(ls__device *device, void *dst, const void *src, size_t bytes);
    ls_status (*clear)(ls__device *device, void *memory, size_t bytes);
    /* Converts `count` elements as ls_tensor_cast does; queued. */
    ls_status (*cast)(ls__device *device, ls_dtype to, void *dst, ls_dtype from, const void *src,
                      int64_t count);
    /* Adds the digest of elements of this dtype that are at byte `offset` (a multiple of 8) of the
     * whole to *sum, in device memory, as ls__digest_elements does; queued. */
    ls_status (*digest)(ls__device *device, ls_dtype dtype, const void *memory, size_t bytes,
                        uint64_t offset, ls__digest_sum *sum);
    /* out[i] = *scalars[i], n of them, all f32 in device memory; queued. */
    ls_status (*gather)(ls__device *device, float *out, const float *const *scalars, int n);

    /* The kernels that can run op, in the order of preference. Returns their number: at least 1
     * unless the op is optional, a COPY, or its shape exceeds the backend's limits, which is an
     * error in ctx. */
    int (*candidates)(ls__device *device, const ls__op *op, ls__candidate *out, int max);
    /* `candidates` takes milliseconds, so a kernel that has been selected is opened without it. */
    bool lists_slowly;
    /* Opens the kernel of that name. LS_ERR_NOT_FOUND: there is no such kernel. LS_ERR_UNSUPPORTED:
     * it can't run op, or is unavailable. After both, another kernel may be opened. */
    ls_status (*kernel_open)(ls__device *device, const ls__op *op, const char *name,
                             ls__kernel **out);
    /* Bytes of per-thread scratch memory that all open kernels share, outside of planned memory. */
    size_t (*scratch_bytes)(const ls__device *device);

    /* The executor calls begin before each range of calls and end after it. Nothing may be
     * allocated between them. */
    void (*begin)(ls__device *device);
    void (*end)(ls__device *device);

    ls_status (*event_open)(ls__device *device, ls__event **out);
    ls_status (*event_record)(ls__device *device, ls__event *event);
    ls_status (*event_wait)(ls__device *device, ls__event *event);
    void (*event_close)(ls__device *device, ls__event *event);
    /* All later work of `waiting` runs after the present work of `awaited`. During a capture these
     * are COMPUTE and SIDE: SIDE is captured once it waits for COMPUTE, and COMPUTE must wait for
     * SIDE before the capture ends. */
    ls_status (*stream_wait)(ls__device *device, ls__stream waiting, ls__stream awaited);
    /* Optional: later kernels are queued in COMPUTE or SIDE. NULL if the device has no SIDE that
     * runs concurrently with COMPUTE. */
    void (*launch_in)(ls__device *device, ls__stream stream);
    /* Waits for the work of all streams. */
    ls_status (*wait)(ls__device *device);
    /* Optional, both or neither: the device's clock. timer_stop waits for the work that was queued
     * in COMPUTE since timer_start and returns its milliseconds on the device. */
    ls_status (*timer_start)(ls__device *device);
    ls_status (*timer_stop)(ls__device *device, double *ms);

    /* Optional, all four or none. Between capture_begin and capture_end, work is captured with its
     * buffers and not run. Nothing may be waited for, allocated or released meanwhile, no host
     * memory copied, and kernels run with this step alone. A kernel must have run once before,
     * because libraries initialise then. capture_end must follow even after a failure; then, and if
     * it fails itself, *out is NULL. captured_launch queues the work for another step; all kernels
     * in it must still be open. */
    ls_status (*capture_begin)(ls__device *device, const ls__step *step);
    ls_status (*capture_end)(ls__device *device, ls__captured **out);
    ls_status (*captured_launch)(ls__device *device, ls__captured *captured, const ls__step *step);
    void (*captured_close)(ls__device *device, ls__captured *captured);

    /* Optional, both or neither: a profiler shows the work queued between them under this name.
     * Ranges nest. */
    void (*range_push)(ls__device *device, const char *name);
    void (*range_pop)(ls__device *device);

    /* Optional: connects the device with those of the other ranks of ctx->comm: a communicator of
     * device memory, see comm/comm.h. All ranks call it, after they have opened their devices. It
     * is closed before the device. NULL: ctx->comm moves device memory, which is host memory. */
    ls_status (*comm_open)(ls__device *device, struct ls__comm **out);

    /* COMPUTE itself, for users' ops: a cudaStream_t; NULL on the CPU. */
    void *(*stream)(ls__device *device);
} ls__backend;

/* Backends' devices begin with this. */
struct ls__device {
    const ls__backend *backend;
    ls_context *ctx;
};

#endif
