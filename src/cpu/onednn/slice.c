/* slice.c: see slice.h. */
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

static void gather_planes(const ls__channels *c, float *whole, float *copy)
{
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t i = 0; i < c->count; i++)
            for (int64_t p = 0; p < c->pixels; p++)
                copy[(n * c->count + i) * c->pixels + p] =
                    whole[(n * c->pixels + p) * c->channels + c->first + i];
}

static void scatter_planes(const ls__channels *c, float *whole, float *copy)
{
    for (int64_t n = 0; n < c->images; n++)
        for (int64_t p = 0; p < c->pixels; p++)
            for (int64_t i = 0; i < c->count; i++)
                whole[(n * c->pixels + p) * c->channels + c->first + i] =
                    copy[(n * c->count + i) * c->pixels + p];
}

void ls__channels_copy(const ls__channels *c, void *whole, void *copy, bool gather)
{
    if (c->planar) {
        (gather ? gather_planes : scatter_planes)(c, whole, copy);
        return;
    }
    /* The channels are runs of bytes: one per pixel in N,H,W,C, one per image in blocks. */
    const bool nhwc = c->block == c->channels;
    const int64_t n = nhwc ? c->images * c->pixels : c->images;
    const int64_t channel_bytes = (nhwc ? 1 : c->pixels) * (int64_t)c->element_bytes;
    const int64_t run_bytes = c->count * channel_bytes, stride = c->channels * channel_bytes;
    for (int64_t i = 0; i < n; i++) {
        unsigned char *in_whole = (unsigned char *)whole + i * stride + c->first * channel_bytes;
        unsigned char *in_copy = (unsigned char *)copy + i * run_bytes;
        memcpy(gather ? in_copy : in_whole, gather ? in_whole : in_copy, (size_t)run_bytes);
    }
}
