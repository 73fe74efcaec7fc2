/* paths.c: finds the weights of a run. */
#include "base/path.h"
#include <lockstep/run.h>
#include <stdio.h>

bool ls_run_find_weights(const char *path, char *out, size_t size)
{
    static const char *const names[] = { "best.safetensors", "last.safetensors" };
    const bool is_folder = ls__is_folder(path);
    for (int i = 0; i < 2 && is_folder; i++)
        if ((size_t)snprintf(out, size, "%s/%s", path, names[i]) < size && ls__is_file(out))
            return true;
    return (size_t)snprintf(out, size, "%s", path) < size && !is_folder;
}
