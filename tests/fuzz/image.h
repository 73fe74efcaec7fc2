/* image.h: what must hold for every image file, whatever is in it. */
#ifndef LS_TESTS_FUZZ_IMAGE_H
#define LS_TESTS_FUZZ_IMAGE_H

#include "fuzz.h"

enum { FUZZ_MAX_PIXELS = 1 << 18 };

/* Decodes the bytes as a whole and in parts. Each part must have the pixels of the whole image, and
 * a file that is refused must be refused for every part, for the same reason. JPEG images of more
 * than FUZZ_MAX_PIXELS are refused, because a tiny file can claim any size and slow the fuzzer
 * down.
 */
void fuzz_image(const uint8_t *bytes, size_t n);

#endif
