/* decoders.c: identifies the decoders of lossy formats by the pixels that they make.
 *
 * Versions of a library may round differently, and then train different weights. Most versions do
 * not, so a run is identified by a digest of the decoded test images in place of a version. The
 * images cover what a decoder computes: the inverse DCT of blocks of 8, 4, 2 and 1 pixels, each
 * upsampling of chroma, each conversion of colours, the smoothing of incomplete progressive files;
 * for WebP prediction, the loop filters and the upsampling. The other formats, and lossless WebP,
 * have only one right result. */
#include "data/decode/decoder.h"
#include "data/decode/test_images.h"

#include "base/alloc.h"
#include "base/context.h"
#include "base/hash.h"
#include "base/minmax.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

/* Appends the decoded pixels to the digest, or the status of a library that can't decode them. */
static ls_status add_pixels(ls__decoder *decoder, const ls__test_image *file, int reduction,
                            ls__digest_sum *sum, uint64_t *at)
{
    ls_status status = ls__decoder_probe_memory(decoder, file->file, file->bytes, false);
    const ls__region all = { { 0, 0, decoder->height, decoder->width }, reduction, true };
    if (status == LS_OK) status = ls__decode_region(decoder, &all);
    if (status == LS_ERR_MEMORY) return status;
    if (status != LS_OK) {
        ls__digest_word(sum, (uint64_t)status, *at / 8);
        *at += 8;
        return LS_OK;
    }
    const ls__image *image = &decoder->image;
    const size_t bytes = (size_t)(image->height * image->width * image->channels);
    ls__digest_bytes(sum, image->pixels, bytes, *at);
    *at += ls__round_up(bytes, 8);
    return LS_OK;
}

/* 0: memory was short. The allocator is the C library's, as that of libjpeg. */
static uint64_t digest_pixels(const ls__test_image *files, int n)
{
    const ls_context memory = { .allocator = ls__default_allocator };
    ls__decoder decoder = { .ctx = &memory };
    ls__digest_sum sum = { { 0, 0 } };
    uint64_t at = 0;
    ls_status status = LS_OK;
    for (int i = 0; i < n; i++)
        for (int k = 1; k <= files[i].max_reduction && status == LS_OK; k *= 2)
            status = add_pixels(&decoder, &files[i], k, &sum, &at);
    ls__decoder_free(&decoder);
    return status == LS_OK ? ls__digest_finish(&sum, at).words[0] : 0;
}

/* Computes a value once per process; threads that do so at the same time have the same one. */
static uint64_t cached(_Atomic uint64_t *value, const ls__test_image *files, int n)
{
    uint64_t out = atomic_load_explicit(value, memory_order_relaxed);
    if (out != 0) return out;
    out = digest_pixels(files, n);
    atomic_store_explicit(value, out, memory_order_relaxed);
    return out;
}

const char *ls__decoders(bool webp, char buffer[LS__DECODERS_SIZE])
{
    static _Atomic uint64_t jpeg_value, webp_value;
    const uint64_t of_jpeg = cached(&jpeg_value, ls__test_jpegs, LS__N_TEST_JPEGS);
    const uint64_t of_webp = webp ? cached(&webp_value, ls__test_webps, LS__N_TEST_WEBPS) : 0;
    if (of_jpeg == 0 || (webp && of_webp == 0)) return NULL;
    const int n = snprintf(buffer, LS__DECODERS_SIZE, "JPEG pixels %016" PRIx64, of_jpeg);
    if (webp)
        snprintf(buffer + n, (size_t)(LS__DECODERS_SIZE - n), LS__WEBP_DECODER "%016" PRIx64,
                 of_webp);
    return buffer;
}
