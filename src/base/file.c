/* file.c: whole-file writing and reading. */
#include "base/file.h"

#include "base/alloc.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* As many as the system follows itself. */
enum { MAX_LINKS = 40 };

#define NOT_REGULAR "not a regular file"

struct ls__atomic_file {
    ls_context *ctx;
    char *path;      /* as the user wrote it, for messages */
    char *target;    /* links followed */
    char *folder;    /* of target, with its last slash; "" for the current one */
    char *temporary; /* NULL when target is written straight */
    int fd, lock_fd;
    bool failed; /* a write went wrong: commit must not happen */
};

/* Frees the struct; removes the temporary file when it is still there. */
static void release(ls__atomic_file **file)
{
    ls__atomic_file *f = *file;
    *file = NULL;
    if (!f) return;
    if (f->fd >= 0) {
        close(f->fd);
        if (f->temporary) unlink(f->temporary);
    }
    if (f->lock_fd >= 0) close(f->lock_fd);
    ls__free(f->ctx, f->path);
    ls__free(f->ctx, f->target);
    ls__free(f->ctx, f->folder);
    ls__free(f->ctx, f->temporary);
    ls__free(f->ctx, f);
}

/* What the link at path names, or NULL where there is no link. */
static char *follow(ls_context *ctx, const char *path)
{
    char name[PATH_MAX];
    const ssize_t n = readlink(path, name, sizeof(name));
    if (n <= 0 || n == sizeof(name)) return NULL;
    const char *slash = *name == '/' ? NULL : strrchr(path, '/');
    return ls__format(ctx, "%.*s%.*s", slash ? (int)(slash - path) + 1 : 0, path, (int)n, name);
}

/* Where the bytes shall end: path, or the file that a link there names, be it there or not. */
static char *resolve(ls_context *ctx, const char *path, bool replaces_link)
{
    if (replaces_link) return ls__strdup(ctx, path);
    char *real = realpath(path, NULL);
    char *target = ls__strdup(ctx, real ? real : path);
    for (int i = 0; !real && target && i < MAX_LINKS; i++) {
        char *next = follow(ctx, target);
        if (!next) break;
        ls__free(ctx, target);
        target = next;
    }
    free(real);
    return target;
}

static ls_status open_temporary(ls__atomic_file *f)
{
    /* A short name, for the file's own may be as long as names can be. O_EXCL finds a free one;
     * what a killed process left has another process's number. */
    for (int attempt = 0; attempt < 1000; attempt++) {
        f->temporary =
            ls__format(f->ctx, "%s.lockstep-%ld-%d.tmp", f->folder, (long)getpid(), attempt);
        if (!f->temporary) return ls__fail_memory(f->ctx, f->path, strlen(f->folder) + 64);
        f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd >= 0) return LS_OK;
        const int error = errno;
        ls__free(f->ctx, f->temporary);
        f->temporary = NULL;
        if (error != EEXIST) return ls__fail_errno(f->ctx, error, "writing '%s'", f->path);
    }
    return ls__fail_errno(f->ctx, EEXIST, "writing '%s'", f->path);
}

/* Makes target and folder; NULL: no memory. Otherwise the file's own name in the folder. */
static const char *find_place(ls__atomic_file *f, const char *path, bool replaces_link)
{
    f->path = ls__strdup(f->ctx, path);
    f->target = resolve(f->ctx, path, replaces_link);
    f->folder = f->target ? ls__strdup(f->ctx, f->target) : NULL;
    if (!f->path || !f->folder) return NULL;
    char *slash = strrchr(f->folder, '/');
    char *name = slash ? slash + 1 : f->folder;
    *name = '\0';
    return f->target + (name - f->folder);
}

static ls_status open_place(ls__atomic_file *f, const char *name, bool replaces_link)
{
    struct stat there;
    const bool exists = stat(f->target, &there) == 0;
    if (exists && S_ISDIR(there.st_mode))
        return ls__fail_errno(f->ctx, EISDIR, "writing '%s'", f->path);
    if (exists && !S_ISREG(there.st_mode) && replaces_link)
        return ls__fail(f->ctx, LS_ERR_IO, "writing '%s': " NOT_REGULAR, f->path);
    if (exists && !S_ISREG(there.st_mode)) {
        f->fd = open(f->target, O_WRONLY | O_CLOEXEC);
        return f->fd >= 0 ? LS_OK : ls__fail_errno(f->ctx, errno, "writing '%s'", f->path);
    }
    if (*name == '\0') return ls__fail_errno(f->ctx, ENOENT, "writing '%s'", f->path);
    if (!replaces_link && lstat(f->target, &there) == 0 && S_ISLNK(there.st_mode))
        return ls__fail_errno(f->ctx, ELOOP, "writing '%s'", f->path);
    return open_temporary(f);
}

static ls_status open_atomic(ls_context *ctx, const char *path, bool replaces_link,
                             ls__atomic_file **out)
{
    *out = NULL;
    ls__atomic_file *f = ls__zalloc(ctx, sizeof(*f));
    if (!f) return ls__fail_memory(ctx, path, sizeof(*f));
    f->ctx = ctx;
    f->fd = f->lock_fd = -1;
    const char *name = find_place(f, path, replaces_link);
    const ls_status status =
        name ? open_place(f, name, replaces_link) : ls__fail_memory(ctx, path, strlen(path) + 1);
    if (status == LS_OK)
        *out = f;
    else
        release(&f);
    return status;
}

ls_status ls__atomic_file_open(ls_context *ctx, const char *path, ls__atomic_file **out)
{
    return open_atomic(ctx, path, false, out);
}

ls_status ls__atomic_file_replace(ls_context *ctx, const char *path, ls__atomic_file **out)
{
    return open_atomic(ctx, path, true, out);
}

ls_status ls__atomic_file_write(ls__atomic_file *file, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        const ssize_t n = write(file->fd, at, size);
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            file->failed = true;
            return ls__fail_errno(file->ctx, n == 0 ? EIO : errno, "writing '%s'", file->path);
        }
    }
    return LS_OK;
}

static int open_folder(const char *folder)
{
    return open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

ls_status ls__atomic_file_lock(ls__atomic_file *file)
{
    if (!file->temporary) return LS_OK;
    file->lock_fd = open_folder(file->folder);
    if (file->lock_fd < 0)
        return ls__fail_errno(file->ctx, errno, "locking the folder of '%s'", file->path);
    while (flock(file->lock_fd, LOCK_EX) != 0 && errno == EINTR) continue;
    return LS_OK;
}

/* Some file systems cannot flush a folder (EINVAL); they have nothing to flush then. */
static bool flush_folder(int fd)
{
    return fsync(fd) == 0 || errno == EINVAL;
}

int ls__folder_flush(const char *folder)
{
    const int fd = open_folder(folder);
    if (fd < 0) return errno;
    const int error = flush_folder(fd) ? 0 : errno;
    close(fd);
    return error;
}

ls_status ls__atomic_file_commit(ls__atomic_file **file)
{
    ls__atomic_file *f = *file;
    if (!f) return LS_ERR_IO;
    ls_status status = LS_OK;
    int folder_fd = -1;
    if (f->failed) {
        status = LS_ERR_IO; /* its error was kept when it happened */
    } else if (f->temporary) {
        folder_fd = open_folder(f->folder);
        if (folder_fd < 0 || fsync(f->fd) != 0 || rename(f->temporary, f->target) != 0) {
            status = ls__fail_errno(f->ctx, errno, "writing '%s'", f->path);
        } else {
            ls__free(f->ctx, f->temporary);
            f->temporary = NULL;
            if (!flush_folder(folder_fd)) {
                status = ls__fail_errno(f->ctx, errno, "flushing the folder of '%s'", f->path);
            }
        }
    }
    if (folder_fd >= 0) close(folder_fd);
    release(file);
    return status;
}

void ls__atomic_file_abandon(ls__atomic_file **file)
{
    release(file);
}

bool ls__atomic_file_is_temporary(const char *name)
{
    long process;
    int attempt, end = 0;
    return sscanf(name, ".lockstep-%ld-%d.tmp%n", &process, &attempt, &end) == 2 && end > 0 &&
           name[end] == '\0';
}

/* ---- Reading ---- */

ls_status ls__open_regular(const char *path, int flags, int *fd, int64_t *size,
                           char reason[LS__ERRNO_TEXT_SIZE])
{
    struct stat there;
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    const char *kind = NOT_REGULAR;
    int error = 0;
    /* Without O_NONBLOCK opening a pipe would wait for its other end. */
    *fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | (writes ? O_NOFOLLOW : 0), 0666);
    if (*fd < 0 || fstat(*fd, &there) != 0) error = errno;
    if (error == 0 && S_ISREG(there.st_mode)) {
        *size = there.st_size;
        return LS_OK;
    }
    if (error == ELOOP && writes) kind = "a symbolic link; expected a regular file";
    const bool has_kind = error == 0 || error == ENXIO || (error == ELOOP && writes);
    char text[LS__ERRNO_TEXT_SIZE];
    snprintf(reason, LS__ERRNO_TEXT_SIZE, "%s",
             has_kind ? kind : ls__errno_text(error, text, sizeof(text)));
    if (*fd >= 0) close(*fd);
    *fd = -1;
    return error == ENOENT ? LS_ERR_NOT_FOUND : LS_ERR_IO;
}

ls_status ls__read_file(const ls_context *ctx, const char *path, size_t max_bytes,
                        unsigned char **out, size_t *size, char *message, size_t message_size)
{
    *out = NULL;
    *size = 0;
    unsigned char *bytes = NULL;
    char reason[LS__ERRNO_TEXT_SIZE];
    int fd;
    int64_t file_bytes;
    ls_status status = ls__open_regular(path, O_RDONLY, &fd, &file_bytes, reason);
    if (status != LS_OK) {
        snprintf(message, message_size, "reading '%s': %s", path, reason);
        goto fail;
    }
    if ((uintmax_t)file_bytes > max_bytes) {
        snprintf(message, message_size, "reading '%s': %jd bytes, at most %zu are allowed", path,
                 (intmax_t)file_bytes, max_bytes);
        status = LS_ERR_DATA;
        goto fail;
    }
    const size_t n_bytes = (size_t)file_bytes;
    bytes = n_bytes < SIZE_MAX ? ls__alloc(ctx, n_bytes + 1) : NULL;
    if (!bytes) {
        snprintf(message, message_size, "reading '%s': out of memory, %zu bytes asked", path,
                 n_bytes);
        status = LS_ERR_MEMORY;
        goto fail;
    }
    for (size_t done = 0; done < n_bytes;) {
        const ssize_t n = read(fd, bytes + done, n_bytes - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) { /* n == 0: it was cut while we read */
            snprintf(message, message_size, "reading '%s': %s", path,
                     ls__errno_text(n == 0 ? EIO : errno, reason, sizeof(reason)));
            status = LS_ERR_IO;
            goto fail;
        }
    }
    close(fd);
    bytes[n_bytes] = 0;
    *out = bytes;
    *size = n_bytes;
    return LS_OK;
fail:
    if (fd >= 0) close(fd);
    ls__free(ctx, bytes);
    return status;
}
