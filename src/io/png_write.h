/* png_write.h: images as PNG files in memory. */
#ifndef LS_IO_PNG_WRITE_H
#define LS_IO_PNG_WRITE_H

#include "io/bytes.h"

/* Appends the file. pixels: [height][width][channels], 1 channel = grey, 3 = RGB. */
void ls__png_write(ls__bytes *out, int64_t height, int64_t width, int64_t channels,
                   const unsigned char *pixels);

#endif
