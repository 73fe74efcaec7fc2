/* fuzz_image.c: image files of one format (FUZZ_FIRST_BYTE is the first byte of its files). */
#include "image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == FUZZ_FIRST_BYTE) fuzz_image(data, size);
    return 0;
}
