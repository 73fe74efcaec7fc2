/* module.c: see module.h. */
#include "backend/module.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "comm/comm.h"
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_NAME_SIZE = 64 };

static const ls__host host = { .version = LS__MODULE_VERSION,
                               .lockstep = LS_VERSION,
                               .fail_v = ls__fail_v,
                               .warn = ls__warn,
                               .inform = ls__inform,
                               .has_error = ls__has_error,
                               .alloc = ls__alloc,
                               .zalloc = ls__zalloc,
                               .free = ls__free,
                               .comm_gather = ls__comm_gather,
                               .comm_fail_wait = ls__comm_fail_wait };

/* The folder of the library or program that contains this code. */
static bool find_own_folder(char *out, size_t size)
{
    Dl_info info;
    if (!dladdr(&host, &info) || !info.dli_fname) return false;
    char path[PATH_MAX];
    /* A program's name may be without a folder. */
    const bool program = !strchr(info.dli_fname, '/');
    if (!realpath(program ? "/proc/self/exe" : info.dli_fname, path)) return false;
    char *slash = strrchr(path, '/');
    if (!slash) return false;
    *slash = '\0';
    return snprintf(out, size, "%s", path) < (int)size;
}

/* dlopen of FOLDER/BELOW and FILE; BELOW is empty or ends in '/'. If the file exists but can't be
 * loaded, the error is in `reason`. */
static void *open_file(const char *folder, const char *below, const char *file, char *reason,
                       size_t size)
{
    char path[PATH_MAX];
    if (reason[0]) return NULL; /* another one could not be loaded */
    if (snprintf(path, sizeof(path), "%s/%s%s", folder, below, file) >= (int)sizeof(path))
        return NULL;
    if (access(path, F_OK) != 0) return NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const char *text = handle ? NULL : dlerror();
    if (text) ls__snprintf(reason, size, "%s", text);
    return handle;
}

static void *open_module(const char *file, char *reason, size_t size)
{
    const char *set = secure_getenv("LOCKSTEP_MODULES");
    void *handle = NULL;
    if (set && set[0]) {
        handle = open_file(set, "", file, reason, size);
        if (!handle && !reason[0])
            ls__snprintf(reason, size, "there is no %s in %.*s", file, LS__CUT(set, 200));
        return handle;
    }
    char own[PATH_MAX];
    if (find_own_folder(own, sizeof(own))) {
        static const char *const below[] = { "", "lockstep/",
                                             "../" LS__LIBRARY_FOLDER "/lockstep/" };
        for (int i = 0; !handle && i < 3; i++)
            handle = open_file(own, below[i], file, reason, size);
    }
    if (!handle) handle = open_file(LS__MODULE_FOLDER, "", file, reason, size);
    if (!handle && !reason[0])
        ls__snprintf(
            reason, size,
            "there is no %s beside the library or program, nor in the folder lockstep of its "
            "libraries, nor in %s",
            file, LS__MODULE_FOLDER);
    return handle;
}

ls_status ls__module_load(ls_context *ctx, const char *kind, const char *name,
                          const ls__module **out)
{
    char file[FILE_NAME_SIZE], reason[512] = "";
    snprintf(file, sizeof(file), "liblockstep_%s.so", name);
    void *handle = open_module(file, reason, sizeof(reason));
    if (!handle)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s '%s': its module can't be loaded: %s", kind,
                        name, reason);
    ls__module_open_fn *open = NULL;
    void *symbol = dlsym(handle, LS__MODULE_SYMBOL);
    memcpy(&open, &symbol, sizeof(open)); /* ISO C has no cast to a function pointer */
    if (!open)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED, "%s '%s': %s is not a Lockstep module", kind, name,
                        file);
    const ls__module *module = open(&host);
    if (module->version != LS__MODULE_VERSION || strcmp(module->lockstep, LS_VERSION) != 0)
        return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                        "%s '%s': %s belongs to Lockstep %.*s (module version %d), this is "
                        "%s (%d)",
                        kind, name, file, LS__CUT(module->lockstep, 40), module->version,
                        LS_VERSION, LS__MODULE_VERSION);
    *out = module;
    return LS_OK;
}
