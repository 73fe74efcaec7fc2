/* slice.c: dense copies of some channels of an activation. */
#include "cpu/onednn/slice.h"
#include <string.h>

ls__channels ls__channels_of(const ls__operand *activation)
{
    const int64_t *d = activation->shape.dims;
    const size_t element_bytes = ls_dtype_bytes(activation->dtype);
    return (ls__channels){ .images = d[0],
                           .pixels = d[1] * d[2],
                           .channels = d[3],
                           .block = activation->block,
                           .element_bytes = element_bytes,
                           .image_bytes = d[1] * d[2] * d[3] * (int64_t)element_bytes };
}

size_t ls__channels_bytes(const ls__channels *c, int64_t images)
{
    return (size_t)(images * c->pixels * c->count) * c->element_bytes;
}

/* The channels lie in runs of bytes: one per pixel in N,H,W,C, one per image in blocks. */
typedef struct runs {
    int64_t n, stride, offset;
    size_t length;
} runs;

static runs runs_of(const ls__channels *c)
{
    const int64_t bytes = (int64_t)c->element_bytes;
    if (c->block == c->channels)
        return (runs){ c->images * c->pixels, c->channels * bytes, c->first * bytes,
                       (size_t)(c->count * bytes) };
    return (runs){ c->images, c->image_bytes, c->first * c->pixels * bytes,
                   (size_t)(c->count * c->pixels * bytes) };
}

static void gather_planes(const ls__channels *c, const float *whole, float *copy)
{
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->count; i++)
            for (int64_t p = 0; p < c->pixels; p++)
                copy[(n * c->count + i) * c->pixels + p] =
                    whole[(n * c->pixels + p) * c->channels + c->first + i];
}

static void scatter_planes(const ls__channels *c, const float *copy, float *whole)
{
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t p = 0; p < c->pixels; p++)
            for (int64_t i = 0; i < c->count; i++)
                whole[(n * c->pixels + p) * c->channels + c->first + i] =
                    copy[(n * c->count + i) * c->pixels + p];
}

void ls__channels_gather(const ls__channels *c, const void *whole, void *copy)
{
    if (c->planar) {
        gather_planes(c, whole, copy);
        return;
    }
    const runs r = runs_of(c);
    for (int64_t i = 0; i < r.n; i++)
        memcpy((unsigned char *)copy + i * (int64_t)r.length,
               (const unsigned char *)whole + i * r.stride + r.offset, r.length);
}

void ls__channels_scatter(const ls__channels *c, const void *copy, void *whole)
{
    if (c->planar) {
        scatter_planes(c, copy, whole);
        return;
    }
    const runs r = runs_of(c);
    for (int64_t i = 0; i < r.n; i++)
        memcpy((unsigned char *)whole + i * r.stride + r.offset,
               (const unsigned char *)copy + i * (int64_t)r.length, r.length);
}
