/* image.c: see image.h. */
#include "data/decode/image.h"

bool ls__buffer_reserve(const ls_context *ctx, void **memory, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity) return true;
    ls__free(ctx, *memory);
    *memory = ls__alloc(ctx, bytes);
    *capacity = *memory ? bytes : 0;
    return *memory != NULL;
}

void ls__buffer_free(const ls_context *ctx, void **memory, size_t *capacity)
{
    ls__free(ctx, *memory);
    *memory = NULL;
    *capacity = 0;
}

bool ls__image_reserve(const ls_context *ctx, ls__image *image, int64_t height, int64_t width,
                       int channels)
{
    size_t bytes;
    void *memory = image->pixels;
    const bool fits = ls__mul_size((size_t)height, (size_t)width, &bytes) &&
                      ls__mul_size(bytes, (size_t)channels, &bytes) &&
                      ls__buffer_reserve(ctx, &memory, &image->capacity, bytes);
    image->pixels = memory;
    image->height = fits ? height : 0;
    image->width = fits ? width : 0;
    image->channels = channels;
    return fits;
}

void ls__image_free(const ls_context *ctx, ls__image *image)
{
    ls__free(ctx, image->pixels);
    *image = (ls__image){ 0 };
}
