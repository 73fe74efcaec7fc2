/* write_image.c: PNG and JPEG through stb_image_write. */
#include "write_image.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#include <stb/stb_image_write.h>

static void write_to_file(void *file, void *bytes, int size)
{
    fwrite(bytes, 1, (size_t)size, file);
}

bool write_image(const char *path, int width, int height, const uint8_t *pixels, int quality)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!file) {
        if (fd >= 0) close(fd);
        return false;
    }
    errno = ENOMEM; /* the writer's only own reason to fail */
    const int done =
        quality > 0
            ? stbi_write_jpg_to_func(write_to_file, file, width, height, 3, pixels, quality)
            : stbi_write_png_to_func(write_to_file, file, width, height, 3, pixels, 3 * width);
    const bool failed = ferror(file);
    return fclose(file) == 0 && !failed && done;
}
