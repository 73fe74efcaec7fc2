/* test_images.h: files whose pixels differ between versions of a decoder; see decoders.c. */
#ifndef LS_DATA_DECODE_TEST_IMAGES_H
#define LS_DATA_DECODE_TEST_IMAGES_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls__test_image {
    const uint8_t *file;
    size_t bytes;
    int max_reduction; /* is decoded with all reductions up to this one: 1, 2, 4, 8 */
} ls__test_image;

enum { LS__N_TEST_JPEGS = 8, LS__N_TEST_WEBPS = 2 };
extern const ls__test_image ls__test_jpegs[LS__N_TEST_JPEGS];
extern const ls__test_image ls__test_webps[LS__N_TEST_WEBPS];

#endif
