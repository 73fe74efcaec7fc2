/* file.h: files that appear whole or not at all: written without a name, or with a temporary one
 * where the file system has no unnamed files, flushed, renamed. */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include "base/error.h"
#include <lockstep/context.h>

typedef struct ls__atomic_file ls__atomic_file;

/* Opens a temporary file in path's folder (O_TMPFILE: a killed process leaves nothing); a link is
 * followed to the file it names, which need not be there yet. What is there and no regular file (a
 * device, a pipe) is written straight. Errors name the path and the system's reason. */
ls_status ls__atomic_file_open(ls_context *ctx, const char *path, ls__atomic_file **out);
/* As ls__atomic_file_open, for the files of a run's folder, which someone else may have prepared: a
 * link at path is replaced, never followed, and what is there and no regular file is an error. */
ls_status ls__atomic_file_replace(ls_context *ctx, const char *path, ls__atomic_file **out);
/* Waits for all others that hold this lock, which is one of the file's folder and ends with the
 * file: for whoever reads what is there, and writes it back with something added. Where the file
 * system has no locks nothing happens. */
ls_status ls__atomic_file_lock(ls__atomic_file *file);
ls_status ls__atomic_file_write(ls__atomic_file *file, const void *bytes, size_t size);
/* Flush to disk, rename into place, flush the folder. On any earlier or present failure nothing of
 * path is changed and the temporary file is gone (only when the folder's flush fails, which is
 * reported, the new file is in place). Frees *file and sets it to NULL either way. */
ls_status ls__atomic_file_commit(ls__atomic_file **file);
void ls__atomic_file_abandon(ls__atomic_file **file);
/* Opens with ls__atomic_file_replace, writes all bytes and commits. */
ls_status ls__file_replace(ls_context *ctx, const char *path, const void *bytes, size_t size);
/* Flushes the names in a folder ("" is the current one) to disk. Returns 0, also on file systems
 * that cannot, or the system's error. */
int ls__folder_flush(const char *folder);
/* Is this the name, without folder, of a temporary file? A process that is killed within commit, or
 * where the file system has no unnamed files, leaves one behind. */
bool ls__atomic_file_is_temporary(const char *name);

/* Removes the temporary files in a folder ("" is the current one) that no live process is writing:
 * those that killed processes left. Returns 0 or the system's error. */
int ls__folder_sweep(const char *folder);
/* The same for the file's folder, as far as that can be done. */
void ls__atomic_file_sweep(const ls__atomic_file *file);

/* The status for an errno of opening or reading a file: LS_ERR_NOT_FOUND; LS_ERR_MEMORY;
 * LS_ERR_DEVICE where the process has no more file handles; else LS_ERR_IO. */
ls_status ls__file_status(int error);

/* Opens a regular file with open's `flags`; *size: its bytes. Returns at once where path is a pipe,
 * and follows no link at path when the file is to be written. On failure *fd is -1 and the reason
 * is in `reason`: "not a regular file", which is LS_ERR_IO, or the system's with the status of
 * ls__file_status. Thread-safe. */
ls_status ls__open_regular(const char *path, int flags, int *fd, int64_t *size,
                           char reason[LS__ERRNO_TEXT_SIZE]);

/* Reads a whole regular file into new memory from the context's allocator, with a 0 byte after its
 * end. max_bytes guards against surprises. Statuses are those of ls__open_regular, LS_ERR_DATA
 * beyond max_bytes, LS_ERR_MEMORY. Thread-safe: on
 * failure the status is returned and a text written to `message`; the context is not touched. */
ls_status ls__read_file(const ls_context *ctx, const char *path, size_t max_bytes,
                        unsigned char **out, size_t *size, char *message, size_t message_size);

#endif
