/* gzip.c: see gzip.h. */
#include "data/dataset/gzip.h"

#include "base/alloc.h"
#include "base/error.h"
#include <stdbool.h>
#include <string.h>
#include <zlib.h>

struct ls__gzip {
    ls_context *ctx;
    const char *path;
    z_stream stream;
    int result; /* of the last inflate */
};

static void *allocate(void *ctx, uInt n, uInt size)
{
    return ls__alloc(ctx, (size_t)n * size);
}

static void release(void *ctx, void *memory)
{
    ls__free(ctx, memory);
}

ls_status ls__gzip_open(ls_context *ctx, const char *path, unsigned char *bytes, size_t n,
                        ls__gzip **out)
{
    enum { GZIP_WINDOW = 15 + 16 }; /* of inflateInit2: 32 KiB, with gzip's header and checksum */
    ls__gzip *gzip = ls__zalloc(ctx, sizeof(*gzip));
    if (!gzip) return ls__fail_memory(ctx, path, sizeof(*gzip));
    gzip->ctx = ctx;
    gzip->path = path;
    gzip->stream = (z_stream){
        .next_in = bytes, .avail_in = (uInt)n, .zalloc = allocate, .zfree = release, .opaque = ctx
    };
    if (inflateInit2(&gzip->stream, GZIP_WINDOW) != Z_OK) {
        ls__free(ctx, gzip);
        return ls__fail_memory(ctx, path, n);
    }
    *out = gzip;
    return LS_OK;
}

void ls__gzip_close(ls__gzip **gzip)
{
    if (!*gzip) return;
    inflateEnd(&(*gzip)->stream);
    ls__free((*gzip)->ctx, *gzip);
    *gzip = NULL;
}

/* After a member: begins the next one. *more is false at the end of the file. */
static ls_status begin_member(ls__gzip *gzip, bool *more)
{
    z_stream *stream = &gzip->stream;
    *more = stream->avail_in > 0;
    if (!*more) return LS_OK;
    if (stream->avail_in < 2 || stream->next_in[0] != 0x1f || stream->next_in[1] != 0x8b)
        return ls__fail(gzip->ctx, LS_ERR_DATA,
                        "idx file '%s': a damaged gzip file: %u more bytes follow its end",
                        gzip->path, stream->avail_in);
    inflateReset(stream);
    gzip->result = Z_OK;
    return LS_OK;
}

static ls_status fail_damaged(const ls__gzip *gzip)
{
    const char *reason = gzip->stream.msg ? gzip->stream.msg : "";
    if (gzip->result == Z_MEM_ERROR) return ls__fail_memory(gzip->ctx, gzip->path, 0);
    if (gzip->result != Z_DATA_ERROR) reason = "it is truncated";
    if (strcmp(reason, "incorrect data check") == 0) /* zlib's text */
        reason = "the checksum of its data is wrong";
    return ls__fail(gzip->ctx, LS_ERR_DATA, "idx file '%s': a damaged gzip file: %s", gzip->path,
                    reason);
}

ls_status ls__gzip_read(ls__gzip *gzip, void *out, size_t n, size_t *got)
{
    z_stream *stream = &gzip->stream;
    stream->next_out = out;
    stream->avail_out = (uInt)n;
    for (bool more = true; more && stream->avail_out > 0;) {
        if (gzip->result == Z_STREAM_END) LS_TRY(begin_member(gzip, &more));
        if (more) gzip->result = inflate(stream, Z_NO_FLUSH);
        if (gzip->result != Z_OK && gzip->result != Z_STREAM_END) return fail_damaged(gzip);
    }
    *got = n - stream->avail_out;
    return LS_OK;
}
