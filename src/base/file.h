/* file.h: atomic files, which appear whole or not at all. They are written without a name, or with
 * a temporary name if the file system has no unnamed files, then flushed and renamed. */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include "base/error.h"
#include <lockstep/context.h>

typedef struct ls__atomic_file ls__atomic_file;

/* Opens a temporary file in the folder of `path` (O_TMPFILE: none remains if the process is
 * killed). Links are followed; the target need not exist. An existing target that is not a regular
 * file (a device, a pipe) is written directly. Errors name the path and the system's reason. */
ls_status ls__atomic_file_open(ls_context *ctx, const char *path, ls__atomic_file **out);
/* Opens a file of a run's folder, which another user may have prepared: a link at `path` is
 * replaced, never followed, and an existing target that is not a regular file is an error. */
ls_status ls__atomic_file_replace(ls_context *ctx, const char *path, ls__atomic_file **out);
/* Locks the file's folder until the file is committed or abandoned; waits while another process
 * holds the lock. For a process that reads a file and replaces it by an extended version. Does
 * nothing if the file system has no locks. */
ls_status ls__atomic_file_lock(ls__atomic_file *file);
ls_status ls__atomic_file_write(ls__atomic_file *file, const void *bytes, size_t size);
/* Flushes the file to disk, renames it and flushes the folder. After any failure, also of an
 * earlier write, `path` is unchanged and the temporary file is removed; only if the flush of the
 * folder fails, which is an error too, the new file is in place. Frees *file and sets it to NULL.
 */
ls_status ls__atomic_file_commit(ls__atomic_file **file);
/* Commits after a success; otherwise abandons the file and returns `status`. */
ls_status ls__atomic_file_finish(ls__atomic_file **file, ls_status status);
/* Removes the temporary file, frees *file and sets it to NULL. */
void ls__atomic_file_abandon(ls__atomic_file **file);
/* Opens with ls__atomic_file_replace, writes all bytes and commits. */
ls_status ls__file_replace(ls_context *ctx, const char *path, const void *bytes, size_t size);
/* Flushes the names in a folder ("" is the current one) to disk. Returns 0 or the system's error; 0
 * on file systems without this operation. */
int ls__folder_flush(const char *folder);
/* True for the name, without folder, of a temporary file. One remains if a process is killed within
 * commit, or on a file system without unnamed files. */
bool ls__atomic_file_is_temporary(const char *name);

/* Removes the temporary files of killed processes from a folder ("" is the current one). Returns 0
 * or the system's error. */
int ls__folder_sweep(const char *folder);
/* Sweeps the file's folder; ignores errors. */
void ls__atomic_file_sweep(const ls__atomic_file *file);

/* The status for an errno of opening or reading a file: LS_ERR_NOT_FOUND; LS_ERR_MEMORY;
 * LS_ERR_DEVICE if the process has no more file handles; else LS_ERR_IO. */
ls_status ls__file_status(int error);

/* Opens a regular file with open's `flags`; *size is in bytes. Does not wait if `path` is a pipe.
 * With write access, and with O_NOFOLLOW, a link at `path` is an error. On failure *fd is -1 and
 * `reason` is "not a regular file" (LS_ERR_IO, errno 0), or the system's reason with the status of
 * ls__file_status and its errno. Thread-safe. */
ls_status ls__open_regular(const char *path, int flags, int *fd, int64_t *size,
                           char reason[LS__ERRNO_TEXT_SIZE]);

/* Reads a whole regular file into new memory from the context's allocator and appends a 0 byte.
 * Statuses are those of ls__open_regular, LS_ERR_DATA beyond max_bytes, LS_ERR_MEMORY. Thread-safe:
 * a failure is described in `message` and does not change the context. */
ls_status ls__read_file(const ls_context *ctx, const char *path, size_t max_bytes,
                        unsigned char **out, size_t *size, char *message, size_t message_size);

/* Reads a file in a run's folder, which others may have prepared: a link at `path` is an error, so
 * that no page shows a file from elsewhere. */
ls_status ls__read_own_file(const ls_context *ctx, const char *path, size_t max_bytes,
                            unsigned char **out, size_t *size, char *message, size_t message_size);

#endif
