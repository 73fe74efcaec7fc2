/* paths.c: see paths.h. */
#include "run/paths.h"

#include <stddef.h>
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
