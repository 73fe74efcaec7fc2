/* file.h: files that appear whole or not at all: written beside their place, flushed, renamed. */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include <lockstep/context.h>
#include <stdio.h>

typedef struct ls__atomic_file ls__atomic_file;

/* Opens a temporary file in path's folder. Errors name the path and the system's reason. */
ls_status ls__atomic_file_open(ls_context *ctx, const char *path, ls__atomic_file **out);
ls_status ls__atomic_file_write(ls__atomic_file *file, const void *bytes, size_t size);
/* Flush to disk, rename into place, flush the folder. On any earlier or present failure nothing of
 * path is changed and the temporary file is gone. Frees *file and sets it to NULL either way. */
ls_status ls__atomic_file_commit(ls__atomic_file **file);
void ls__atomic_file_abandon(ls__atomic_file **file);

/* Reads a whole file into new memory from the context's allocator. max_bytes guards against
 * surprises. Thread-safe: on failure the status is returned and a text written to `message`; the
 * context is not touched. */
ls_status ls__read_file(const ls_context *ctx, const char *path, size_t max_bytes,
                        unsigned char **out, size_t *size, char *message, size_t message_size);

#endif
