/* crash_calls.c: see crash_calls.h. */
#include "crash_calls.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __real_pwrite(int fd, const void *bytes, size_t size, off_t at);
int __real_fsync(int fd);
int __real_ftruncate(int fd, off_t size);
int __real_rename(const char *from, const char *to);
int __real_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
int __real_mkdir(const char *path, mode_t mode);
int __real_unlink(const char *path);
int __real_unlinkat(int folder, const char *path, int flags);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at);
int __wrap_fsync(int fd);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_rename(const char *from, const char *to);
int __wrap_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_unlink(const char *path);
int __wrap_unlinkat(int folder, const char *path, int flags);

static call_trace *traced;

void trace_calls(call_trace *trace)
{
    traced = trace;
}

/* ---- Noting ---- */

/* Is the call that begins now the last one, and dies before it does anything? */
static bool dies_at(crash how)
{
    return traced && traced->n == traced->kill_at && traced->how == how;
}

static void die_before(void)
{
    if (dies_at(CRASH_BEFORE_CALL)) raise(SIGKILL);
}

static call *note(call_kind kind, const char *path, const char *to)
{
    ck_assert_int_lt(traced->n, MAX_CALLS);
    call *c = &traced->calls[traced->n];
    *c = (call){ .kind = kind };
    snprintf(c->path, sizeof(c->path), "%s", path ? path : "");
    snprintf(c->to, sizeof(c->to), "%s", to ? to : "");
    return c;
}

static void end_call(void)
{
    const bool last = dies_at(CRASH_IN_CALL);
    traced->n++;
    if (last) raise(SIGKILL);
}

static void note_file(call_kind kind, int fd)
{
    struct stat there;
    if (!traced || fstat(fd, &there) != 0) return;
    char link[64], path[CALL_PATH] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof(path) - 1) < 0) *path = '\0';
    call *c = note(kind, path, NULL);
    c->folder = S_ISDIR(there.st_mode);
    c->file = there.st_ino;
    c->size = there.st_size;
    end_call();
}

/* Calls that change this file since it was last flushed? */
static bool is_dirty(const call_trace *trace, ino_t file)
{
    bool dirty = false;
    for (int i = 0; i < trace->n; i++) {
        const call *c = &trace->calls[i];
        if (c->file != file) continue;
        if (c->kind == CALL_WRITE || c->kind == CALL_TRUNCATE) dirty = true;
        if (c->kind == CALL_FSYNC || (c->kind == CALL_CREATE && !*c->to)) dirty = false;
    }
    return dirty;
}

static void shadow_path(const call_trace *trace, int i, char out[CALL_PATH])
{
    snprintf(out, CALL_PATH, "%s/%d", trace->shadow, i);
}

/* ---- The calls ---- */

int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const bool has_mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    const mode_t mode = has_mode ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    const bool creates = traced && (flags & O_CREAT) && access(path, F_OK) != 0;
    if (creates) die_before();
    const int fd = __real_open(path, flags, mode);
    if (!creates || fd < 0) return fd;
    struct stat there;
    call *c = note(CALL_CREATE, path, NULL);
    if (fstat(fd, &there) == 0) c->file = there.st_ino;
    end_call();
    return fd;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    die_before();
    const ssize_t n = __real_write(fd, bytes, dies_at(CRASH_IN_CALL) ? (size + 1) / 2 : size);
    note_file(CALL_WRITE, fd);
    return n;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    die_before();
    const ssize_t n = __real_pwrite(fd, bytes, dies_at(CRASH_IN_CALL) ? (size + 1) / 2 : size, at);
    note_file(CALL_WRITE, fd);
    return n;
}

int __wrap_fsync(int fd)
{
    die_before();
    note_file(CALL_FSYNC, fd); /* the disk itself need not turn for this test */
    return 0;
}

int __wrap_ftruncate(int fd, off_t size)
{
    die_before();
    const int answer = __real_ftruncate(fd, size);
    note_file(CALL_TRUNCATE, fd);
    return answer;
}

int __wrap_rename(const char *from, const char *to)
{
    if (!traced) return __real_rename(from, to);
    die_before();
    char replaced[CALL_PATH];
    struct stat there;
    shadow_path(traced, traced->n, replaced);
    if (access(to, F_OK) == 0) ck_assert_int_eq(link(to, replaced), 0);
    ck_assert_int_eq(stat(from, &there), 0);
    const int answer = __real_rename(from, to);
    call *c = note(CALL_RENAME, from, to);
    c->file = there.st_ino;
    c->dirty = is_dirty(traced, there.st_ino);
    end_call();
    return answer;
}

/* A file that was opened without a name gets its first one. */
static void note_first_name(const char *name)
{
    struct stat there;
    ck_assert_int_eq(stat(name, &there), 0);
    call *c = note(CALL_CREATE, name, name);
    c->file = there.st_ino;
    c->size = there.st_size;
}

int __wrap_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    if (!traced) return __real_linkat(from_folder, from, to_folder, to, flags);
    die_before();
    const int answer = __real_linkat(from_folder, from, to_folder, to, flags);
    const int error = errno;
    if (answer == 0) {
        if (strncmp(from, "/proc/self/fd/", 14) == 0)
            note_first_name(to);
        else
            note(CALL_LINK, from, to);
        end_call();
    }
    errno = error;
    return answer;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    if (!traced || access(path, F_OK) == 0) return __real_mkdir(path, mode);
    die_before();
    const int answer = __real_mkdir(path, mode);
    const int error = errno;
    note(CALL_MKDIR, path, NULL);
    end_call();
    errno = error;
    return answer;
}

int __wrap_unlink(const char *path)
{
    if (!traced) return __real_unlink(path);
    die_before();
    const int answer = __real_unlink(path);
    note(CALL_UNLINK, path, NULL);
    end_call();
    return answer;
}

int __wrap_unlinkat(int folder, const char *path, int flags)
{
    if (!traced) return __real_unlinkat(folder, path, flags);
    die_before();
    const int answer = __real_unlinkat(folder, path, flags);
    note(CALL_UNLINK, path, NULL);
    end_call();
    return answer;
}

/* ---- Looking back ---- */

const char *call_file(const call_trace *trace, int i)
{
    const call *c = &trace->calls[i];
    if (c->folder) return "/";
    const char *path = c->kind == CALL_RENAME || c->kind == CALL_LINK ? c->to : c->path;
    const bool is_named = c->file == 0 || c->kind == CALL_RENAME;
    for (int k = i; !is_named && k < trace->n && trace->calls[k].file == c->file; k++)
        if (trace->calls[k].kind == CALL_RENAME) path = trace->calls[k].to;
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool continues(const call_trace *trace, int i)
{
    const call *c = &trace->calls[i];
    return i > 0 && c->kind == CALL_WRITE && c[-1].kind == CALL_WRITE && c[-1].file == c->file;
}

bool is_worth_dying(const call_trace *trace, int i)
{
    if (!continues(trace, i)) return true;
    int first = i, end = i;
    while (continues(trace, first)) first--;
    while (end < trace->n && (end == first || continues(trace, end))) end++;
    return i == (first + end) / 2;
}

/* ---- Power ---- */

static void lose_bytes(const call_trace *trace, const char *path, ino_t file)
{
    int64_t size = 0, flushed = 0;
    if (!is_dirty(trace, file)) return;
    for (int i = 0; i < trace->n; i++) {
        const call *c = &trace->calls[i];
        if (c->file != file || c->kind == CALL_RENAME) continue;
        size = c->size;
        if (c->kind == CALL_FSYNC || flushed > size) flushed = size;
    }
    ck_assert_int_eq(truncate(path, flushed), 0);
    ck_assert_int_eq(truncate(path, size), 0);
}

/* Was the folder in which this name was made flushed afterwards? */
static bool is_name_flushed(const call_trace *trace, int i)
{
    char folder[CALL_PATH];
    const call *c = &trace->calls[i];
    snprintf(folder, sizeof(folder), "%s", *c->to ? c->to : c->path);
    char *slash = strrchr(folder, '/');
    struct stat there;
    if (slash) *slash = '\0';
    if (stat(slash ? folder : ".", &there) != 0) return false;
    for (i++; i < trace->n; i++)
        if (trace->calls[i].kind == CALL_FSYNC && trace->calls[i].file == there.st_ino) return true;
    return false;
}

static void lose_folder(const char *dir)
{
    char command[CALL_PATH + 16];
    snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

/* What was removed does not come back: only leftovers are, and their removal may be repeated. */
static void lose_names(const call_trace *trace)
{
    for (int i = trace->n - 1; i >= 0; i--) {
        const call *c = &trace->calls[i];
        char replaced[CALL_PATH];
        shadow_path(trace, i, replaced);
        if (c->kind == CALL_WRITE || c->kind == CALL_FSYNC || is_name_flushed(trace, i)) continue;
        if (c->kind == CALL_CREATE) __real_unlink(c->path);
        if (c->kind == CALL_LINK) __real_unlink(c->to);
        if (c->kind == CALL_MKDIR) lose_folder(c->path);
        if (c->kind != CALL_RENAME) continue;
        ck_assert_int_eq(__real_rename(c->to, c->path), 0);
        if (access(replaced, F_OK) == 0) ck_assert_int_eq(__real_rename(replaced, c->to), 0);
    }
}

void cut_power(const call_trace *trace, const char *dir, bool keep_names)
{
    if (!keep_names) lose_names(trace);
    DIR *folder = opendir(dir);
    if (!folder && errno == ENOENT) return; /* not even its own name was flushed */
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[CALL_PATH + sizeof(entry->d_name)];
        snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        if (*entry->d_name != '.' || strstr(entry->d_name, ".tmp"))
            lose_bytes(trace, path, entry->d_ino);
    }
    closedir(folder);
}
