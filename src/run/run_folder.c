/* run_folder.c: the folder of a run; see run_folder.h. */
#include "run/run_folder.h"

#include "base/alloc.h"
#include "base/error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool ls__run_folder_holds_run(const char *dir)
{
    char path[4096];
    const int length = snprintf(path, sizeof(path), "%s/config.json", dir);
    return length > 0 && (size_t)length < sizeof(path) && access(path, F_OK) == 0;
}

/* mkdir -p; `path` is changed on the way and is itself again at the end. */
static int make_folders(char *path)
{
    for (char *at = path + 1; *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        const int answer = mkdir(path, 0777);
        *at = '/';
        if (answer != 0 && errno != EEXIST) return errno;
    }
    if (mkdir(path, 0777) == 0) return 0;
    const int error = errno;
    struct stat there;
    return error == EEXIST && stat(path, &there) == 0 && S_ISDIR(there.st_mode) ? 0 : error;
}

ls_status ls__run_folder_create(ls_context *ctx, const char *dir)
{
    if (ls__run_folder_holds_run(dir))
        return ls__fail(ctx, LS_ERR_INVALID, "run folder '%s': holds a run already", dir);
    char *path = ls__strdup(ctx, dir);
    if (!path) return ls__fail_memory(ctx, dir, strlen(dir) + 1);
    const int error = *path ? make_folders(path) : ENOENT;
    ls__free(ctx, path);
    char reason[LS__ERRNO_TEXT_SIZE];
    return error == 0 ? LS_OK
                      : ls__fail(ctx, LS_ERR_IO, "run folder '%s': %s", dir,
                                 ls__errno_text(error, reason, sizeof(reason)));
}
