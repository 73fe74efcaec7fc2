/* driver.c: the table of an emulated device, in host memory that is closed to the host. Statuses
 * are CUDA's numbers. */
#include "driver.h"
#include "cuda/device/driver.h"
#include "graphs.h"
#include "streams.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    LAUNCH_OUT_OF_RESOURCES = 701,
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

bool emulated_is_lost(void)
{
    return fails_for_ever && fail_at > 0 && n_calls >= fail_at;
}

int emulated_failure_status(void)
{
    if (!emulated_failure()) return 0;
    return fails_for_ever ? LAUNCH_FAILURE : LAUNCH_OUT_OF_RESOURCES;
}

/* ---- Memory: one stretch of addresses, blocks first fit ---- */

static const size_t HEAP_BYTES = (size_t)1 << 30; /* of addresses */
static unsigned char *heap;
static struct {
    size_t offset, bytes;
} blocks[N_BLOCKS]; /* handed out, by offset */
static int n_blocks, n_host_blocks;

__attribute__((visibility("default"))) emulate_held_fn emulate_held;

void emulated_memory_open(void)
{
    if (heap) (void)mprotect(heap, HEAP_BYTES, PROT_READ | PROT_WRITE);
}

void emulated_memory_close(void)
{
    if (heap) (void)mprotect(heap, HEAP_BYTES, PROT_NONE);
}

static size_t capacity(void)
{
    const char *set = getenv("LOCKSTEP_EMULATED_MEMORY");
    return set ? (size_t)strtoull(set, NULL, 10) : HEAP_BYTES;
}

static size_t used_bytes(void)
{
    size_t used = 0;
    for (int i = 0; i < n_blocks; i++) used += blocks[i].bytes;
    return used;
}

static int allocate(void **memory, size_t bytes)
{
    if (emulated_failure()) return fails_for_ever ? LAUNCH_FAILURE : OUT_OF_MEMORY;
    if (emulated_forbids() != 0) return emulated_forbids();
    if (!heap) {
        heap =
            mmap(NULL, HEAP_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (heap == MAP_FAILED) heap = NULL;
    }
    const size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!heap || n_blocks == N_BLOCKS || bytes > HEAP_BYTES) return OUT_OF_MEMORY;
    if (used_bytes() + rounded > capacity()) return OUT_OF_MEMORY;
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
    if (emulated_forbids() != 0) return emulated_forbids();
    if (!emulated_is_lost()) emulated_streams_run(); /* as cudaFree does */
    for (int i = 0; i < n_blocks; i++) {
        if (heap + blocks[i].offset != memory) continue;
        n_blocks--;
        memmove(&blocks[i], &blocks[i + 1], (size_t)(n_blocks - i) * sizeof(blocks[0]));
        return 0;
    }
    return INVALID_VALUE;
}

/* Pinned blocks begin with a page that links them. */
typedef struct pinned {
    struct pinned *next;
    size_t bytes;
} pinned;
static pinned *all_pinned;

static int host_allocate(void **memory, size_t bytes)
{
    if (emulated_failure()) return fails_for_ever ? LAUNCH_FAILURE : OUT_OF_MEMORY;
    if (emulated_forbids() != 0) return emulated_forbids();
    const size_t rounded = (bytes + PAGE - 1) / PAGE * PAGE;
    pinned *block = rounded >= bytes ? aligned_alloc(PAGE, PAGE + rounded) : NULL;
    if (!block) return OUT_OF_MEMORY;
    *block = (pinned){ all_pinned, rounded };
    all_pinned = block;
    *memory = (unsigned char *)block + PAGE;
    memset(*memory, 0xff, rounded);
    n_host_blocks++;
    return 0;
}

static int host_release(void *memory)
{
    if (emulated_forbids() != 0) return emulated_forbids();
    if (!memory) return 0;
    pinned **at = &all_pinned;
    while (*at && (unsigned char *)*at + PAGE != memory) at = &(*at)->next;
    pinned *block = *at;
    if (!block) return INVALID_VALUE;
    *at = block->next;
    n_host_blocks--;
    free(block);
    return 0;
}

int64_t emulate_held(void)
{
    return n_blocks + n_host_blocks + emulated_streams_held();
}

static bool is_pinned(const void *memory)
{
    const unsigned char *m = memory;
    for (const pinned *p = all_pinned; p; p = p->next)
        if (m >= (const unsigned char *)p + PAGE && m < (const unsigned char *)p + PAGE + p->bytes)
            return true;
    return false;
}

static int memory_info(size_t *free_bytes, size_t *all_bytes)
{
    const int status = emulated_failure_status();
    if (status != 0) return status;
    *free_bytes = capacity() - used_bytes();
    *all_bytes = capacity();
    return 0;
}

/* ---- Copies ---- */

typedef struct copy_job {
    void *to;
    const void *from; /* NULL: the bytes follow the job */
    size_t bytes;
} copy_job;

static void run_copy(void *arg)
{
    const copy_job *job = arg;
    memmove(job->to, job->from ? job->from : job + 1, job->bytes);
}

bool emulated_is_on_device(const void *memory)
{
    const unsigned char *m = memory;
    return heap && m >= heap && m < heap + HEAP_BYTES;
}

/* What comes from the host has left it when the call returns, and what goes there has arrived,
 * unless it is pinned memory. */
static int copy(void *to, const void *from, size_t bytes, ls__cuda_stream stream)
{
    int status = emulated_enter(stream);
    const bool staged = !emulated_is_on_device(from) && !is_pinned(from);
    const bool waits = !emulated_is_on_device(to) && !is_pinned(to);
    if (status == 0 && (staged || waits)) status = emulated_forbids();
    if (status != 0) return status;
    copy_job *job = emulated_queue(stream, run_copy, sizeof(*job) + (staged ? bytes : 0));
    if (!job) return OUT_OF_MEMORY;
    *job = (copy_job){ to, staged ? NULL : from, bytes };
    if (staged) memcpy(job + 1, from, bytes);
    if (waits) emulated_stream_finish(stream);
    emulated_streams_advance();
    return 0;
}

typedef struct fill_job {
    void *memory;
    int byte;
    size_t bytes;
} fill_job;

static void run_fill(void *arg)
{
    const fill_job *job = arg;
    memset(job->memory, job->byte, job->bytes);
}

static int fill(void *memory, int byte, size_t bytes, ls__cuda_stream stream)
{
    const int status = emulated_enter(stream);
    if (status != 0) return status;
    fill_job *job = emulated_queue(stream, run_fill, sizeof(*job));
    if (!job) return OUT_OF_MEMORY;
    *job = (fill_job){ memory, byte, bytes };
    emulated_streams_advance();
    return 0;
}

/* ---- Everything else ---- */

static const char *error_text(int status)
{
    switch (status) {
    case INVALID_VALUE: return "invalid argument";
    case OUT_OF_MEMORY: return "out of memory";
    case LAUNCH_OUT_OF_RESOURCES: return "too many resources requested for launch";
    case LAUNCH_FAILURE: return "unspecified launch failure";
    default: return "emulated error";
    }
}

static bool is_sticky(int status)
{
    return status == LAUNCH_FAILURE;
}

static int left_error;

void emulated_leave_error(void)
{
    left_error = LAUNCH_OUT_OF_RESOURCES;
}

int emulated_take_error(void)
{
    const int status = left_error;
    left_error = 0;
    return status;
}

static void drop_error(void)
{
    left_error = 0;
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

static void driver_text(char *out, size_t size)
{
    snprintf(out, size, "emulated driver");
}

static int properties(int device, ls__cuda_properties *out)
{
    const int status = emulated_failure_status();
    if (status != 0) return status;
    const char *set = getenv("LOCKSTEP_EMULATED_ARCHITECTURE");
    const char *first = getenv("LOCKSTEP_EMULATED_FIRST");
    *out = (ls__cuda_properties){ .name = "emulated GPU",
                                  .major = set ? atoi(set) : 9,
                                  .multiprocessors = 2,
                                  .memory_bytes = capacity(),
                                  .uuid = { (unsigned char)(device + (first ? atoi(first) : 0)) } };
    return 0;
}

static _Thread_local int current_device;

static int set_device(int device)
{
    current_device = device;
    return 0;
}

int emulated_current_device(void)
{
    return current_device;
}

static char ranges[EMULATED_RANGES_SIZE];
__attribute__((visibility("default"))) emulate_ranges_fn emulate_ranges;

const char *emulate_ranges(void)
{
    return ranges;
}

static void range_push(const char *name)
{
    const size_t length = strlen(ranges);
    snprintf(ranges + length, sizeof(ranges) - length, "%s{", name);
}

static void range_pop(void)
{
    const size_t length = strlen(ranges);
    snprintf(ranges + length, sizeof(ranges) - length, "}\n");
}

const ls__cuda_driver ls__cuda_driver_table = {
    .error_text = error_text,
    .is_sticky = is_sticky,
    .drop_error = drop_error,
    .count_devices = count_devices,
    .driver_version = driver_version,
    .runtime_version = runtime_version,
    .driver_text = driver_text,
    .properties = properties,
    .set_device = set_device,
    .allocate = allocate,
    .release = release,
    .host_allocate = host_allocate,
    .host_release = host_release,
    .memory_info = memory_info,
    .stream_open = emulated_stream_open,
    .stream_close = emulated_stream_close,
    .stream_wait = emulated_stream_wait,
    .stream_wait_event = emulated_stream_wait_event,
    .event_open = emulated_event_open,
    .timer_open = emulated_timer_open,
    .event_close = emulated_event_close,
    .event_record = emulated_event_record,
    .event_wait = emulated_event_wait,
    .stream_query = emulated_stream_query,
    .event_query = emulated_event_query,
    .elapsed = emulated_elapsed,
    .copy = copy,
    .fill = fill,
    .capture_begin = emulated_capture_begin,
    .capture_end = emulated_capture_end,
    .graph_close = emulated_graph_close,
    .replay_open = emulated_replay_open,
    .replay_launch = emulated_replay_launch,
    .replay_close = emulated_replay_close,
    .range_push = range_push,
    .range_pop = range_pop,
};
