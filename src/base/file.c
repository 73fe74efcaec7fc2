/* file.c: whole-file writing and reading. */
#include "base/file.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "base/write.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The system's own limit. */
enum { MAX_LINKS = 40 };

#define NOT_REGULAR "not a regular file"

struct ls__atomic_file {
    ls_context *ctx;
    char *path;      /* the user's, for messages */
    char *target;    /* links followed */
    char *folder;    /* of target, with its last slash; "" = the current one */
    char *temporary; /* the file's name until commit; NULL = unnamed */
    bool direct;     /* fd is target itself, which is not a regular file */
    int fd, lock_fd;
    bool failed; /* a write failed, so commit must fail */
};

static ls_status fail_writing(const ls__atomic_file *f, int error)
{
    return ls__fail_errno(f->ctx, error, "writing '%s'", f->path);
}

void ls__atomic_file_abandon(ls__atomic_file **file)
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

/* The target of the link at `path`; NULL if it is not a link. */
static char *follow(ls_context *ctx, const char *path)
{
    char name[PATH_MAX];
    const ssize_t n = readlink(path, name, sizeof(name));
    if (n <= 0 || n == sizeof(name)) return NULL;
    const char *slash = *name == '/' ? NULL : strrchr(path, '/');
    return ls__format(ctx, "%.*s%.*s", slash ? (int)(slash - path) + 1 : 0, path, (int)n, name);
}

/* The path to write: `path`, or the target of a link there, which need not exist. */
static char *resolve_path(ls_context *ctx, const char *path, bool replaces_link)
{
    char *target = ls__strdup(ctx, path);
    for (int i = 0; !replaces_link && target && i < MAX_LINKS; i++) {
        char *next = follow(ctx, target);
        if (!next) break;
        ls__free(ctx, target);
        target = next;
    }
    return target;
}

/* An unnamed file gets its name through /proc, which may not be mounted. */
enum { PROC_PATH_SIZE = 32 };
static const char *proc_path(int fd, char buffer[PROC_PATH_SIZE])
{
    snprintf(buffer, PROC_PATH_SIZE, "/proc/self/fd/%d", fd);
    return buffer;
}

/* Opens a file without a name, which vanishes with the process. -1 if the file system has none. */
static int open_unnamed(const char *folder)
{
    char path[PROC_PATH_SIZE];
    const int fd = open(*folder ? folder : ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    if (fd < 0 || access(proc_path(fd, path), F_OK) == 0) return fd;
    close(fd);
    return -1;
}

/* Locks a named temporary file, because ls__folder_sweep removes unlocked ones. False if it was
 * removed between open and here. Without locks in the file system nothing is removed. */
static bool lock_temporary(int fd)
{
    struct stat there;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
    return fstat(fd, &there) != 0 || there.st_nlink > 0;
}

/* Creates the file named f->temporary. Returns 0 or the system's error; EEXIST: the name is taken.
 */
static int make_temporary(ls__atomic_file *f)
{
    char path[PROC_PATH_SIZE];
    if (f->fd >= 0) {
        const char *unnamed = proc_path(f->fd, path);
        flock(f->fd, LOCK_EX | LOCK_NB);
        const int flags = AT_SYMLINK_FOLLOW;
        return linkat(AT_FDCWD, unnamed, AT_FDCWD, f->temporary, flags) == 0 ? 0 : errno;
    }
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (f->fd < 0) return errno;
    if (lock_temporary(f->fd)) return 0;
    close(f->fd);
    f->fd = -1;
    return EEXIST;
}

/* Gives the open file a temporary name, or opens a file with such a name. */
static ls_status name_temporary(ls__atomic_file *f)
{
    /* The name is short, because the target's may have the maximum length. O_EXCL and linkat reject
     * names that are taken. */
    for (int attempt = 0; attempt < 1000; attempt++) {
        f->temporary =
            ls__format(f->ctx, "%s.lockstep-%ld-%d.tmp", f->folder, (long)getpid(), attempt);
        if (!f->temporary) return ls__fail_memory(f->ctx, f->path, strlen(f->folder) + 64);
        const int error = make_temporary(f);
        if (error == 0) return LS_OK;
        ls__free(f->ctx, f->temporary);
        f->temporary = NULL;
        if (error != EEXIST) return fail_writing(f, error);
    }
    return fail_writing(f, EEXIST);
}

/* Sets target and folder. Returns the file's name in the folder; NULL if memory is short. */
static const char *find_place(ls__atomic_file *f, const char *path, bool replaces_link)
{
    f->path = ls__strdup(f->ctx, path);
    f->target = resolve_path(f->ctx, path, replaces_link);
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
    /* a link that is replaced may have any target */
    const bool found = replaces_link ? lstat(f->target, &there) == 0 : stat(f->path, &there) == 0;
    const bool exists = found && !S_ISLNK(there.st_mode);
    if (exists && S_ISDIR(there.st_mode)) return fail_writing(f, EISDIR);
    if (exists && !S_ISREG(there.st_mode) && replaces_link)
        return ls__fail(f->ctx, LS_ERR_IO, "writing '%s': " NOT_REGULAR, f->path);
    if (exists && !S_ISREG(there.st_mode)) {
        f->direct = true; /* by its path: the target of /dev/stdout may be "pipe:[123]" */
        f->fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        if (f->fd < 0 || fcntl(f->fd, F_SETFL, O_WRONLY) != 0) return fail_writing(f, errno);
        return LS_OK;
    }
    if (*name == '\0') return fail_writing(f, ENOENT);
    if (!replaces_link && lstat(f->target, &there) == 0 && S_ISLNK(there.st_mode))
        return fail_writing(f, ELOOP);
    f->fd = open_unnamed(f->folder);
    return f->fd >= 0 ? LS_OK : name_temporary(f);
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
        ls__atomic_file_abandon(&f);
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
    const int error = ls__write(file->fd, bytes, size, -1);
    if (error == 0) return LS_OK;
    file->failed = true;
    return fail_writing(file, error);
}

static int open_folder(const char *folder)
{
    return open(*folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

ls_status ls__atomic_file_lock(ls__atomic_file *file)
{
    if (file->direct) return LS_OK;
    file->lock_fd = open_folder(file->folder);
    if (file->lock_fd < 0)
        return ls__fail_errno(file->ctx, errno, "locking the folder of '%s'", file->path);
    while (flock(file->lock_fd, LOCK_EX) != 0 && errno == EINTR) continue;
    return LS_OK;
}

/* EINVAL: the file system has no flush of folders. */
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

static ls_status put_in_place(ls__atomic_file *f, int folder_fd)
{
    if (folder_fd < 0 || fsync(f->fd) != 0) return fail_writing(f, errno);
    if (!f->temporary) LS_TRY(name_temporary(f));
    if (rename(f->temporary, f->target) != 0) return fail_writing(f, errno);
    ls__free(f->ctx, f->temporary);
    f->temporary = NULL;
    if (flush_folder(folder_fd)) return LS_OK;
    return ls__fail_errno(f->ctx, errno, "flushing the folder of '%s'", f->path);
}

ls_status ls__atomic_file_commit(ls__atomic_file **file)
{
    ls__atomic_file *f = *file;
    if (!f) return LS_ERR_IO;
    ls_status status = LS_OK;
    if (f->failed) {
        status = LS_ERR_IO; /* its error is already stored */
    } else if (!f->direct) {
        const int folder_fd = open_folder(f->folder);
        status = put_in_place(f, folder_fd);
        if (folder_fd >= 0) close(folder_fd);
    }
    ls__atomic_file_abandon(file);
    return status;
}

ls_status ls__atomic_file_finish(ls__atomic_file **file, ls_status status)
{
    if (status == LS_OK) return ls__atomic_file_commit(file);
    ls__atomic_file_abandon(file);
    return status;
}

ls_status ls__file_replace(ls_context *ctx, const char *path, const void *bytes, size_t size)
{
    ls__atomic_file *file;
    LS_TRY(ls__atomic_file_replace(ctx, path, &file));
    return ls__atomic_file_finish(&file, ls__atomic_file_write(file, bytes, size));
}

bool ls__atomic_file_is_temporary(const char *name)
{
    long process;
    int attempt, end = 0;
    return sscanf(name, ".lockstep-%ld-%d.tmp%n", &process, &attempt, &end) == 2 && end > 0 &&
           name[end] == '\0';
}

/* Removes one temporary file unless a process holds its lock. Returns 0 or the system's error. */
static int sweep(int folder_fd, const char *name)
{
    /* O_RDWR: network file systems lock only files that are open for writing */
    const int fd = openat(folder_fd, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return 0;
    const bool is_free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    const int error = is_free && unlinkat(folder_fd, name, 0) != 0 && errno != ENOENT ? errno : 0;
    close(fd);
    return error;
}

int ls__folder_sweep(const char *dir)
{
    const int fd = open_folder(dir);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        const int error = errno;
        if (fd >= 0) close(fd);
        return error;
    }
    int error = 0;
    for (const struct dirent *file; error == 0 && (file = readdir(folder));)
        if (ls__atomic_file_is_temporary(file->d_name)) error = sweep(fd, file->d_name);
    closedir(folder);
    return error;
}

void ls__atomic_file_sweep(const ls__atomic_file *file)
{
    if (!file->direct) ls__folder_sweep(file->folder);
}

/* ---- Reading ---- */

ls_status ls__file_status(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return LS_ERR_NOT_FOUND;
    case ENOMEM: return LS_ERR_MEMORY;
    case EMFILE:
    case ENFILE: return LS_ERR_DEVICE;
    default: return LS_ERR_IO;
    }
}

ls_status ls__open_regular(const char *path, int flags, int *fd, int64_t *size,
                           char reason[LS__ERRNO_TEXT_SIZE])
{
    struct stat there;
    if ((flags & O_ACCMODE) != O_RDONLY) flags |= O_NOFOLLOW;
    const bool follows = (flags & O_NOFOLLOW) == 0;
    const char *kind = NOT_REGULAR;
    int error = 0;
    /* O_NONBLOCK: opening a pipe must not wait for its other end */
    do {
        *fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0666);
    } while (*fd < 0 && errno == EINTR);
    if (*fd < 0 || fstat(*fd, &there) != 0) error = errno;
    if (error == 0 && S_ISREG(there.st_mode)) {
        *size = there.st_size;
        return LS_OK;
    }
    if (error == ELOOP && !follows) kind = "a symbolic link; expected a regular file";
    const bool has_kind = error == 0 || error == ENXIO || (error == ELOOP && !follows);
    char text[LS__ERRNO_TEXT_SIZE];
    snprintf(reason, LS__ERRNO_TEXT_SIZE, "%s",
             has_kind ? kind : ls__errno_text(error, text, sizeof(text)));
    if (*fd >= 0) close(*fd);
    *fd = -1;
    errno = has_kind ? 0 : error;
    return ls__file_status(error);
}

static ls_status read_whole_file(const ls_context *ctx, const char *path, int flags,
                                 size_t max_bytes, unsigned char **out, size_t *size, char *message,
                                 size_t message_size)
{
    *out = NULL;
    *size = 0;
    unsigned char *bytes = NULL;
    char reason[LS__ERRNO_TEXT_SIZE], text[LS__ERRNO_TEXT_SIZE];
    int fd;
    int64_t file_bytes = 0;
    ls_status status = ls__open_regular(path, O_RDONLY | flags, &fd, &file_bytes, reason);
    if (status == LS_OK && (uintmax_t)file_bytes > max_bytes) {
        snprintf(reason, sizeof(reason), "%jd bytes, at most %zu are allowed", (intmax_t)file_bytes,
                 max_bytes);
        status = LS_ERR_DATA;
    }
    const size_t n_bytes = status == LS_OK ? (size_t)file_bytes : 0;
    if (status == LS_OK && n_bytes < SIZE_MAX) bytes = ls__alloc(ctx, n_bytes + 1);
    if (status == LS_OK && !bytes) {
        snprintf(reason, sizeof(reason), "out of memory, %zu bytes requested", n_bytes);
        status = LS_ERR_MEMORY;
    }
    for (size_t done = 0; status == LS_OK && done < n_bytes;) {
        const ssize_t n = read(fd, bytes + done, n_bytes - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0 || errno != EINTR) { /* n == 0: the file was truncated during the read */
            const int error = n == 0 ? EIO : errno;
            snprintf(reason, sizeof(reason), "%s", ls__errno_text(error, text, sizeof(text)));
            status = LS_ERR_IO;
        }
    }
    if (fd >= 0) close(fd);
    if (status != LS_OK) {
        ls__snprintf(message, message_size, "reading '%s': %s", path, reason);
        ls__free(ctx, bytes);
        return status;
    }
    bytes[n_bytes] = 0;
    *out = bytes;
    *size = n_bytes;
    return LS_OK;
}

ls_status ls__read_file(const ls_context *ctx, const char *path, size_t max_bytes,
                        unsigned char **out, size_t *size, char *message, size_t message_size)
{
    return read_whole_file(ctx, path, 0, max_bytes, out, size, message, message_size);
}

ls_status ls__read_own_file(const ls_context *ctx, const char *path, size_t max_bytes,
                            unsigned char **out, size_t *size, char *message, size_t message_size)
{
    return read_whole_file(ctx, path, O_NOFOLLOW, max_bytes, out, size, message, message_size);
}
