/* Cyclic redundancy checks: published values, and a division bit by bit. */
#include "base/crc.h"

#include "../suite.h"

static const char digits[] = "123456789";

/* The check values of the catalogue of Greg Cook: CRC-32/ISO-HDLC and CRC-32/ISCSI. */
START_TEST(published_values)
{
    ck_assert_uint_eq(ls__crc_add(LS__CRC32, 0, digits, 9), 0xCBF43926);
    ck_assert_uint_eq(ls__crc_add(LS__CRC32C, 0, digits, 9), 0xE3069283);
    ck_assert_uint_eq(ls__crc_add(LS__CRC32, 0, digits, 0), 0);
}
END_TEST

static uint32_t by_bits(uint32_t polynomial, const unsigned char *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

/* Checks every length and alignment, in one call and in two. */
START_TEST(parts_of_any_length)
{
    static const uint32_t polynomials[] = { [LS__CRC32] = 0xEDB88320, [LS__CRC32C] = 0x82F63B78 };
    unsigned char bytes[64];
    for (int i = 0; i < 64; i++) bytes[i] = (unsigned char)(i * i + 7 * i + 200);
    for (int kind = LS__CRC32; kind <= LS__CRC32C; kind++)
        for (size_t begin = 0; begin < 9; begin++)
            for (size_t n = 0; begin + n <= 64; n++) {
                const unsigned char *at = bytes + begin;
                const uint32_t expected = by_bits(polynomials[kind], at, n);
                ck_assert_uint_eq(ls__crc_add(kind, 0, at, n), expected);
                const uint32_t first = ls__crc_add(kind, 0, at, n / 3);
                ck_assert_uint_eq(ls__crc_add(kind, first, at + n / 3, n - n / 3), expected);
            }
}
END_TEST

TEST_PROGRAM(crc)
{
    return RUN_SUITE("crc", published_values, parts_of_any_length);
}
