/* pack_read.c: a sample's pixels from a pack. */
#include "data/dataset/packs/pack.h"

#include "base/alloc.h"
#include "base/hash.h"

static const ls_status status_of[LS__PACK_N_STATES] = { [LS__PACK_NOT_FOUND] = LS_ERR_NOT_FOUND,
                                                        [LS__PACK_UNREAD] = LS_ERR_IO,
                                                        [LS__PACK_UNUSABLE] = LS_ERR_DATA };

bool ls__pack_is_sound(const ls__pack_sample *sample, const void *data)
{
    return ls__hash(data, (size_t)sample->bytes, 0) == sample->hash;
}

/* Reads a range of the sample's data into decoder->buffer. */
static ls_status load(const ls__pack *pack, uint64_t offset, size_t bytes, ls__decoder *decoder)
{
    /* Pixels are borrowed until the next sample, so a huge buffer is released only here. */
    if (decoder->buffer.capacity > LS__KEEP_BYTES) ls__buffer_free(decoder->ctx, &decoder->buffer);
    if (!ls__buffer_reserve(decoder->ctx, &decoder->buffer, bytes))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for %zu bytes", bytes);
    return ls__pack_pread(pack, offset, bytes, decoder->buffer.bytes, decoder->reason);
}

static ls_status load_and_check(const ls__pack *pack, const ls__pack_sample *sample, bool *sound,
                                ls__decoder *decoder)
{
    LS_TRY(load(pack, sample->offset, (size_t)sample->bytes, decoder));
    *sound = *sound || ls__pack_is_sound(sample, decoder->buffer.bytes);
    if (*sound) return LS_OK;
    return ls__undecodable(decoder, LS_ERR_DATA, "damaged in the pack: %llu bytes at offset %llu",
                           (unsigned long long)sample->bytes, (unsigned long long)sample->offset);
}

ls_status ls__pack_probe(const ls__pack *pack, const ls__pack_sample *sample, bool honour_exif,
                         bool *sound, ls__decoder *decoder)
{
    const bool upright = !honour_exif || sample->orientation <= 1;
    const bool later = *sound && sample->height > 0 && upright;
    decoder->file = NULL;
    if (!later) LS_TRY(load_and_check(pack, sample, sound, decoder));
    if (sample->state != LS__PACK_SOUND)
        return ls__undecodable(decoder, status_of[sample->state], "%.*s", (int)sample->bytes,
                               sample->bytes ? (const char *)decoder->buffer.bytes : "");
    if (pack->form == LS__PACK_FILES)
        return ls__decoder_probe_memory(decoder, decoder->buffer.bytes, (size_t)sample->bytes,
                                        honour_exif);
    if (!later) decoder->file = decoder->buffer.bytes;
    return ls__decoder_probe_pixels(decoder, sample->height, sample->width,
                                    upright ? 1 : sample->orientation);
}

ls_status ls__pack_decode(const ls__pack *pack, const ls__pack_sample *sample,
                          const ls__region *region, ls__decoder *decoder)
{
    if (pack->form == LS__PACK_FILES) return ls__decode_region(decoder, region);
    const int64_t row_bytes = 3 * (int64_t)sample->width;
    const ls__image_view view = { decoder->file, row_bytes, sample->height, sample->width, 3 };
    if (decoder->orientation > 1) return ls__decode_pixels(decoder, &view);
    ls__source *out = &decoder->source;
    *out = ls__source_of_all(&view);
    if (decoder->file) return LS_OK;
    if (region) { /* its rows */
        out->top = region->window.top;
        out->view.height = region->window.height;
    }
    LS_TRY(load(pack, sample->offset + (uint64_t)(out->top * row_bytes),
                (size_t)(out->view.height * row_bytes), decoder));
    out->view.pixels = decoder->buffer.bytes;
    return LS_OK;
}
