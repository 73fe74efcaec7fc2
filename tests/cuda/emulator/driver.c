/* driver.c: the table of an emulated device, in host memory that is closed to the host. Statuses
 * are CUDA's numbers. */
#include "driver.h"
#include "cuda/cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    LAUNCH_FAILURE = 719,
    N_BLOCKS = 4096,
    ALIGNMENT = 256,
    PAGE = 4096
};

/* ---- Failures on demand ---- */

static int64_t n_calls, fail_at;
static bool fails_for_ever;

__attribute__((visibility("default"))) emulate_fail_at_fn emulate_fail_at;
__attribute__((visibility("default"))) emulate_calls_fn emulate_calls;

void emulate_fail_at(int64_t call, bool sticky)
{
    n_calls = 0;
    fail_at = call;
    fails_for_ever = sticky;
}

int64_t emulate_calls(void)
{
    return n_calls;
}

bool emulated_failure(void)
{
    n_calls++;
    return fail_at > 0 && (n_calls == fail_at || (fails_for_ever && n_calls > fail_at));
}

/* ---- Memory: one stretch of addresses, blocks first fit ---- */

static const size_t HEAP_BYTES = (size_t)1 << 30;
static unsigned char *heap;
static struct {
    size_t offset, bytes;
} blocks[N_BLOCKS]; /* handed out, by offset */
static int n_blocks;

void emulated_memory_open(void)
{
    if (heap) (void)mprotect(heap, HEAP_BYTES, PROT_READ | PROT_WRITE);
}

void emulated_memory_close(void)
{
    if (heap) (void)mprotect(heap, HEAP_BYTES, PROT_NONE);
}

static int allocate(void **memory, size_t bytes)
{
    if (emulated_failure()) return OUT_OF_MEMORY;
    if (!heap) {
        heap =
            mmap(NULL, HEAP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (heap == MAP_FAILED) heap = NULL;
    }
    const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!heap || n_blocks == N_BLOCKS || bytes > HEAP_BYTES) return OUT_OF_MEMORY;
    size_t begin = 0;
    int i = 0;
    while (i < n_blocks && begin + rounded > blocks[i].offset) {
        begin = blocks[i].offset + blocks[i].bytes;
        i++;
    }
    if (begin + rounded > HEAP_BYTES) return OUT_OF_MEMORY;
    memmove(&blocks[i + 1], &blocks[i], (size_t)(n_blocks - i) * sizeof(blocks[0]));
    blocks[i].offset = begin;
    blocks[i].bytes = rounded;
    n_blocks++;
    *memory = heap + begin;
    emulated_memory_open();
    memset(*memory, 0xff, rounded); /* NaN */
    emulated_memory_close();
    return 0;
}

static int release(void *memory)
{
    if (!memory) return 0;
    for (int i = 0; i < n_blocks; i++) {
        if (heap + blocks[i].offset != memory) continue;
        n_blocks--;
        memmove(&blocks[i], &blocks[i + 1], (size_t)(n_blocks - i) * sizeof(blocks[0]));
        return 0;
    }
    return INVALID_VALUE;
}

static int host_allocate(void **memory, size_t bytes)
{
    if (emulated_failure()) return OUT_OF_MEMORY;
    const size_t rounded = (bytes + PAGE - 1) / PAGE * PAGE;
    *memory = rounded >= bytes ? aligned_alloc(PAGE, rounded) : NULL;
    return *memory ? 0 : OUT_OF_MEMORY;
}

static int host_release(void *memory)
{
    free(memory);
    return 0;
}

static int memory_info(size_t *free_bytes, size_t *all_bytes)
{
    if (emulated_failure()) return LAUNCH_FAILURE;
    size_t used = 0;
    for (int i = 0; i < n_blocks; i++) used += blocks[i].bytes;
    *free_bytes = HEAP_BYTES - used;
    *all_bytes = HEAP_BYTES;
    return 0;
}

static int copy(void *to, const void *from, size_t bytes, ls__cuda_stream stream)
{
    (void)stream;
    if (emulated_failure()) return LAUNCH_FAILURE;
    emulated_memory_open();
    memmove(to, from, bytes);
    emulated_memory_close();
    return 0;
}

static int fill(void *memory, int byte, size_t bytes, ls__cuda_stream stream)
{
    (void)stream;
    if (emulated_failure()) return LAUNCH_FAILURE;
    emulated_memory_open();
    memset(memory, byte, bytes);
    emulated_memory_close();
    return 0;
}

/* ---- Everything else: all is done when a call returns ---- */

static const char *error_text(int status)
{
    switch (status) {
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default: return "emulated error";
    }
}

static bool is_sticky(int status)
{
    return status == LAUNCH_FAILURE;
}

static int count_devices(int *count)
{
    const char *set = getenv("LOCKSTEP_EMULATED_DEVICES");
    *count = set ? atoi(set) : 2;
    return *count == 0 ? 100 : 0; /* cudaErrorNoDevice */
}

static int driver_version(int *version)
{
    const char *set = getenv("LOCKSTEP_EMULATED_DRIVER");
    *version = set ? atoi(set) : 13000;
    return 0;
}

static int runtime_version(int *version)
{
    *version = 13000;
    return 0;
}

static int properties(int device, ls__cuda_properties *out)
{
    (void)device;
    if (emulated_failure()) return LAUNCH_FAILURE;
    *out = (ls__cuda_properties){
        .name = "emulated GPU", .major = 9, .multiprocessors = 2, .memory_bytes = HEAP_BYTES
    };
    return 0;
}

static int done(void)
{
    return emulated_failure() ? LAUNCH_FAILURE : 0;
}

static int set_device(int device)
{
    (void)device;
    return 0;
}

static int handle_open(void **handle)
{
    if (emulated_failure()) return OUT_OF_MEMORY;
    *handle = malloc(1);
    return *handle ? 0 : OUT_OF_MEMORY;
}

static int handle_close(void *handle)
{
    free(handle);
    return 0;
}

static int handle_wait(void *handle)
{
    (void)handle;
    return done();
}

static int two_handles(void *a, void *b)
{
    (void)a;
    (void)b;
    return done();
}

const ls__cuda_driver ls__cuda_driver_table = {
    .error_text = error_text,
    .is_sticky = is_sticky,
    .count_devices = count_devices,
    .driver_version = driver_version,
    .runtime_version = runtime_version,
    .properties = properties,
    .set_device = set_device,
    .allocate = allocate,
    .release = release,
    .host_allocate = host_allocate,
    .host_release = host_release,
    .memory_info = memory_info,
    .stream_open = handle_open,
    .stream_close = handle_close,
    .stream_wait = handle_wait,
    .event_open = handle_open,
    .event_close = handle_close,
    .event_record = two_handles,
    .event_wait = handle_wait,
    .copy = copy,
    .fill = fill,
};

/* NVIDIA's libraries can't be emulated. */
const ls__cuda_provider *const ls__cuda_providers[] = { &ls__cuda_own_provider, NULL };
