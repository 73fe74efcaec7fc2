/* fuzz_png.c: PNG files, as they are and with the checksums of their chunks repaired. */
#include "image.h"

#include "data/decode/decoder.h"
#include <stdlib.h>
#include <string.h>

enum { SIGNATURE = 8, CHUNK = 12, CHECKSUM = 4 };

static uint32_t checksum(const uint8_t *bytes, size_t n)
{
    uint32_t c = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        c ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
    }
    return ~c;
}

/* False where nothing had to be repaired. */
static bool repair(uint8_t *file, size_t size)
{
    bool changed = false;
    for (size_t at = SIGNATURE; at + CHUNK <= size;) {
        const size_t length = ls__be32(file + at);
        if (length > size - at - CHUNK) break;
        const uint32_t sum = checksum(file + at + 4, length + 4);
        uint8_t *there = file + at + 8 + length;
        changed |= ls__be32(there) != sum;
        for (int i = 0; i < CHECKSUM; i++) there[i] = (uint8_t)(sum >> (24 - 8 * i));
        at += CHUNK + length;
    }
    return changed;
}

/* The PNG decoder allocates the whole image whichever part is requested. */
static bool is_large(const uint8_t *file, size_t size)
{
    if (size < SIGNATURE + 16) return false;
    const uint64_t width = ls__be32(file + SIGNATURE + 8), height = ls__be32(file + SIGNATURE + 12);
    return width * height > FUZZ_MAX_PIXELS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || data[0] != 0x89 || is_large(data, size)) return 0;
    fuzz_image(data, size);
    uint8_t *repaired = malloc(size);
    FUZZ_CHECK(repaired);
    memcpy(repaired, data, size);
    if (repair(repaired, size)) fuzz_image(repaired, size);
    free(repaired);
    return 0;
}
