/* crc.c: see crc.h. Eight bytes at a time, each by a table of its own (Kounavis and Berry, "A
 * Systematic Approach to Building High Performance Software-Based CRC Generators", 2005). */
#include "base/crc.h"

#include <pthread.h>
#include <string.h>

enum { N_TABLES = 8, N_KINDS = 2 };

/* tables[kind][k][byte]: the CRC of the byte and k zero bytes. */
static uint32_t tables[N_KINDS][N_TABLES][256];
static pthread_once_t made = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    static const uint32_t polynomials[N_KINDS] = {
        [LS__CRC32] = UINT32_C(0xEDB88320), [LS__CRC32C] = UINT32_C(0x82F63B78)
    };
    for (int kind = 0; kind < N_KINDS; kind++) {
        uint32_t(*const t)[256] = tables[kind];
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = byte;
            for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomials[kind] : 0);
            t[0][byte] = crc;
        }
        for (int k = 1; k < N_TABLES; k++)
            for (int byte = 0; byte < 256; byte++)
                t[k][byte] = t[k - 1][byte] >> 8 ^ t[0][t[k - 1][byte] & 255];
    }
}

uint32_t ls__crc_add(ls__crc kind, uint32_t before, const void *bytes, size_t size)
{
    (void)pthread_once(&made, make_tables);
    uint32_t(*const t)[256] = tables[kind];
    const unsigned char *at = bytes;
    uint32_t crc = ~before;
    for (; size >= 8; size -= 8, at += 8) {
        uint32_t words[2]; /* little-endian, as everywhere in Lockstep */
        memcpy(words, at, sizeof(words));
        const uint32_t a = words[0] ^ crc, b = words[1];
        crc = t[7][a & 255] ^ t[6][a >> 8 & 255] ^ t[5][a >> 16 & 255] ^ t[4][a >> 24] ^
              t[3][b & 255] ^ t[2][b >> 8 & 255] ^ t[1][b >> 16 & 255] ^ t[0][b >> 24];
    }
    for (; size > 0; size--, at++) crc = crc >> 8 ^ t[0][(crc ^ *at) & 255];
    return ~crc;
}
