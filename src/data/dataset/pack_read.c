/* pack_read.c: a sample's pixels from a pack. */
#include "data/dataset/pack.h"

#include "base/alloc.h"
#include "base/hash.h"

static const ls_status status_of[LS__PACK_N_STATES] = { [LS__PACK_NOT_FOUND] = LS_ERR_NOT_FOUND,
                                                        [LS__PACK_UNREAD] = LS_ERR_IO,
                                                        [LS__PACK_UNUSABLE] = LS_ERR_DATA };

ls_status ls__pack_load(const ls__pack *pack, const ls__pack_sample *sample, ls__decoder *decoder)
{
    /* Pixels are borrowed until the next sample, so a huge buffer is released only here. */
    if (decoder->buffer_capacity > LS__KEEP_BYTES) ls__decoder_drop_buffer(decoder);
    const size_t bytes = (size_t)sample->bytes;
    if (!ls__buffer_reserve(decoder->ctx, &decoder->buffer, &decoder->buffer_capacity, bytes))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for %zu bytes", bytes);
    return ls__pack_pread(pack, sample->offset, bytes, decoder->buffer, decoder->reason);
}

bool ls__pack_is_sound(const ls__pack_sample *sample, const void *data)
{
    return ls__hash(data, (size_t)sample->bytes, 0) == sample->hash;
}

ls_status ls__pack_decode(const ls__pack *pack, const ls__pack_sample *sample, bool honour_exif,
                          ls__decoder *decoder, ls__source *out)
{
    const uint8_t *data = decoder->buffer;
    if (sample->state != LS__PACK_SOUND)
        return ls__undecodable(decoder, status_of[sample->state], "%.*s", (int)sample->bytes,
                               sample->bytes ? (const char *)data : "");
    if (pack->form == LS__PACK_FILES) {
        LS_TRY(ls__decode_memory(decoder, data, (size_t)sample->bytes, honour_exif));
        *out = decoder->source;
        return LS_OK;
    }
    const ls__image_view view = { data, 3 * (int64_t)sample->width, sample->height, sample->width,
                                  3 };
    *out = ls__source_of_all(&view);
    LS_TRY(ls__decoder_check(decoder, view.height, view.width));
    if (!honour_exif || sample->orientation <= 1) return LS_OK;
    LS_TRY(ls__decode_pixels(decoder, &view, sample->orientation));
    *out = decoder->source;
    return LS_OK;
}

ls_status ls__pack_read_rows(const ls__pack *pack, const ls__pack_sample *sample,
                             ls__decoder *decoder, ls__source *out)
{
    ls__window wanted;
    int reduction;
    const int64_t row_bytes = 3 * (int64_t)sample->width;
    decoder->orientation = 1;
    LS_TRY(ls__decoder_ask(decoder, sample->height, sample->width, &wanted, &reduction));
    ls__pack_sample rows = *sample;
    rows.offset += (uint64_t)(wanted.top * row_bytes);
    rows.bytes = (uint64_t)(wanted.height * row_bytes);
    LS_TRY(ls__pack_load(pack, &rows, decoder));
    const ls__image_view whole = { decoder->buffer, row_bytes, sample->height, sample->width, 3 };
    *out = ls__source_of_all(&whole);
    out->view.height = wanted.height;
    out->top = wanted.top;
    return LS_OK;
}
