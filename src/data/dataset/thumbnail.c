/* thumbnail.c: see thumbnail.h. */
#include "data/dataset/thumbnail.h"

#include "base/error.h"
#include "base/floats.h"
#include "data/decode/jpeg_write.h"
#include "data/transform/resize.h"
#include <stdio.h>

/* The decoded image, resized if it is larger. */
static bool write_small(const ls_context *ctx, const ls__source *source, int64_t side,
                        uint8_t **out, size_t *size)
{
    const int64_t height = source->height, width = source->width;
    const int64_t longer = height > width ? height : width;
    if (longer <= side && source->reduction == 1)
        return ls__jpeg_write(ctx, &source->view, out, size);
    const int64_t to_height = height * side / longer, to_width = width * side / longer;
    ls__resizer resizer = { .ctx = ctx };
    ls__image to = { 0 };
    bool ok = ls__resize_image(&resizer, source, to_height > 0 ? to_height : 1,
                               to_width > 0 ? to_width : 1, &to);
    if (ok) {
        const ls__source small = ls__source_of_image(&to);
        ok = ls__jpeg_write(ctx, &small.view, out, size);
    }
    ls__buffer_free(ctx, &resizer.memory);
    ls__image_free(ctx, &to);
    return ok;
}

/* A JPEG file is decoded at 1/2, 1/4 or 1/8 of its size where that is not below the thumbnail's. */
static int reduction_for(const ls__decoder *decoder, int64_t side)
{
    const int64_t longer = decoder->height > decoder->width ? decoder->height : decoder->width;
    int reduction = 1;
    while (reduction < 8 && longer / (2 * reduction) >= side) reduction *= 2;
    return reduction;
}

ls_status ls__dataset_thumbnail(const ls_dataset *dataset, int64_t sample,
                                const ls_loader_config *loading, int64_t side, uint8_t **out,
                                size_t *size)
{
    LS__DEFAULT_FLOATS;
    ls_context *ctx = dataset->owned.ctx;
    ls__decoder decoder = { .ctx = ctx,
                            .max_pixels = LS_LARGEST_MAX_PIXELS,
                            .alpha = loading->alpha,
                            .depth = loading->depth };
    *out = NULL;
    ls_status status = ls__dataset_probe(dataset, sample, true, &decoder);
    if (status == LS_OK) {
        const ls__region whole = { { 0, 0, decoder.height, decoder.width },
                                   .reduction = reduction_for(&decoder, side) };
        status = ls__dataset_decode(dataset, sample, &whole, &decoder);
    }
    const bool is_bad = ls__is_bad_image(status);
    if (status == LS_OK && !write_small(ctx, &decoder.source, side, out, size)) {
        snprintf(decoder.reason, sizeof(decoder.reason),
                 "out of memory, expected room for a JPEG file of at most %lldx%lld pixels",
                 (long long)side, (long long)side);
        status = LS_ERR_MEMORY;
    }
    const char *path = ls_dataset_sample_path(dataset, sample);
    if (status != LS_OK && !is_bad)
        ls__fail(ctx, status, "thumbnail of sample %lld, '%s': %s", (long long)sample,
                 path ? path : "in memory", decoder.reason);
    ls__decoder_free(&decoder);
    return is_bad ? LS_OK : status;
}
