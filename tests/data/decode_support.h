/* decode_support.h: decodes bytes in memory, with the checks that the tests of every format share.
 */
#ifndef LS_TESTS_DATA_DECODE_SUPPORT_H
#define LS_TESTS_DATA_DECODE_SUPPORT_H

#include "data/decode/decoder.h"
#include "support.h"

ls_context *open_context(void);

/* Decodes bytes; the result is decoder->image. Fails the test when they are changed. */
ls_status decode(ls__decoder *decoder, const void *bytes, size_t n, bool honour_exif);
/* The same, of a region at least: into decoder->source. */
ls_status decode_region(ls__decoder *decoder, const void *bytes, size_t n, bool honour_exif,
                        const ls__region *region);
/* Fails the test unless the bytes are refused as unusable data for a reason that contains `word`.
 */
void expect_bad(ls__decoder *decoder, const void *bytes, size_t n, const char *word);
/* Largest difference between an image, which must have this size, and pixels [h,w,3]. */
int worst_difference(const ls__image *image, int h, int w, const uint8_t *rgb);

#endif
