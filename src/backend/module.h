/* module.h: backends and communicators in shared objects, which are opened when a context names
 * them. A module calls the core through a table of functions, because a static program exports no
 * symbols. */
#ifndef LS_BACKEND_MODULE_H
#define LS_BACKEND_MODULE_H

#include <lockstep/context.h>
#include <stdarg.h>

struct ls__backend;
struct ls__comm;

/* Changes with the two tables below and their types, which are in backend/backend.h,
 * backend/ops.h, comm/comm.h and base/context.h. */
enum { LS__MODULE_VERSION = 11 };

/* The core's functions for a module, with the names that they have in base/ and comm/. */
typedef struct ls__host {
    int version;          /* LS__MODULE_VERSION */
    const char *lockstep; /* ls_version() */
    ls_status (*fail_v)(ls_context *ctx, ls_status status, const char *format, va_list args);
    void (*warn)(ls_context *ctx, ls_log_category category, const char *format, ...)
        LS_PRINTF(3, 4);
    void (*inform)(ls_context *ctx, ls_log_category category, const char *format, ...)
        LS_PRINTF(3, 4);
    bool (*has_error)(const ls_context *ctx);
    void *(*alloc)(const ls_context *ctx, size_t bytes);
    void *(*zalloc)(const ls_context *ctx, size_t bytes);
    void (*free)(const ls_context *ctx, void *memory);
    ls_status (*comm_gather)(struct ls__comm *comm, const void *own, size_t bytes, void *all,
                             const char *what);
    ls_status (*comm_fail_wait)(struct ls__comm *comm, const char *what);
} ls__host;

/* A module's description. It gives a backend or a communicator. */
typedef struct ls__module {
    int version;          /* LS__MODULE_VERSION of its build */
    const char *lockstep; /* ls_version() of its build */
    const struct ls__backend *backend;
    /* Opens a communicator of all ranks. */
    ls_status (*comm_open)(ls_context *ctx, struct ls__comm **out);
} ls__module;

/* The only exported symbol of a module. It must compare the versions before it reads the rest of
 * host. */
#define LS__MODULE_SYMBOL "ls__module_open"
#define LS__MODULE_EXPORT __attribute__((visibility("default")))
typedef const ls__module *ls__module_open_fn(const ls__host *host);

/* Module liblockstep_NAME.so, which stays loaded. `kind` is for errors: "device 'cuda'". If the
 * environment variable LOCKSTEP_MODULES is set, only that folder is searched. Otherwise: the folder
 * of the library or program with this code, `lockstep` in the library folder of its installation,
 * and in that of the prefix of the build. LS_ERR_UNSUPPORTED, with the reason, if there is none or
 * its version differs. */
ls_status ls__module_load(ls_context *ctx, const char *kind, const char *name,
                          const ls__module **out);

/* ls_launch_find, also for modules, which have their own copy: what launchers of MPI programs
 * (mpirun, srun) tell their processes by environment variables, which every MPI library reads only
 * from its own launchers. */
ls_launch ls__launch_find(void);

#endif
