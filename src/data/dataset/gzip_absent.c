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
        "'%s' is compressed by gzip, which a minimal build does not read; uncompress it "
        "by 'gunzip', or use a build without LOCKSTEP_MINIMAL",
        path);
}

/* None is open. */
void ls__gzip_close(ls__gzip **gzip)
{
    (void)gzip;
}

size_t ls__gzip_read(ls__gzip *gzip, void *out, size_t n)
{
    (void)gzip;
    (void)out;
    (void)n;
    return 0;
}

const char *ls__gzip_damage(const ls__gzip *gzip)
{
    (void)gzip;
    return NULL;
}

bool ls__gzip_out_of_memory(const ls__gzip *gzip)
{
    (void)gzip;
    return false;
}

size_t ls__gzip_rest(const ls__gzip *gzip)
{
    (void)gzip;
    return 0;
}
