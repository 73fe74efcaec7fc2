/* fail_calls.c: a library for LD_PRELOAD that makes the n-th call of one kind fail, in a whole
 * process.
 *
 *   FAIL_CALL=KIND:N[+]   the N-th call (from 1) of this kind fails, with '+' all later ones too
 *   FAIL_CALLER=NAME      counts only calls from the library whose file name begins with NAME
 *   FAIL_COUNTS=PATH      the process appends "KIND CALLER COUNT" lines there when it ends
 *
 * Calls that the C library makes itself are not seen. Allocations are counted by the library that
 * makes them. A short read or write transfers half of the bytes and reports that. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum kind {
    OPEN,
    READ,
    READ_SHORT,
    WRITE,
    WRITE_SHORT,
    FSYNC,
    RENAME,
    LINK,
    TRUNCATE,
    MKDIR,
    LOCK,
    MMAP,
    THREAD,
    ALLOC,
    KIND_COUNT
} kind;

static const struct {
    const char *name;
    int error;
} kinds[KIND_COUNT] = {
    [OPEN] = { "open", EMFILE },          [READ] = { "read", EIO },
    [READ_SHORT] = { "read_short", 0 },   [WRITE] = { "write", ENOSPC },
    [WRITE_SHORT] = { "write_short", 0 }, [FSYNC] = { "fsync", EIO },
    [RENAME] = { "rename", EIO },         [LINK] = { "link", EIO },
    [TRUNCATE] = { "truncate", EIO },     [MKDIR] = { "mkdir", ENOSPC },
    [LOCK] = { "lock", ENOLCK },          [MMAP] = { "mmap", ENOMEM },
    [THREAD] = { "thread", EAGAIN },      [ALLOC] = { "alloc", ENOMEM },
};

enum { CALLER_COUNT = 32, CALLER_SIZE = 32 };

static struct {
    char name[CALLER_SIZE];
    const void *base; /* where the library is loaded */
    atomic_long counts[KIND_COUNT];
} callers[CALLER_COUNT];
static atomic_int caller_count;
static pthread_mutex_t caller_lock = PTHREAD_MUTEX_INITIALIZER;

static kind failing = KIND_COUNT;
static long failing_at;
static bool failing_on;
static const char *failing_caller;
static atomic_long seen;
static pid_t counted_process;
static char counts_path[4096];

static _Thread_local bool inside; /* of this library, which calls what it replaces */

/* ---- Counting ---- */

static int find_caller(const void *base)
{
    const int n = atomic_load(&caller_count);
    for (int i = 0; i < n; i++)
        if (callers[i].base == base) return i;
    return -1;
}

/* The row of the library that `address` is in. */
static int caller_of(const void *address)
{
    Dl_info info;
    if (!dladdr(address, &info)) return -1;
    int i = find_caller(info.dli_fbase);
    if (i >= 0) return i;
    pthread_mutex_lock(&caller_lock);
    i = find_caller(info.dli_fbase);
    const int n = atomic_load(&caller_count);
    if (i < 0 && n < CALLER_COUNT) {
        const char *slash = strrchr(info.dli_fname, '/');
        snprintf(callers[n].name, CALLER_SIZE, "%s", slash ? slash + 1 : info.dli_fname);
        callers[n].base = info.dli_fbase;
        atomic_store(&caller_count, n + 1);
        i = n;
    }
    pthread_mutex_unlock(&caller_lock);
    return i;
}

/* Counts a call and says whether it fails; errno is set then. */
static bool fails(kind what, const void *address)
{
    if (inside || (failing == KIND_COUNT && !*counts_path)) return false;
    inside = true;
    const int before = errno, caller = caller_of(address);
    bool now = false;
    if (caller >= 0) {
        atomic_fetch_add(&callers[caller].counts[what], 1);
        if (what == failing && (!failing_caller || strncmp(callers[caller].name, failing_caller,
                                                           strlen(failing_caller)) == 0)) {
            const long n = atomic_fetch_add(&seen, 1) + 1;
            now = n == failing_at || (failing_on && n > failing_at);
        }
    }
    inside = false;
    errno = now ? kinds[what].error : before;
    return now;
}

__attribute__((constructor)) static void begin(void)
{
    const char *call = getenv("FAIL_CALL"), *colon = call ? strchr(call, ':') : NULL;
    const char *counts = getenv("FAIL_COUNTS");
    inside = true;
    counted_process = getpid();
    alarm(60); /* a process that hangs ends with SIGALRM */
    failing_caller = getenv("FAIL_CALLER");
    if (counts) snprintf(counts_path, sizeof(counts_path), "%s", counts);
    for (int i = 0; colon && i < KIND_COUNT; i++)
        if (strncmp(kinds[i].name, call, (size_t)(colon - call)) == 0 &&
            !kinds[i].name[colon - call])
            failing = (kind)i;
    char *end = NULL;
    if (colon) failing_at = strtol(colon + 1, &end, 10);
    failing_on = end && *end == '+';
    inside = false;
}

__attribute__((destructor)) static void end(void)
{
    if (!*counts_path || getpid() != counted_process) return;
    inside = true;
    FILE *file = fopen(counts_path, "a");
    for (int i = 0; file && i < atomic_load(&caller_count); i++)
        for (int k = 0; k < KIND_COUNT; k++)
            if (callers[i].counts[k])
                fprintf(file, "%s %s %ld\n", kinds[k].name, callers[i].name,
                        (long)callers[i].counts[k]);
    if (file) fclose(file);
}

/* ---- The calls ----
 * REAL(name) is the function that would have been called. */

#define REAL(name) ((__typeof__(&(name)))real(#name))
#define CALLER     __builtin_return_address(0)

static void *real(const char *name)
{
    const bool before = inside;
    inside = true;
    void *function = dlsym(RTLD_NEXT, name);
    inside = before;
    if (!function) abort(); /* of a test, and the C library has all of them */
    return function;
}

static mode_t mode_of(int flags, va_list rest)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN_CALL(name)                                                                            \
    int name(const char *path, int flags, ...)                                                     \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        const mode_t mode = mode_of(flags, rest);                                                  \
        va_end(rest);                                                                              \
        return fails(OPEN, CALLER) ? -1 : REAL(name)(path, flags, mode);                           \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

#define OPENAT_CALL(name)                                                                          \
    int name(int folder, const char *path, int flags, ...)                                         \
    {                                                                                              \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        const mode_t mode = mode_of(flags, rest);                                                  \
        va_end(rest);                                                                              \
        return fails(OPEN, CALLER) ? -1 : REAL(name)(folder, path, flags, mode);                   \
    }
OPENAT_CALL(openat)
OPENAT_CALL(openat64)

DIR *opendir(const char *path)
{
    return fails(OPEN, CALLER) ? NULL : REAL(opendir)(path);
}

FILE *fopen(const char *path, const char *mode)
{
    return fails(OPEN, CALLER) ? NULL : REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
    return fails(OPEN, CALLER) ? NULL : REAL(fopen64)(path, mode);
}

/* How many bytes of `size` a call transfers that is short on purpose. */
static size_t transfer(kind how_short, size_t size, const void *caller)
{
    return size > 1 && fails(how_short, caller) ? size / 2 : size;
}

ssize_t read(int fd, void *bytes, size_t size)
{
    if (fails(READ, CALLER)) return -1;
    return REAL(read)(fd, bytes, transfer(READ_SHORT, size, CALLER));
}

ssize_t pread(int fd, void *bytes, size_t size, off_t at)
{
    if (fails(READ, CALLER)) return -1;
    return REAL(pread)(fd, bytes, transfer(READ_SHORT, size, CALLER), at);
}

ssize_t pread64(int fd, void *bytes, size_t size, off64_t at)
{
    if (fails(READ, CALLER)) return -1;
    return REAL(pread64)(fd, bytes, transfer(READ_SHORT, size, CALLER), at);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    if (fails(WRITE, CALLER)) return -1;
    return REAL(write)(fd, bytes, transfer(WRITE_SHORT, size, CALLER));
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    if (fails(WRITE, CALLER)) return -1;
    return REAL(pwrite)(fd, bytes, transfer(WRITE_SHORT, size, CALLER), at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at)
{
    if (fails(WRITE, CALLER)) return -1;
    return REAL(pwrite64)(fd, bytes, transfer(WRITE_SHORT, size, CALLER), at);
}

int fsync(int fd)
{
    return fails(FSYNC, CALLER) ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return fails(FSYNC, CALLER) ? -1 : REAL(fdatasync)(fd);
}

int rename(const char *from, const char *to)
{
    return fails(RENAME, CALLER) ? -1 : REAL(rename)(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    return fails(LINK, CALLER) ? -1 : REAL(linkat)(from_folder, from, to_folder, to, flags);
}

int ftruncate(int fd, off_t size)
{
    return fails(TRUNCATE, CALLER) ? -1 : REAL(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return fails(TRUNCATE, CALLER) ? -1 : REAL(ftruncate64)(fd, size);
}

int mkdir(const char *path, mode_t mode)
{
    return fails(MKDIR, CALLER) ? -1 : REAL(mkdir)(path, mode);
}

int flock(int fd, int operation)
{
    return fails(LOCK, CALLER) ? -1 : REAL(flock)(fd, operation);
}

void *mmap(void *place, size_t size, int protection, int flags, int fd, off_t at)
{
    return fails(MMAP, CALLER) ? MAP_FAILED : REAL(mmap)(place, size, protection, flags, fd, at);
}

void *mmap64(void *place, size_t size, int protection, int flags, int fd, off64_t at)
{
    return fails(MMAP, CALLER) ? MAP_FAILED : REAL(mmap64)(place, size, protection, flags, fd, at);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *user)
{
    return fails(THREAD, CALLER) ? EAGAIN : REAL(pthread_create)(thread, how, run, user);
}

/* Allocations: glibc's own names, since dlsym itself allocates. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    return fails(ALLOC, CALLER) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails(ALLOC, CALLER) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    return fails(ALLOC, CALLER) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return fails(ALLOC, CALLER) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (fails(ALLOC, CALLER)) return ENOMEM;
    void *memory = __libc_memalign(alignment, size);
    if (memory) *out = memory;
    return memory ? 0 : ENOMEM;
}
