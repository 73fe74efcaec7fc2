/* path.c: see path.h. */
#include "base/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ls__path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool ls__is_folder(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

bool ls__is_file(const char *path)
{
    struct stat there;
    return path && stat(path, &there) == 0 && S_ISREG(there.st_mode);
}

bool ls__path_join(char *out, size_t size, const char *dir, const char *name)
{
    return (size_t)snprintf(out, size, "%s/%s", dir, name) < size;
}

void ls__path_trim(char *path)
{
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--) path[n - 1] = '\0';
}
