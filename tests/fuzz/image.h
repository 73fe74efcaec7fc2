/* image.h: what must hold for every image file, whatever is in it. */
#ifndef LS_TESTS_FUZZ_IMAGE_H
#define LS_TESTS_FUZZ_IMAGE_H

#include "fuzz.h"

enum { FUZZ_MAX_PIXELS = 1 << 18 };

/* Decodes the bytes as a whole and in parts. Each part has the pixels of the whole image, and of a
 * file that is refused each part is refused for the same reason. Images of more than
 * FUZZ_MAX_PIXELS, whose header can be tiny, would slow down the fuzzer: where the decoder asks
 * which part is needed, they are refused. */
void fuzz_image(const uint8_t *bytes, size_t n);

#endif
