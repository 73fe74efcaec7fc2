/* gzip.c: see gzip.h. */
#include "data/dataset/gzip.h"

#include "base/alloc.h"
#include "base/error.h"
#include <string.h>
#include <zlib.h>

struct ls__gzip {
    ls_context *ctx;
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

size_t ls__gzip_read(ls__gzip *gzip, void *out, size_t n)
{
    z_stream *stream = &gzip->stream;
    stream->next_out = out;
    stream->avail_out = (uInt)n;
    while (stream->avail_out > 0 && gzip->result == Z_OK)
        gzip->result = inflate(stream, Z_NO_FLUSH);
    return n - stream->avail_out;
}

const char *ls__gzip_damage(const ls__gzip *gzip)
{
    if (gzip->result == Z_STREAM_END) return NULL;
    if (gzip->result != Z_DATA_ERROR) return "it is truncated";
    const char *reason = gzip->stream.msg ? gzip->stream.msg : "";
    const bool checksum = strcmp(reason, "incorrect data check") == 0; /* zlib's text */
    return checksum ? "the checksum of its data is wrong" : reason;
}

bool ls__gzip_out_of_memory(const ls__gzip *gzip)
{
    return gzip->result == Z_MEM_ERROR;
}

size_t ls__gzip_rest(const ls__gzip *gzip)
{
    return gzip->stream.avail_in;
}
