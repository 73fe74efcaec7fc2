/* image.c: see image.h. */
#include "image.h"

#include "data/decode/decoder.h"
#include <stdio.h>
#include <string.h>

typedef struct request {
    uint32_t seed; /* 0 = the whole image */
    int reduction;
} request;

static int64_t below(uint32_t *state, int64_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (int64_t)((uint64_t)(*state >> 4) * (uint64_t)n >> 28);
}

static ls__window window_of(const request *self, int64_t height, int64_t width)
{
    uint32_t state = self->seed;
    ls__window out = { 0, 0, height, width };
    if (state == 0) return out;
    out.height = 1 + below(&state, height);
    out.width = 1 + below(&state, width);
    out.top = below(&state, height - out.height + 1);
    out.left = below(&state, width - out.width + 1);
    return out;
}

static ls_status decode(ls__decoder *decoder, const uint8_t *bytes, size_t n, bool honour_exif,
                        const request *wanted, bool known_whole)
{
    LS_TRY(ls__decoder_probe_memory(decoder, bytes, n, honour_exif));
    if (decoder->height > FUZZ_MAX_PIXELS / decoder->width)
        return ls__undecodable(decoder, LS_ERR_DATA, "too large for the fuzzer");
    const ls__region region = { window_of(wanted, decoder->height, decoder->width),
                                wanted->reduction, known_whole };
    return ls__decode_region(decoder, &region);
}

static void check_same(const ls__source *source, const ls__source *whole, const request *wanted)
{
    const ls__image_view *view = &source->view;
    const int reduction = whole->reduction;
    FUZZ_CHECK(source->height == whole->height && source->width == whole->width);
    FUZZ_CHECK(source->reduction == reduction && source->top >= 0 && source->left >= 0);
    const ls__window full = window_of(wanted, whole->height, whole->width);
    const int64_t top = full.top / reduction, left = full.left / reduction;
    const int64_t bottom = (full.top + full.height + reduction - 1) / reduction;
    const int64_t right = (full.left + full.width + reduction - 1) / reduction;
    FUZZ_CHECK(source->top <= top && source->top + view->height >= bottom);
    FUZZ_CHECK(source->left <= left && source->left + view->width >= right);
    for (int64_t y = top; y < bottom; y++)
        FUZZ_CHECK(
            memcmp(view->pixels + (y - source->top) * view->row_bytes + (left - source->left) * 3,
                   whole->view.pixels + y * whole->view.row_bytes + left * 3,
                   (size_t)(right - left) * 3) == 0);
}

void fuzz_image(const uint8_t *bytes, size_t n)
{
    uint32_t seed = fuzz_seed(bytes, n) | 1;
    const bool honour_exif = seed & 2;
    const int reduction = seed & 4 ? 1 : 1 << below(&seed, 4);
    ls__decoder whole = { .ctx = fuzz_context() }, region = whole;
    const request all = { 0, reduction };
    const ls_status status = decode(&whole, bytes, n, honour_exif, &all, false);
    FUZZ_CHECK(status == LS_OK || whole.reason[0]);
    for (int i = 0; i < 3; i++) {
        const request wanted = { seed + 2 * (uint32_t)i, reduction };
        const bool known_whole = status == LS_OK && i == 2;
        const ls_status got = decode(&region, bytes, n, honour_exif, &wanted, known_whole);
        if (status == LS_ERR_MEMORY || got == LS_ERR_MEMORY) continue;
        FUZZ_CHECK(got == status);
        if (status == LS_OK)
            check_same(&region.source, &whole.source, &wanted);
        else
            FUZZ_CHECK(strcmp(region.reason, whole.reason) == 0);
    }
    ls__decoder_free(&region);
    ls__decoder_free(&whole);
}
