/* pack_read.c: a sample's pixels from a pack. */
#include "data/pack.h"

#include "base/hash.h"
#include <sys/stat.h>

static const ls_status status_of[LS__PACK_N_STATES] = { [LS__PACK_NOT_FOUND] = LS_ERR_NOT_FOUND,
                                                        [LS__PACK_UNREAD] = LS_ERR_IO,
                                                        [LS__PACK_UNUSABLE] = LS_ERR_DATA };

bool ls__pack_is_whole(const ls__pack *pack)
{
    struct stat info;
    return fstat(pack->fd, &info) == 0 && (uint64_t)info.st_size == pack->bytes;
}

bool ls__pack_is_sound(const ls__pack *pack, const ls__pack_sample *sample)
{
    return ls__hash(pack->map + sample->offset, (size_t)sample->bytes, 0) == sample->hash;
}

ls_status ls__pack_read(const ls__pack *pack, const ls__pack_sample *sample, bool honour_exif,
                        ls__decoder *decoder, ls__part *out)
{
    const uint8_t *data = pack->map + sample->offset;
    if (sample->state != LS__PACK_SOUND)
        return ls__undecodable(decoder, status_of[sample->state], "%.*s", (int)sample->bytes,
                               (const char *)data);
    if (pack->form == LS__PACK_FILES) {
        LS_TRY(ls__decode_memory(decoder, data, (size_t)sample->bytes, honour_exif));
        *out = decoder->part;
        return LS_OK;
    }
    const ls__view view = { data, 3 * (int64_t)sample->width, sample->height, sample->width, 3 };
    *out = ls__part_of_all(&view);
    LS_TRY(ls__decoder_check(decoder, view.height, view.width));
    if (!honour_exif || sample->orientation <= 1) return LS_OK;
    LS_TRY(ls__decode_pixels(decoder, &view, sample->orientation));
    *out = decoder->part;
    return LS_OK;
}
