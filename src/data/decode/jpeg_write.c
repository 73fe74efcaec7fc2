/* jpeg_write.c: JPEG through libjpeg-turbo; see jpeg_write.h. */
#include "data/decode/jpeg_write.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>

enum { QUALITY = 90 };

typedef struct writer {
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    unsigned char *bytes; /* from malloc, which libjpeg calls */
    unsigned long size;
} writer;

static void escape(j_common_ptr info)
{
    writer *self = info->client_data;
    longjmp(self->escape, 1);
}

static void stay_silent(j_common_ptr info)
{
    (void)info;
}

static void compress(writer *w, const ls__image_view *image)
{
    jpeg_mem_dest(&w->info, &w->bytes, &w->size);
    w->info.image_width = (JDIMENSION)image->width;
    w->info.image_height = (JDIMENSION)image->height;
    w->info.input_components = image->channels;
    w->info.in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&w->info);
    jpeg_set_quality(&w->info, QUALITY, TRUE);
    w->info.comp_info[0].h_samp_factor = w->info.comp_info[0].v_samp_factor = 1;
    jpeg_start_compress(&w->info, TRUE);
    while (w->info.next_scanline < w->info.image_height) {
        /* libjpeg's type is not const, but it only reads the rows */
        JSAMPROW row = (JSAMPROW)(uintptr_t)(image->pixels +
                                             (int64_t)w->info.next_scanline * image->row_bytes);
        jpeg_write_scanlines(&w->info, &row, 1);
    }
    jpeg_finish_compress(&w->info);
}

bool ls__jpeg_write(const ls_context *ctx, const ls__image_view *image, uint8_t **out, size_t *size)
{
    *out = NULL;
    writer *w = ls__zalloc(ctx, sizeof *w);
    if (!w) return false;
    w->info.err = jpeg_std_error(&w->errors);
    w->info.client_data = w;
    w->errors.error_exit = escape;
    w->errors.output_message = stay_silent;
    if (setjmp(w->escape) == 0) {
        jpeg_create_compress(&w->info);
        compress(w, image);
        *out = ls__alloc(ctx, w->size);
        *size = w->size;
        if (*out) memcpy(*out, w->bytes, w->size);
    }
    jpeg_destroy_compress(&w->info);
    free(w->bytes);
    ls__free(ctx, w);
    return *out != NULL;
}
