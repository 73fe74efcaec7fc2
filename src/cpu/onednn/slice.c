/* slice.c: dense copies of some channels of an activation. */
#include "cpu/onednn/slice.h"
#include <string.h>

ls__channels ls__channels_of(const ls__operand *activation)
{
    const int64_t *d = activation->shape.dims;
    return (ls__channels){ .images = d[0],
                           .pixels = d[1] * d[2],
                           .channels = d[3],
                           .block = activation->block,
                           .image_floats = d[1] * d[2] * d[3] };
}

int64_t ls__channels_floats(const ls__channels *c, int64_t images)
{
    return images * c->pixels * c->count;
}

/* The channels lie in runs: one per pixel in N,H,W,C, one per image in blocks. */
typedef struct runs {
    int64_t n, stride, offset;
    size_t length;
} runs;

static runs runs_of(const ls__channels *c)
{
    if (c->block == c->channels)
        return (runs){ c->images * c->pixels, c->channels, c->first, (size_t)c->count };
    return (runs){ c->images, c->image_floats, c->first * c->pixels,
                   (size_t)(c->count * c->pixels) };
}

void ls__channels_gather(const ls__channels *c, const float *whole, float *copy)
{
    if (c->planar) {
        for (int64_t n = 0; n < c->images; n++)
            for (int64_t i = 0; i < c->count; i++)
                for (int64_t p = 0; p < c->pixels; p++)
                    copy[(n * c->count + i) * c->pixels + p] =
                        whole[(n * c->pixels + p) * c->channels + c->first + i];
        return;
    }
    const runs r = runs_of(c);
    for (int64_t i = 0; i < r.n; i++)
        memcpy(copy + i * (int64_t)r.length, whole + i * r.stride + r.offset,
               r.length * sizeof(float));
}

void ls__channels_scatter(const ls__channels *c, const float *copy, float *whole)
{
    if (c->planar) {
        for (int64_t n = 0; n < c->images; n++)
            for (int64_t p = 0; p < c->pixels; p++)
                for (int64_t i = 0; i < c->count; i++)
                    whole[(n * c->pixels + p) * c->channels + c->first + i] =
                        copy[(n * c->count + i) * c->pixels + p];
        return;
    }
    const runs r = runs_of(c);
    for (int64_t i = 0; i < r.n; i++)
        memcpy(whole + i * r.stride + r.offset, copy + i * (int64_t)r.length,
               r.length * sizeof(float));
}
