/* callbacks.c: images that a program provides. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdio.h>

/* What a callback fills: the decoder's image. */
struct ls_image_writer {
    ls__decoder *decoder;
    int channels;
    ls_status status; /* of reserve */
    bool has_image, has_reason;
};

uint8_t *ls_image_writer_reserve(ls_image_writer *out, int64_t height, int64_t width)
{
    ls__decoder *decoder = out->decoder;
    out->has_image = false;
    out->status = ls__decoder_check(decoder, height, width);
    if (out->status != LS_OK) return NULL;
    if (!ls__image_reserve(decoder->ctx, &decoder->image, height, width, out->channels)) {
        out->status = ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for %lld x %lld pixels",
                                      (long long)width, (long long)height);
        return NULL;
    }
    out->has_image = true;
    return decoder->image.pixels;
}

void ls_image_writer_reason(ls_image_writer *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls__vsnprintf(out->decoder->reason, LS__REASON_SIZE, format, args);
    va_end(args);
    out->has_reason = true;
}

ls_status ls__callbacks_probe(const ls_dataset *dataset, int64_t sample, ls__decoder *decoder)
{
    if (decoder->image.capacity > LS__KEEP_BYTES) ls__image_free(decoder->ctx, &decoder->image);
    ls_image_writer out = { .decoder = decoder, .channels = dataset->channels };
    const ls_status status = dataset->callbacks->load(dataset->callbacks->user, sample, &out);
    if (out.status != LS_OK) return out.status;
    if (status != LS_OK && out.has_reason) return status;
    if (status != LS_OK)
        return ls__undecodable(decoder, status, "the callback load returned: %s",
                               ls_status_text(status));
    if (!out.has_image)
        return ls__undecodable(decoder, LS_ERR_DATA, "the callback load reserved no image");
    decoder->height = decoder->image.height;
    decoder->width = decoder->image.width;
    return LS_OK;
}

ls_status ls__callbacks_digest(const ls_dataset *dataset, int64_t sample, ls__decoder *decoder,
                               uint64_t *size, uint64_t *digest)
{
    const ls_dataset_callbacks *c = dataset->callbacks;
    if (c->digest) {
        *digest = c->digest(c->user, sample);
        return LS_OK;
    }
    LS_TRY(ls__callbacks_probe(dataset, sample, decoder));
    const size_t bytes = (size_t)(decoder->height * decoder->width * dataset->channels);
    *size = (uint64_t)decoder->height << 32 | (uint64_t)decoder->width;
    *digest = ls__hash(decoder->image.pixels, bytes, 0);
    return LS_OK;
}
