/* support.c: folders and small images for the tests of src/data. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <jpeglib.h>

#define STBI_WRITE_NO_STDIO
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb/stb_image_write.h>

uint8_t *draw_image(int h, int w, int c, unsigned seed)
{
    uint8_t *pixels = malloc((size_t)h * (size_t)w * (size_t)c);
    uint32_t state = seed * 2654435761u + 1;
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            for (int i = 0; i < c; i++) {
                state = state * 1664525u + 1013904223u;
                const int smooth = (y * (3 + (int)(seed % 5)) + x * (2 + i)) % 400;
                const int noise = (int)(state >> 27);
                const int value = (smooth < 200 ? smooth : 400 - smooth) + noise;
                pixels[(y * w + x) * c + i] = (uint8_t)(value > 255 ? 255 : value);
            }
        }
    }
    return pixels;
}

static void append_to_file(void *file, void *bytes, int n)
{
    ck_assert_uint_eq(fwrite(bytes, 1, (size_t)n, file), (size_t)n);
}

void write_png(const char *path, int h, int w, int c, const uint8_t *pixels)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file, "cannot write %s: %s", path, strerror(errno));
    ck_assert_int_ne(stbi_write_png_to_func(append_to_file, file, w, h, c, pixels, w * c), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* APP1 with a TIFF structure of one entry, Orientation. */
static void write_exif(struct jpeg_compress_struct *info, int orientation, bool big_endian)
{
    unsigned char note[] = { 'E', 'x',  'i',  'f', 0,
                             0,   'I',  'I',  '*', 0,
                             8,   0,    0,    0,   1,
                             0,   0x12, 0x01, 3,   0,
                             1,   0,    0,    0,   (unsigned char)orientation,
                             0,   0,    0,    0,   0,
                             0,   0 };
    const unsigned char big[] = { 'M',  'M',  0, '*', 0, 0, 0, 8, 0, 1,
                                  0x01, 0x12, 0, 3,   0, 0, 0, 1, 0, (unsigned char)orientation };
    if (big_endian) memcpy(note + 6, big, sizeof(big));
    jpeg_write_marker(info, JPEG_APP0 + 1, note, sizeof(note));
}

/* The first bit of each coefficient, then the bits below it, one scan for each. */
enum { FIRST_BIT = 10, MAX_SCANS = 64 * (FIRST_BIT + 1) };

static int fill_scans(jpeg_scan_info *scans)
{
    int n = 0;
    for (int bit = FIRST_BIT; bit >= 0; bit--)
        for (int k = 0; k < 64; k++)
            scans[n++] = (jpeg_scan_info){ .comps_in_scan = 1,
                                           .Ss = k,
                                           .Se = k,
                                           .Ah = bit == FIRST_BIT ? 0 : bit + 1,
                                           .Al = bit };
    return n;
}

static int fill_separate_scans(const struct jpeg_compress_struct *info, jpeg_scan_info *scans)
{
    for (int c = 0; c < info->num_components; c++)
        scans[c] =
            (jpeg_scan_info){ .comps_in_scan = 1, .component_index = { c }, .Se = DCTSIZE2 - 1 };
    return info->num_components;
}

static void choose_scans(struct jpeg_compress_struct *info, const jpeg_options *options,
                         jpeg_scan_info *scans)
{
    if (options->progressive) jpeg_simple_progression(info);
    if (options->unfinished) info->num_scans -= 4;
    if (!options->scans && !options->separate) return;
    info->num_scans = options->scans ? fill_scans(scans) : fill_separate_scans(info, scans);
    if (options->scans && options->scans < info->num_scans) info->num_scans = options->scans;
    info->scan_info = scans;
}

unsigned char *make_jpeg(int h, int w, const uint8_t *pixels, jpeg_options options, size_t *n)
{
    struct jpeg_compress_struct info;
    struct jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_compress(&info);
    unsigned char *bytes = NULL;
    unsigned long size = 0;
    jpeg_mem_dest(&info, &bytes, &size);
    const int channels = options.channels ? options.channels : 3;
    info.image_width = (JDIMENSION)w;
    info.image_height = (JDIMENSION)h;
    info.input_components = channels;
    info.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&info);
    jpeg_set_quality(&info, options.quality ? options.quality : 90, TRUE);
    if (channels == 4) info.write_Adobe_marker = options.adobe;
    if (options.across) info.comp_info[0].h_samp_factor = options.across;
    if (options.down) info.comp_info[0].v_samp_factor = options.down;
    info.arith_code = options.arithmetic;
    jpeg_scan_info scans[MAX_SCANS];
    choose_scans(&info, &options, scans);
    info.restart_in_rows = options.restart;
    if (options.no_tables) jpeg_suppress_tables(&info, TRUE);
    jpeg_start_compress(&info, !options.no_tables);
    if (options.orientation) write_exif(&info, options.orientation, options.big_endian);
    uint8_t *row = malloc((size_t)(w * channels));
    for (int y = 0; y < h; y++) {
        for (int i = 0; i < w * channels; i++)
            row[i] = options.adobe ? (uint8_t)(255 - pixels[y * w * channels + i])
                                   : pixels[y * w * channels + i];
        JSAMPROW rows[1] = { row };
        jpeg_write_scanlines(&info, rows, 1);
    }
    free(row);
    jpeg_finish_compress(&info);
    jpeg_destroy_compress(&info);
    *n = size;
    return bytes;
}

void write_jpeg(const char *path, int h, int w, const uint8_t *pixels, jpeg_options options)
{
    size_t n;
    unsigned char *bytes = make_jpeg(h, w, pixels, options, &n);
    write_file(path, bytes, n);
    free(bytes);
}

const char *trap_images(void)
{
    const char *folder = getenv("LOCKSTEP_TEST_IMAGES");
    if (!folder) folder = LOCKSTEP_SOURCE_DIR "/../shared/images";
    struct stat info;
    return stat(folder, &info) == 0 ? folder : NULL;
}
