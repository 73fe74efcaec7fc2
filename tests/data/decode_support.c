/* decode_support.c: see decode_support.h. */
#include "decode_support.h"

#include <stdlib.h>
#include <string.h>

ls_context *open_context(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    expect_ok(ctx);
    return ctx;
}

ls_status decode_region(ls__decoder *decoder, const void *bytes, size_t n, bool honour_exif,
                        const ls__region *region)
{
    /* A copy of just that size, so that an access beyond its end is detected. */
    void *file = malloc(n ? n : 1);
    memcpy(file, bytes, n);
    ls_status status = ls__decoder_probe_memory(decoder, file, n, honour_exif);
    if (status == LS_OK) status = ls__decode_region(decoder, region);
    ck_assert_mem_eq(file, bytes, n);
    free(file);
    return status;
}

ls_status decode(ls__decoder *decoder, const void *bytes, size_t n, bool honour_exif)
{
    return decode_region(decoder, bytes, n, honour_exif, NULL);
}

void expect_bad(ls__decoder *decoder, const void *bytes, size_t n, const char *word)
{
    const ls_status status = decode(decoder, bytes, n, false);
    ck_assert_msg(status == LS_ERR_DATA, "status %s, wanted unusable data (%s)",
                  ls_status_text(status), word);
    ck_assert_msg(strstr(decoder->reason, word), "reason '%s', wanted '%s'", decoder->reason, word);
}

int worst_difference(const ls__image *image, int h, int w, const uint8_t *rgb)
{
    ck_assert_int_eq(image->height, h);
    ck_assert_int_eq(image->width, w);
    int worst = 0;
    for (int i = 0; i < h * w * 3; i++) {
        const int d = abs(image->pixels[i] - rgb[i]);
        if (d > worst) worst = d;
    }
    return worst;
}
