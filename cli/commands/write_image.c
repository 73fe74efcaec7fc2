/* write_image.c: PNG and JPEG through stb_image_write. */
#include "commands/write_image.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

/* The signature and the chunk IHDR, in which a PNG of width and height differs from others. */
enum { PNG_HEADER_BYTES = 8 + 25 };

/* A chunk: the bytes of its data, its type, keyword and text, and the CRC-32 of both. */
static const char grid_chunk[] = "\0\0\0\x19"
                                 "tEXtSoftware\0lockstep augment"
                                 "\x95\x97\x17\xc1";
enum { GRID_CHUNK_BYTES = sizeof(grid_chunk) - 1 };

static void write_to_file(void *file, void *bytes, int size)
{
    fwrite(bytes, 1, (size_t)size, file);
}

/* The writer passes a whole PNG. */
static void write_grid_to_file(void *file, void *bytes, int size)
{
    fwrite(bytes, 1, PNG_HEADER_BYTES, file);
    fwrite(grid_chunk, 1, GRID_CHUNK_BYTES, file);
    fwrite((char *)bytes + PNG_HEADER_BYTES, 1, (size_t)size - PNG_HEADER_BYTES, file);
}

static bool write_file(const char *path, int width, int height, const uint8_t *pixels, int quality,
                       stbi_write_func *write)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) {
        if (fd >= 0) close(fd);
        return false;
    }
    errno = ENOMEM; /* the writer's only own reason to fail */
    const int done = quality > 0
                         ? stbi_write_jpg_to_func(write, file, width, height, 3, pixels, quality)
                         : stbi_write_png_to_func(write, file, width, height, 3, pixels, 3 * width);
    const bool failed = !done || ferror(file);
    const int error = errno;
    if (fclose(file) == 0 && !failed) return true;
    if (failed) errno = error;
    return false;
}

bool write_image(const char *path, int width, int height, const uint8_t *pixels, int quality)
{
    return write_file(path, width, height, pixels, quality, write_to_file);
}

bool write_grid(const char *path, int width, int height, const uint8_t *pixels)
{
    return write_file(path, width, height, pixels, 0, write_grid_to_file);
}

bool is_grid(const char *path)
{
    char bytes[PNG_HEADER_BYTES + GRID_CHUNK_BYTES];
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(bytes, 1, sizeof(bytes), file) : 0;
    if (file) fclose(file);
    return n == sizeof(bytes) &&
           memcmp(bytes + PNG_HEADER_BYTES, grid_chunk, GRID_CHUNK_BYTES) == 0;
}
