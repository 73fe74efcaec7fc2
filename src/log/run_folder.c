/* run_folder.c: the folder of a run; see run_folder.h. */
#include "log/run_folder.h"

#include "base/alloc.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The size of a file in the folder; -1 if there is none. */
static int64_t size_of(const char *dir, const char *name)
{
    struct stat there;
    char path[4096];
    const int length = snprintf(path, sizeof(path), "%s/%s", dir, name);
    return length < (int)sizeof(path) && stat(path, &there) == 0 ? there.st_size : -1;
}

bool ls__run_folder_holds_run(const char *dir)
{
    return size_of(dir, "config.json") >= 0;
}

bool ls__run_folder_is_of_program(const char *dir)
{
    return !ls__run_folder_holds_run(dir) && size_of(dir, "manifest.json") < 0 &&
           size_of(dir, "run_log.txt") > 0;
}

static bool is_of_run(const char *name)
{
    static const char *const names[] = { ".",
                                         "..",
                                         ".lock",
                                         "config.json",
                                         "manifest.json",
                                         "metrics.jsonl",
                                         "metrics.csv",
                                         "curves.svg",
                                         "run_log.txt",
                                         "evaluation.json",
                                         "first_batch.jpg",
                                         "first_batch.json",
                                         "log.txt",
                                         "report.html",
                                         "last.safetensors",
                                         "best.safetensors" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0) return true;
    int end = 0;
    sscanf(name, "checkpoint-%*[0-9].safetensors%n", &end);
    if (end == 0) sscanf(name, "events.out.tfevents.%*[0-9].%*[0-9]%n", &end);
    return (end > 0 && name[end] == '\0') || ls__atomic_file_is_temporary(name);
}

bool ls__run_folder_names_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    char dir[4096];
    const int length =
        snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    return length > 0 && (size_t)length < sizeof(dir) &&
           (ls__run_folder_holds_run(dir) || ls__run_folder_is_of_program(dir)) &&
           is_of_run(slash ? slash + 1 : path);
}

bool ls__run_folder_find_foreign(const char *dir, char name[LS__FILE_NAME_SIZE])
{
    DIR *folder = opendir(dir);
    *name = '\0';
    for (const struct dirent *file; folder && (file = readdir(folder));)
        if (!is_of_run(file->d_name) && (!*name || strcmp(file->d_name, name) < 0))
            snprintf(name, LS__FILE_NAME_SIZE, "%s", file->d_name);
    if (folder) closedir(folder);
    return *name != '\0';
}

bool ls__run_folder_find_kept(const char *dir, char name[LS__FILE_NAME_SIZE])
{
    struct stat last = { 0 }, file;
    DIR *folder = opendir(dir);
    *name = '\0';
    if (!folder) return false;
    (void)fstatat(dirfd(folder), "last.safetensors", &last, 0);
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (strncmp(entry->d_name, "checkpoint-", 11) == 0 && is_of_run(entry->d_name) &&
            strcmp(entry->d_name, name) > 0 &&
            fstatat(dirfd(folder), entry->d_name, &file, 0) == 0 && file.st_ino != last.st_ino)
            snprintf(name, LS__FILE_NAME_SIZE, "%s", entry->d_name);
    closedir(folder);
    return *name != '\0';
}

void ls__run_folder_remove(const char *dir)
{
    DIR *folder = opendir(dir);
    for (const struct dirent *file; folder && (file = readdir(folder));)
        if (is_of_run(file->d_name)) (void)unlinkat(dirfd(folder), file->d_name, 0);
    if (folder) closedir(folder);
    (void)rmdir(dir);
}

/* Makes the folder `path`, whose name begins at `name`, and flushes the parent folder to disk,
 * because a power failure could otherwise lose the whole run. An unreadable parent can't be
 * flushed. */
static int make_folder(char *path, char *name)
{
    if (mkdir(path, 0777) != 0) return errno;
    const char kept = *name;
    *name = '\0';
    const int error = ls__folder_flush(path);
    *name = kept;
    return error == EACCES ? 0 : error;
}

/* mkdir -p; changes `path` temporarily. EEXIST: there is something of that name. */
static int make_folders(char *path)
{
    char *name = path + (*path == '/');
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        const int error = make_folder(path, name);
        *at = '/';
        if (error != 0 && error != EEXIST) return error;
        name = at + 1;
    }
    return make_folder(path, name);
}

static ls_status fail_errno(ls_context *ctx, const char *dir, int error)
{
    return ls__fail_errno(ctx, error, "run folder '%s'", dir);
}

ls_status ls__run_folder_create(ls_context *ctx, const char *dir)
{
    if (ls__run_folder_holds_run(dir))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "run folder '%s': holds a run already; choose another folder", dir);
    char *path = ls__strdup(ctx, dir);
    if (!path) return ls__fail_memory(ctx, dir, strlen(dir) + 1);
    int error = *path ? make_folders(path) : ENOENT;
    struct stat there;
    if (error == EEXIST && stat(path, &there) == 0 && S_ISDIR(there.st_mode)) error = 0;
    ls__free(ctx, path);
    return error == 0 ? LS_OK : fail_errno(ctx, dir, error);
}

void ls__run_folder_name(const char *name, int number, char *out, size_t size)
{
    snprintf(out, size, number > 1 ? "%s-%d" : "%s", name, number);
}

ls_status ls__run_folder_create_new(ls_context *ctx, const char *name, int *number)
{
    enum { MAX_NUMBER = 1000000, MAX_SUFFIX = sizeof("-1000000") };
    char path[4096];
    const bool is_long = strlen(name) + MAX_SUFFIX > sizeof(path);
    int error = EEXIST, i = 0;
    while (error == EEXIST && i < (number ? MAX_NUMBER : 1)) {
        ls__run_folder_name(name, ++i, path, sizeof(path));
        error = is_long ? ENAMETOOLONG : *path ? make_folders(path) : ENOENT;
    }
    if (number) *number = i;
    if (error == EEXIST)
        return ls__fail(ctx, LS_ERR_INVALID, "'%s' exists already; expected a new folder", name);
    return error == 0 ? LS_OK : fail_errno(ctx, path, error);
}

/* ---- The lock ---- */

typedef struct folder_lock {
    ls__owned owned;
    int fd;
} folder_lock;

static void unlock(ls__owned *owned)
{
    folder_lock *lock = (folder_lock *)owned;
    if (lock->fd >= 0) close(lock->fd);
    ls__free(owned->ctx, lock);
}

/* True if the context already holds the lock through another file handle. */
static bool holds(const ls_context *ctx, int fd)
{
    struct stat file, held;
    if (fstat(fd, &file) != 0) return false;
    for (const ls__owned *o = ctx->last_owned; o; o = o->previous)
        if (o->close == unlock && fstat(((const folder_lock *)o)->fd, &held) == 0 &&
            held.st_dev == file.st_dev && held.st_ino == file.st_ino)
            return true;
    return false;
}

static ls_status take(ls_context *ctx, const char *dir, folder_lock *lock, bool *taken)
{
    char *path = ls__format(ctx, "%s/.lock", dir);
    if (!path) return ls__fail_memory(ctx, dir, strlen(dir) + sizeof("/.lock"));
    char reason[LS__ERRNO_TEXT_SIZE];
    int64_t size;
    const ls_status status = ls__open_regular(path, O_RDWR | O_CREAT, &lock->fd, &size, reason);
    ls__free(ctx, path);
    if (status != LS_OK) return ls__fail(ctx, status, "run folder '%s': .lock: %s", dir, reason);
    int error = 0;
    if (flock(lock->fd, LOCK_EX | LOCK_NB) != 0) error = errno;
    *taken = error == 0;
    if (error == EWOULDBLOCK && holds(ctx, lock->fd)) return LS_OK;
    if (error == EWOULDBLOCK)
        return ls__fail(ctx, LS_ERR_INVALID, "run folder '%s': another process is training there",
                        dir);
    const bool no_locks = error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP;
    if (no_locks)
        ls__warn(ctx, LS_LOG_RUN,
                 "run folder '%s': its file system has no locks: another process could train there",
                 dir);
    return error == 0 || no_locks ? LS_OK : fail_errno(ctx, dir, error);
}

ls_status ls__run_folder_lock(ls_context *ctx, const char *dir, ls__owned **out)
{
    if (out) *out = NULL;
    LS__ENTER(ctx);
    folder_lock *lock = ls__zalloc(ctx, sizeof(*lock));
    if (!lock) return ls__fail_memory(ctx, "the run folder's lock", sizeof(*lock));
    lock->owned.ctx = ctx;
    lock->fd = -1;
    bool taken = false;
    ls_status status = take(ctx, dir, lock, &taken);
    const int error = status == LS_OK && taken ? ls__folder_sweep(dir) : 0;
    if (error != 0) status = fail_errno(ctx, dir, error);
    if (status != LS_OK) {
        unlock(&lock->owned);
        return status;
    }
    ls__own(ctx, &lock->owned, unlock);
    if (out) *out = &lock->owned;
    return LS_OK;
}
