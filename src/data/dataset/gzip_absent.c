/* gzip_absent.c: in place of gzip.c in a minimal build, which does not link zlib. */
#include "data/dataset/gzip.h"

#include "base/error.h"

ls_status ls__gzip_open(ls_context *ctx, const char *path, unsigned char *bytes, size_t n,
                        ls__gzip **out)
{
    (void)bytes;
    (void)n;
    (void)out;
    return ls__fail(
        ctx, LS_ERR_UNSUPPORTED,
        "idx file '%s': compressed by gzip, which a minimal build does not read; uncompress it "
        "by 'gunzip', or use a build without LOCKSTEP_MINIMAL",
        path);
}

/* None is open. */
ls_status ls__gzip_read(ls__gzip *gzip, void *out, size_t n, size_t *got)
{
    (void)gzip;
    (void)out;
    (void)n;
    (void)got;
    return LS_ERR_UNSUPPORTED;
}

void ls__gzip_close(ls__gzip **gzip)
{
    (void)gzip;
}
