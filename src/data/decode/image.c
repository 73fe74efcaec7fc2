/* image.c: see image.h. */
#include "data/decode/image.h"

bool ls__buffer_reserve(const ls_context *ctx, ls__buffer *buffer, size_t n)
{
    if (n <= buffer->capacity) return true;
    ls__free(ctx, buffer->bytes);
    buffer->bytes = ls__alloc(ctx, n);
    buffer->capacity = buffer->bytes ? n : 0;
    return buffer->bytes != NULL;
}

void ls__buffer_free(const ls_context *ctx, ls__buffer *buffer)
{
    ls__free(ctx, buffer->bytes);
    *buffer = (ls__buffer){ 0 };
}

bool ls__image_reserve(const ls_context *ctx, ls__image *image, int64_t height, int64_t width,
                       int channels)
{
    size_t n;
    ls__buffer buffer = { image->pixels, image->capacity };
    const bool fits = ls__mul_size((size_t)height, (size_t)width, &n) &&
                      ls__mul_size(n, (size_t)channels, &n) && ls__buffer_reserve(ctx, &buffer, n);
    *image =
        (ls__image){ buffer.bytes, buffer.capacity, fits ? height : 0, fits ? width : 0, channels };
    return fits;
}

void ls__image_free(const ls_context *ctx, ls__image *image)
{
    ls__free(ctx, image->pixels);
    *image = (ls__image){ 0 };
}

bool ls__view_is_uniform(const ls__image_view *view)
{
    enum { MAX_DIFFERENCE = 2 };
    uint8_t low[3] = { 255, 255, 255 }, high[3] = { 0 };
    for (int64_t y = 0; y < view->height; y++) {
        const uint8_t *row = view->pixels + y * view->row_bytes;
        for (int64_t x = 0; x < view->width; x++)
            for (int c = 0; c < view->channels; c++) {
                const uint8_t sample = row[x * view->channels + c];
                if (sample < low[c]) low[c] = sample;
                if (sample > high[c]) high[c] = sample;
            }
        for (int c = 0; c < view->channels; c++)
            if (high[c] - low[c] > MAX_DIFFERENCE) return false;
    }
    return true;
}
