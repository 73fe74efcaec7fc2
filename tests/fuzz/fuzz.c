/* fuzz.c: see fuzz.h. */
#include "fuzz.h"

#include "base/hash.h"
#include <dirent.h>
#include <stdio.h>
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fuzz_fail(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: not true: %s\n", file, line, condition);
    abort();
}

/* ---- Memory: blocks with guards that are checked when they are released, because libjpeg, which
 * writes pixels into them, has no instrumentation. ---- */

enum { GUARD_BYTES = 64, GUARD = 0xa5 };

/* The size, in a guard's place, and the block; behind it GUARD_BYTES of GUARD. */
static void *allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (alignment > GUARD_BYTES || bytes > SIZE_MAX - 3 * GUARD_BYTES) return NULL;
    const size_t total = (bytes + 3 * GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
    uint8_t *front = aligned_alloc(GUARD_BYTES, total);
    if (!front) return NULL;
    uint8_t *block = front + GUARD_BYTES;
    memcpy(front, &bytes, sizeof(bytes));
    memset(block + bytes, GUARD, GUARD_BYTES);
    ASAN_POISON_MEMORY_REGION(front, GUARD_BYTES);
    ASAN_POISON_MEMORY_REGION(block + bytes, GUARD_BYTES);
    return block;
}

static void release(void *user, void *memory)
{
    (void)user;
    if (!memory) return;
    uint8_t *block = memory, *front = block - GUARD_BYTES;
    size_t bytes;
    ASAN_UNPOISON_MEMORY_REGION(front, GUARD_BYTES);
    memcpy(&bytes, front, sizeof(bytes));
    ASAN_UNPOISON_MEMORY_REGION(block + bytes, GUARD_BYTES);
    for (int i = 0; i < GUARD_BYTES; i++) FUZZ_CHECK(block[bytes + (size_t)i] == GUARD);
    free(front);
}

static const ls_allocator allocator = { allocate, release, NULL };

/* ---- The context ---- */

static ls_context *context;

ls_context *fuzz_context(void)
{
    if (!context)
        context = ls_context_open(&(ls_context_config){ .threads = 1, .allocator = &allocator });
    FUZZ_CHECK(ls_context_status(context) == LS_OK);
    return context;
}

void fuzz_context_close(void)
{
    ls_context_close(&context);
}

ls_status fuzz_error(const char *name)
{
    const ls_status status = ls_context_status(context);
    const bool names = strstr(ls_context_message(context), name);
    const bool good = status == LS_OK || status == LS_ERR_MEMORY || names;
    if (!good) fprintf(stderr, "no '%s' in the message: %s\n", name, ls_context_message(context));
    FUZZ_CHECK(good);
    ls_context_clear_error(context);
    return status;
}

/* ---- Files ---- */

static char folder[256];

static void remove_folder(void)
{
    DIR *files = opendir(folder);
    for (const struct dirent *entry; files && (entry = readdir(files));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(files), entry->d_name, 0);
    if (files) closedir(files);
    rmdir(folder);
}

const char *fuzz_folder(void)
{
    if (*folder) return folder;
    const char *root = getenv("TMPDIR");
    if (!root) root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof(folder), "%s/lockstep-fuzz-XXXXXX", root);
    FUZZ_CHECK(mkdtemp(folder));
    FUZZ_CHECK(atexit(remove_folder) == 0);
    return folder;
}

const char *fuzz_path(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", fuzz_folder(), name);
    return path;
}

const char *fuzz_file(const char *name, const void *bytes, size_t n)
{
    const char *path = fuzz_path(name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fwrite(bytes, 1, n, file) == n);
    FUZZ_CHECK(fclose(file) == 0);
    return path;
}

uint32_t fuzz_seed(const uint8_t *data, size_t size)
{
    return (uint32_t)ls__hash(data, size, 0);
}
