/* jpeg.c: JPEG through libjpeg-turbo, always the whole picture at full size with the accurate
 * integer transform and smooth chroma, as Pillow decodes it.
 *
 * libjpeg goes on after most damage and fills up with grey; here the first complaint about the
 * picture's data ends the decoding, so that no half picture is ever trained on. A new decompressor
 * is made for each file: a used one remembers tables, and a file that lacks its own would decode to
 * something that depends on the file before. libjpeg's own memory (some 20 kB, and the coefficients
 * of progressive files) comes from the C library. */
#include "data/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>

enum { MAX_SCANS = 500, ROWS = 16 };

typedef struct job {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    ls__decoder *decoder;
} job;

static void escape(j_common_ptr info)
{
    job *self = info->client_data;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    snprintf(self->decoder->reason, sizeof(self->decoder->reason), "damaged JPEG: %s", text);
    longjmp(self->escape, 1);
}

/* Level -1 is a warning. Three speak of notes beside the picture; the rest mean that it is damaged.
 */
static void on_message(j_common_ptr info, int level)
{
    const int code = info->err->msg_code;
    if (level >= 0 || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM || code == JWRN_BOGUS_ICC)
        return;
    escape(info);
}

static void print_nothing(j_common_ptr info)
{
    (void)info;
}

/* A small progressive file may hold thousands of scans over a large picture: minutes of work. */
static void on_progress(j_common_ptr info)
{
    if (((j_decompress_ptr)info)->input_scan_number > MAX_SCANS)
        ERREXIT(info, JERR_BAD_PROGRESSION);
}

/* CMYK with Adobe's marker is stored inverted; so red is C K / 255, rounded. */
static void rgb_from_cmyk(const uint8_t *cmyk, int64_t width, bool inverted, uint8_t *rgb)
{
    const uint8_t flip = inverted ? 0 : 255;
    for (int64_t x = 0; x < width; x++) {
        const int black = cmyk[4 * x + 3] ^ flip;
        for (int c = 0; c < 3; c++)
            rgb[3 * x + c] = (uint8_t)(((cmyk[4 * x + c] ^ flip) * black + 127) / 255);
    }
}

static void read_rows(j_decompress_ptr info, ls__picture *picture)
{
    JSAMPROW rows[ROWS];
    while (info->output_scanline < info->output_height) {
        const int64_t first = info->output_scanline, left = picture->height - first;
        const int n = left < ROWS ? (int)left : ROWS;
        for (int i = 0; i < n; i++) rows[i] = picture->pixels + (first + i) * picture->width * 3;
        jpeg_read_scanlines(info, rows, (JDIMENSION)n);
    }
}

static void read_cmyk_rows(j_decompress_ptr info, ls__picture *picture, ls__picture *row)
{
    for (int64_t y = 0; y < picture->height; y++) {
        JSAMPROW rows[1] = { row->pixels };
        jpeg_read_scanlines(info, rows, 1);
        rgb_from_cmyk(row->pixels, picture->width, info->saw_Adobe_marker,
                      picture->pixels + y * picture->width * 3);
    }
}

static ls_status decode(job *self)
{
    ls__decoder *decoder = self->decoder;
    j_decompress_ptr info = &self->info;
    if (setjmp(self->escape))
        return info->err->msg_code == JERR_OUT_OF_MEMORY ? LS_ERR_MEMORY : LS_ERR_DATA;

    jpeg_create_decompress(info);
    jpeg_mem_src(info, decoder->file, (unsigned long)decoder->file_bytes);
    jpeg_read_header(info, TRUE);
    const bool cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    if (info->jpeg_color_space == JCS_UNKNOWN)
        return ls__undecodable(decoder, LS_ERR_DATA, "JPEG of %d channels", info->num_components);
    LS_TRY(ls__decoder_begin(decoder, info->image_height, info->image_width));
    if (cmyk && !ls__picture_reserve(decoder->ctx, &decoder->spare, 1, info->image_width, 4))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for a row");

    info->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    info->progress = &self->progress;
    jpeg_start_decompress(info);
    if (cmyk)
        read_cmyk_rows(info, &decoder->picture, &decoder->spare);
    else
        read_rows(info, &decoder->picture);
    jpeg_finish_decompress(info);
    return LS_OK;
}

ls_status ls__decode_jpeg(ls__decoder *decoder)
{
    job self = { .decoder = decoder };
    self.info.err = jpeg_std_error(&self.errors);
    self.info.client_data = &self;
    self.errors.error_exit = escape;
    self.errors.emit_message = on_message;
    self.errors.output_message = print_nothing;
    self.progress.progress_monitor = on_progress;
    const ls_status status = decode(&self);
    jpeg_destroy_decompress(&self.info);
    return status;
}

#define TEXT(x)       #x
#define MACRO_TEXT(x) TEXT(x)

/* As compiled with: the library does not tell its version. PNG has one right answer, so that
 * stb_image, BMP and PNM are left out. */
const char *ls__decoders(void)
{
#ifdef LIBJPEG_TURBO_VERSION
    return "libjpeg-turbo " MACRO_TEXT(LIBJPEG_TURBO_VERSION);
#else
    return "libjpeg " MACRO_TEXT(JPEG_LIB_VERSION);
#endif
}
