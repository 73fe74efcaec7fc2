/* ranks.c: see ranks.h. */
#include "run/ranks.h"

#include "base/error.h"
#include "backend/module.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_in_path(const char *program)
{
    char path[PATH_MAX];
    for (const char *at = getenv("PATH"); at;) {
        const int n = (int)strcspn(at, ":");
        snprintf(path, sizeof(path), "%.*s/%s", n, at, program);
        if (access(path, X_OK) == 0) return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

ls_status ls__ranks_find_launcher(ls_context *ctx)
{
    const ls__module *module;
    if (!is_in_path("mpirun"))
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "several ranks require Open MPI: there is no mpirun in PATH");
    return ls__module_load(ctx, "communicator", "mpi", &module);
}

bool ls__ranks_is_first(void)
{
    const ls_launch launch = ls__launch_find();
    return !launch.variable || launch.n_ranks == 1 || launch.rank <= 0;
}
