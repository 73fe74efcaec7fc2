/* paths.c: see paths.h. */
#include "run/paths.h"

#include <lockstep/run.h>
#include <stdio.h>
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

bool ls_run_find_weights(const char *path, char *out, size_t size)
{
    static const char *const names[] = { "best.safetensors", "last.safetensors" };
    const bool is_folder = ls__is_folder(path);
    for (int i = 0; i < 2 && is_folder; i++)
        if ((size_t)snprintf(out, size, "%s/%s", path, names[i]) < size && ls__is_file(out))
            return true;
    return (size_t)snprintf(out, size, "%s", path) < size && !is_folder;
}
