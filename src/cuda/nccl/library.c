/* library.c: see library.h. */
#include "cuda/nccl/library.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char file[] = "libnccl.so.2";
static pthread_once_t once = PTHREAD_ONCE_INIT;
static ls__nccl library;
static bool usable;
static char reason_or_path[512];

static const struct {
    const char *name;
    void *loaded;
} functions[] = {
    { "ncclGetVersion", &library.get_version },
    { "ncclGetErrorString", &library.get_error_string },
    { "ncclGetLastError", &library.get_last_error },
    { "ncclGetUniqueId", &library.get_unique_id },
    { "ncclCommInitRankConfig", &library.comm_init_rank_config },
    { "ncclCommGetAsyncError", &library.comm_get_async_error },
    { "ncclCommFinalize", &library.comm_finalize },
    { "ncclCommDestroy", &library.comm_destroy },
    { "ncclCommAbort", &library.comm_abort },
    { "ncclGroupStart", &library.group_start },
    { "ncclGroupEnd", &library.group_end },
    { "ncclSend", &library.send },
    { "ncclRecv", &library.recv },
};

/* The version is checked before functions are searched for, because an old version may lack some of
 * them. */
static bool check_version(void *handle)
{
    void *symbol = dlsym(handle, "ncclGetVersion");
    int (*get_version)(int *version) = NULL;
    memcpy(&get_version, &symbol, sizeof(symbol)); /* ISO C has no cast to a function pointer */
    if (!get_version || get_version(&library.version) != LS__NCCL_SUCCESS ||
        library.version >= LS__NCCL_MIN_VERSION)
        return true;
    /* Before 2.9 a version was 1000 * major + 100 * minor + patch. */
    const int v = library.version, unit = v < 10000 ? 1000 : 10000;
    snprintf(reason_or_path, sizeof(reason_or_path),
             "%s is NCCL %d.%d.%d, %d.%d or later is required", file, v / unit, v % unit / 100,
             v % 100, LS__NCCL_MIN_VERSION / 10000, LS__NCCL_MIN_VERSION / 100 % 100);
    return false;
}

static void load_nccl(void)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *reason = dlerror();
        snprintf(reason_or_path, sizeof(reason_or_path), "%s; NCCL %d.%d or later is required",
                 reason ? reason : file, LS__NCCL_MIN_VERSION / 10000,
                 LS__NCCL_MIN_VERSION / 100 % 100);
        return;
    }
    if (!check_version(handle)) return;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *symbol = dlsym(handle, functions[i].name);
        if (!symbol) {
            snprintf(reason_or_path, sizeof(reason_or_path), "%s has no %s", file,
                     functions[i].name);
            return;
        }
        memcpy(functions[i].loaded, &symbol, sizeof(symbol));
        Dl_info info;
        if (dladdr(symbol, &info))
            snprintf(reason_or_path, sizeof(reason_or_path), "%s", info.dli_fname);
    }
    usable = true;
}

const ls__nccl *ls__nccl_load(char *text, size_t size)
{
    (void)pthread_once(&once, load_nccl);
    snprintf(text, size, "%s", reason_or_path);
    return usable ? &library : NULL;
}
