/* crc.h: cyclic redundancy checks of 32 bits. */
#ifndef LS_BASE_CRC_H
#define LS_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

typedef enum ls__crc {
    LS__CRC32, /* of zip archives and PNG files (ISO 3309) */
    LS__CRC32C /* of event files: Castagnoli's polynomial (RFC 3720, appendix B.4) */
} ls__crc;

/* The CRC of the bytes after those whose CRC is `before`, which is 0 for the first ones. */
uint32_t ls__crc_add(ls__crc kind, uint32_t before, const void *bytes, size_t size);

#endif
