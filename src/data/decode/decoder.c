/* decoder.c: reads a file, and what the decoders of all formats share. */
#include "data/decode/decoder.h"

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

bool ls__is_bad_image(ls_status status)
{
    return status == LS_ERR_DATA || status == LS_ERR_IO || status == LS_ERR_NOT_FOUND;
}

ls_status ls__undecodable(ls__decoder *decoder, ls_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ls__vsnprintf(decoder->reason, sizeof(decoder->reason), format, args);
    va_end(args);
    return status;
}

ls_status ls__decoder_check(ls__decoder *decoder, int64_t height, int64_t width)
{
    if (height <= 0 || width <= 0)
        return ls__undecodable(decoder, LS_ERR_DATA, "an image of %lld x %lld pixels",
                               (long long)width, (long long)height);
    const int64_t limit = decoder->max_pixels ? decoder->max_pixels : LS_DEFAULT_MAX_PIXELS;
    if (width > limit / height)
        return ls__undecodable(decoder, LS_ERR_DATA,
                               "claims %lld x %lld pixels, more than the limit of %lld%s",
                               (long long)width, (long long)height, (long long)limit,
                               limit < LS_LARGEST_MAX_PIXELS ? " (max_pixels)" : "");
    decoder->source = (ls__source){ .height = height, .width = width, .reduction = 1 };
    return LS_OK;
}

static ls_status reserve(ls__decoder *decoder, const ls__window *window, int reduction,
                         int channels)
{
    decoder->source.top = window->top;
    decoder->source.left = window->left;
    decoder->source.reduction = reduction;
    if (!ls__image_reserve(decoder->ctx, &decoder->image, window->height, window->width, channels))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for %lld x %lld pixels",
                               (long long)window->width, (long long)window->height);
    return LS_OK;
}

ls_status ls__decoder_begin(ls__decoder *decoder, int channels)
{
    const ls__window all = { 0, 0, decoder->source.height, decoder->source.width };
    return reserve(decoder, &all, 1, channels);
}

ls_status ls__decoder_begin_window(ls__decoder *decoder, const ls__window *window, int reduction)
{
    return reserve(decoder, window, reduction, 3);
}

void ls__decoder_compose(ls__decoder *decoder, int64_t n, uint8_t *pixels)
{
    const uint8_t *in = pixels;
    const uint32_t background = decoder->alpha == LS_ALPHA_WHITE ? 255 : 0;
    const bool composes = decoder->alpha != LS_ALPHA_IGNORE;
    uint8_t all = 255;
    for (int64_t i = 0; i < n; i++, in += 4, pixels += 3) {
        const uint32_t a = in[3];
        all &= in[3];
        for (int c = 0; c < 3; c++)
            pixels[c] =
                composes ? (uint8_t)((in[c] * a + background * (255 - a) + 127) / 255) : in[c];
    }
    decoder->transparent = all != 255;
}

/* Errors of file systems in a network or under load, which the next attempt may not meet. */
static bool may_pass(int error)
{
    return error == ESTALE || error == EAGAIN || error == EIO || error == ETIMEDOUT;
}

/* *error is the system's, or 0. */
static ls_status read_open_file(ls__decoder *decoder, int fd, int64_t file_bytes, int *error)
{
    if (file_bytes > LS__MAX_FILE_BYTES)
        return ls__undecodable(decoder, LS_ERR_DATA, "a file of %lld bytes, the limit is %d",
                               (long long)file_bytes, LS__MAX_FILE_BYTES);
    const size_t size = (size_t)file_bytes;
    if (!ls__buffer_reserve(decoder->ctx, &decoder->buffer, size))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for %zu bytes", size);

    char text[LS__ERRNO_TEXT_SIZE];
    for (size_t n = 0; n < size;) {
        const ssize_t got = read(fd, decoder->buffer.bytes + n, size - n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            *error = errno;
            return ls__undecodable(decoder, ls__file_status(*error), "%s",
                                   ls__errno_text(*error, text, sizeof(text)));
        }
        if (got == 0) return ls__undecodable(decoder, LS_ERR_IO, "shrank while it was read");
        n += (size_t)got;
    }
    decoder->file = decoder->buffer.bytes;
    decoder->file_bytes = size;
    return LS_OK;
}

static ls_status read_once(ls__decoder *decoder, const char *path, int *error)
{
    int fd;
    int64_t file_bytes;
    char reason[LS__ERRNO_TEXT_SIZE];
    ls_status status = ls__open_regular(path, O_RDONLY, &fd, &file_bytes, reason);
    *error = status == LS_OK ? 0 : errno;
    if (status != LS_OK) { /* without a system's error it is a folder or a device */
        const bool is_no_file = *error == 0 || *error == ELOOP;
        return ls__undecodable(decoder, is_no_file ? LS_ERR_DATA : status, "%s", reason);
    }
    status = read_open_file(decoder, fd, file_bytes, error);
    close(fd);
    return status;
}

ls_status ls__decoder_read(ls__decoder *decoder, const char *path)
{
    static const long pauses_ms[] = { 10, 50, 250 };
    for (size_t i = 0;; i++) {
        int error = 0;
        const ls_status status = read_once(decoder, path, &error);
        if (!may_pass(error) || i == sizeof(pauses_ms) / sizeof(pauses_ms[0])) return status;
        nanosleep(&(struct timespec){ .tv_nsec = pauses_ms[i] * 1000000 }, NULL);
    }
}
