/* memory.c: device memory of the CPU, which is host memory: allocation, scratch, copies,
 * digests. */
#include "cpu/memory.h"
#include "base/alloc.h"
#include "base/available.h"
#include "base/context.h"
#include "base/error.h"
#include "cpu/ops/digest.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Huge pages under large blocks avoid most TLB misses of kernels that stream through them. A block
 * begins at a huge page, so that only its last bytes are on small pages. */
enum { HUGE_PAGE_BYTES = 2 << 20 };

void *ls__cpu_allocate(ls__device *device, size_t bytes)
{
    if (bytes < HUGE_PAGE_BYTES) return ls__alloc(device->ctx, bytes);
    const ls_allocator *allocator = &device->ctx->allocator;
    void *memory = allocator->allocate(allocator->user, bytes, HUGE_PAGE_BYTES);
    if (!memory) return ls__alloc(device->ctx, bytes); /* less aligned memory may be available */
    const size_t whole_pages = bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    (void)madvise(memory, whole_pages, MADV_HUGEPAGE); /* a hint only */
    return memory;
}

void ls__cpu_release(ls__device *device, void *memory, size_t bytes)
{
    (void)bytes;
    ls__free(device->ctx, memory);
}

size_t ls__cpu_free_bytes(ls__device *device)
{
    (void)device;
    return ls__available_memory();
}

ls_status ls__cpu_reserve_scratch(ls__cpu *cpu, size_t bytes)
{
    if (bytes <= cpu->scratch_bytes) return LS_OK;
    /* Contents are not kept. After a failure every thread has at least its former size. */
    for (int i = 0; i < cpu->n_threads; i++) {
        unsigned char *block = ls__alloc(cpu->device.ctx, bytes);
        if (!block)
            return ls__fail_memory(cpu->device.ctx, "cpu: scratch memory of a thread", bytes);
        ls__free(cpu->device.ctx, cpu->scratch[i]);
        cpu->scratch[i] = block;
    }
    cpu->scratch_bytes = bytes;
    return LS_OK;
}

/* Copies, fills and digests have one task per chunk of this size. */
enum { CHUNK_BYTES = 1 << 20 };

typedef struct chunk_job {
    unsigned char *dst;
    const unsigned char *src; /* of a copy: NULL for zeros */
    size_t bytes;
    ls__isa isa;
    uint64_t offset; /* of src in the digested data */
    ls__nan_words nans;
    _Atomic uint64_t words[2];
} chunk_job;

static int64_t count_chunks(size_t bytes)
{
    return (int64_t)((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
}

static size_t chunk_size(const chunk_job *job, int64_t task)
{
    const size_t begin = (size_t)task * CHUNK_BYTES;
    return job->bytes - begin < CHUNK_BYTES ? job->bytes - begin : CHUNK_BYTES;
}

static void copy_chunk(void *arg, int64_t task, int thread)
{
    (void)thread;
    chunk_job *job = arg;
    const size_t begin = (size_t)task * CHUNK_BYTES, size = chunk_size(job, task);
    if (job->src)
        memcpy(job->dst + begin, job->src + begin, size);
    else
        memset(job->dst + begin, 0, size);
}

/* The sum is modulo 2^64, so the order in which chunks are added does not matter. */
static void digest_chunk(void *arg, int64_t task, int thread)
{
    (void)thread;
    chunk_job *job = arg;
    const size_t begin = (size_t)task * CHUNK_BYTES;
    ls__digest_sum sum = { { 0, 0 } };
    ls__ops_digest(job->isa, &sum, job->src + begin, chunk_size(job, task), job->offset + begin,
                   job->nans);
    atomic_fetch_add_explicit(&job->words[0], sum.words[0], memory_order_relaxed);
    atomic_fetch_add_explicit(&job->words[1], sum.words[1], memory_order_relaxed);
}

ls_status ls__cpu_copy(ls__device *device, void *dst, const void *src, size_t bytes)
{
    chunk_job job = { .dst = dst, .src = src, .bytes = bytes };
    ls__threads_run(((ls__cpu *)device)->threads, count_chunks(bytes), copy_chunk, &job);
    return LS_OK;
}

ls_status ls__cpu_clear(ls__device *device, void *memory, size_t bytes)
{
    return ls__cpu_copy(device, memory, NULL, bytes);
}

ls_status ls__cpu_digest(ls__device *device, ls_dtype dtype, const void *memory, size_t bytes,
                         uint64_t offset, ls__digest_sum *sum)
{
    ls__cpu *cpu = (ls__cpu *)device;
    chunk_job job = { .src = memory,
                      .bytes = bytes,
                      .isa = cpu->isa,
                      .offset = offset,
                      .nans = ls__nan_words_of(dtype) };
    ls__threads_run(cpu->threads, count_chunks(bytes), digest_chunk, &job);
    for (int i = 0; i < 2; i++) sum->words[i] += job.words[i];
    return LS_OK;
}
