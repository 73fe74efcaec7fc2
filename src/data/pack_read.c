/* pack_read.c: a sample's pixels from a pack. */
#include "data/pack.h"

#include "base/hash.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

static ls__part all_of(const uint8_t *pixels, int64_t height, int64_t width)
{
    const ls__view view = { pixels, 3 * width, height, width, 3 };
    return ls__part_of_all(&view);
}

/* Pixels whose picture is to be turned. */
static ls_status read_turned(const ls__pack *pack, const ls__pack_sample *sample,
                             ls__decoder *decoder, ls__part *out)
{
    LS_TRY(ls__decoder_begin(decoder, sample->height, sample->width));
    memcpy(decoder->picture.pixels, pack->map + sample->offset, (size_t)sample->bytes);
    decoder->orientation = sample->orientation;
    LS_TRY(ls__exif_turn(decoder));
    *out = all_of(decoder->picture.pixels, decoder->picture.height, decoder->picture.width);
    return LS_OK;
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
    if (honour_exif && sample->orientation > 1) return read_turned(pack, sample, decoder, out);
    *out = all_of(data, sample->height, sample->width);
    return LS_OK;
}
