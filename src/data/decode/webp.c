/* webp.c: WebP through libwebp: lossy and lossless, with alpha. The container's chunks are checked
 * before, and animations are refused. https://developers.google.com/speed/webp/docs/riff_container
 */
#include "data/decode/decoder.h"

#include <stdio.h>
#include <string.h>
#include <webp/decode.h>

enum { RIFF_BYTES = 12, CHUNK_BYTES = 8 };

void ls__webp_version(char out[LS__WEBP_VERSION_SIZE])
{
    const int version = WebPGetDecoderVersion();
    snprintf(out, LS__WEBP_VERSION_SIZE, "libwebp %d.%d.%d", version >> 16 & 255,
             version >> 8 & 255, version & 255);
}

static ls_status read_features(ls__decoder *decoder, WebPBitstreamFeatures *out)
{
    const uint8_t *file = decoder->file;
    const size_t bytes = decoder->file_bytes;
    if (bytes < RIFF_BYTES || memcmp(file, "RIFF", 4) != 0)
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged WebP: does not begin with RIFF");
    if ((size_t)ls__le32(file + 4) > bytes - CHUNK_BYTES)
        return ls__undecodable(decoder, LS_ERR_DATA, "truncated WebP file");
    if (WebPGetFeatures(file, bytes, out) != VP8_STATUS_OK)
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged WebP: no sound header");
    if (out->has_animation)
        return ls__undecodable(
            decoder, LS_ERR_DATA,
            "an animated WebP file, expected one image; ImageMagick extracts the "
            "first: convert 'FILE[0]' FILE.png");
    return ls__decoder_check(decoder, out->height, out->width);
}

ls_status ls__webp_probe(ls__decoder *decoder)
{
    WebPBitstreamFeatures features;
    ls__image *image = &decoder->image;
    LS_TRY(read_features(decoder, &features));
    const int channels = features.has_alpha ? 4 : 3, row_bytes = channels * features.width;
    LS_TRY(ls__decoder_begin(decoder, channels));
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return ls__undecodable(decoder, LS_ERR_UNSUPPORTED,
                               "libwebp has another version than its header");
    config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){ .rgba = image->pixels,
                                             .stride = row_bytes,
                                             .size = (size_t)row_bytes * (size_t)features.height };
    const VP8StatusCode status = WebPDecode(decoder->file, decoder->file_bytes, &config);
    if (status == VP8_STATUS_OUT_OF_MEMORY)
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory to decode a WebP file");
    if (status == VP8_STATUS_SUSPENDED || status == VP8_STATUS_NOT_ENOUGH_DATA)
        return ls__undecodable(decoder, LS_ERR_DATA, "truncated WebP file");
    if (status != VP8_STATUS_OK)
        return ls__undecodable(decoder, LS_ERR_DATA, "damaged WebP: its pixels");
    if (channels == 4) ls__decoder_compose(decoder, image->height * image->width, image->pixels);
    image->channels = 3;
    return LS_OK;
}
