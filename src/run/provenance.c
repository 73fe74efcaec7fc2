/* provenance.c: see run_files.h. The build's facts are this file's compile definitions. */
#include "run/run_files.h"

#include "base/context.h"
#include "base/isa.h"
#include "backend/backend.h"
#include "data/decode/decoder.h"
#include "io/json.h"
#include <sys/utsname.h>
#include <time.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

json_t *ls__provenance_make(const ls_context *ctx)
{
    struct utsname system = { 0 };
    struct tm utc;
    char begun[32] = "";
    const time_t now = time(NULL);
    uname(&system);
    if (gmtime_r(&now, &utc)) strftime(begun, sizeof(begun), "%Y-%m-%dT%H:%M:%SZ", &utc);
    const ls__backend *backend = ctx->device->backend;
    const char *driver = backend->driver ? backend->driver(ctx->device) : NULL;
    char webp[LS__WEBP_VERSION_SIZE];
    ls__webp_version(webp);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s++, s:s, s:s, s:s*}", "lockstep",
                     ls_version(), "commit", LOCKSTEP_COMMIT, "compiler", COMPILER, "flags",
                     LOCKSTEP_FLAGS, "jpeg", ls__jpeg_version(), "webp", webp, "host",
                     ls__json_text(ctx, system.nodename), "system", system.sysname, " ",
                     system.release, "instructions", ls__isa_name(ls__isa_detect()), "begun", begun,
                     "driver", driver);
}
