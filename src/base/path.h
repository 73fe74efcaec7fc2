/* path.h: paths, and what is at them; links are followed. */
#ifndef LS_BASE_PATH_H
#define LS_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

bool ls__path_exists(const char *path);
bool ls__is_folder(const char *path);
/* Whether a regular file is there; false for NULL. */
bool ls__is_file(const char *path);

/* Writes "DIR/NAME" to `out`; false if it has `size` bytes or more. */
bool ls__path_join(char *out, size_t size, const char *dir, const char *name);
/* Removes the slashes at the end of a path, other than that of "/". */
void ls__path_trim(char *path);

#endif
