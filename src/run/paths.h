/* paths.h: what is at a path; links are followed. */
#ifndef LS_RUN_PATHS_H
#define LS_RUN_PATHS_H

#include <stdbool.h>

bool ls__path_exists(const char *path);
bool ls__is_folder(const char *path);
/* Whether a regular file is there; false for NULL. */
bool ls__is_file(const char *path);

#endif
