/* jpeg.c: JPEG through libjpeg-turbo, with the accurate integer transform and smooth chroma, as
 * Pillow decodes it.
 *
 * Outside the region to decode, the blocks' bits are read but not transformed. The region has the
 * pixels of the whole image. The data below it are read, too, so that damage is found, unless an
 * earlier decode found none. A reduction by 2, 4 or 8 uses the lower frequencies alone, so its
 * pixels differ from those of a resized image.
 *
 * libjpeg warns of most damage, fills up with grey and continues. Here a warning of damaged pixels
 * is an error (see is_harmless). Each file has a new decompressor, because a used one keeps tables,
 * which a file without tables would use. It reads the header in the probe and the pixels later;
 * both call setjmp, because a jump into a function that has returned is undefined. libjpeg's own
 * memory (some 20 kB, and the coefficients of progressive files) comes from the C library. */
#include "data/decode/decoder.h"

#include <setjmp.h>
#include <stdio.h>
#include <jpeglib.h>
#include <jerror.h>

enum { ROWS = 16 };

/* A small file may hold many scans of a large image, each of a few bytes and a pass over all
 * blocks: 704 KB with 495 scans of 2^28 pixels took 44 s. So all scans together may have 2^32
 * samples (pixels of a component): 16 passes over one component of the largest image, 48 at
 * LS_DEFAULT_MAX_PIXELS. Encoders write about 10 scans, most of one component. A sample of
 * arithmetic coding counts as 8, because an empty block takes up to 5 ns, and 0.5 ns with Huffman
 * coding. MAX_SCANS limits the time that each scan takes whatever its size. */
enum { MAX_SCANS = 500, ARITHMETIC_WORK = 8 };
#define MAX_SCAN_WORK (INT64_C(1) << 32)

typedef struct ls__jpeg {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    ls__decoder *decoder;
    int64_t scan_work; /* pixels of all scans so far */
} ls__jpeg;

static void escape(j_common_ptr info)
{
    ls__jpeg *self = info->client_data;
    char text[JMSG_LENGTH_MAX];
    info->err->format_message(info, text);
    ls__undecodable(self->decoder, LS_ERR_DATA, "damaged JPEG: %s", text);
    longjmp(self->escape, 1);
}

/* Warnings that no pixel depends on. The others are errors: JWRN_HIT_MARKER, JWRN_JPEG_EOF (a scan
 * ends early), JWRN_HUFF_BAD_CODE, JWRN_ARITH_BAD_CODE, JWRN_MUST_RESYNC (lost or wrong data),
 * JWRN_BOGUS_PROGRESSION, JWRN_NOT_SEQUENTIAL (a scan's parameters make no sense),
 * JWRN_TOO_MUCH_DATA (never, because no more rows are read than there are). */
static bool is_harmless(const struct jpeg_error_mgr *errors)
{
    enum { FIRST_RST = 0xd0, LAST_RST = 0xd7 };
    switch (errors->msg_code) {
    /* A JFIF version other than 1; an unknown transform in Adobe's marker (YCbCr or YCCK then); the
     * colour profile, which is not read. */
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC: return true;
    /* Bytes between segments or after a scan, as some cameras write them. Before a restart marker
     * they mean that blocks were lost. */
    case JWRN_EXTRANEOUS_DATA:
        return errors->msg_parm.i[1] < FIRST_RST || errors->msg_parm.i[1] > LAST_RST;
    default: return false;
    }
}

/* Level -1 is a warning. */
static void on_message(j_common_ptr info, int level)
{
    if (level < 0 && !is_harmless(info->err)) escape(info);
}

/* Called before each row of blocks of each scan of a file that has several. */
static void on_progress(j_common_ptr common)
{
    const j_decompress_ptr info = (j_decompress_ptr)common;
    ls__jpeg *self = common->client_data;
    int64_t n_blocks = 0;
    for (int i = 0; i < info->comps_in_scan; i++)
        n_blocks += (int64_t)info->cur_comp_info[i]->width_in_blocks *
                    info->cur_comp_info[i]->v_samp_factor;
    self->scan_work += n_blocks * DCTSIZE2 * (info->arith_code ? ARITHMETIC_WORK : 1);
    if (info->input_scan_number > MAX_SCANS || self->scan_work > MAX_SCAN_WORK) {
        ls__undecodable(
            self->decoder, LS_ERR_DATA,
            "JPEG of %u x %u pixels in %d scans or more, which is too much work to decode",
            info->image_width, info->image_height, info->input_scan_number);
        longjmp(self->escape, 1);
    }
}

/* CMYK with Adobe's marker is stored inverted, so red is C K / 255, rounded. */
static void rgb_from_cmyk(const uint8_t *cmyk, int64_t width, bool inverted, uint8_t *rgb)
{
    const uint8_t flip = inverted ? 0 : 255;
    for (int64_t x = 0; x < width; x++) {
        const int black = cmyk[4 * x + 3] ^ flip;
        for (int c = 0; c < 3; c++)
            rgb[3 * x + c] = (uint8_t)(((cmyk[4 * x + c] ^ flip) * black + 127) / 255);
    }
}

static void read_rows(j_decompress_ptr info, ls__image *image)
{
    JSAMPROW rows[ROWS];
    for (int64_t y = 0; y < image->height;) {
        const int64_t left = image->height - y;
        const int n = left < ROWS ? (int)left : ROWS;
        for (int i = 0; i < n; i++) rows[i] = image->pixels + (y + i) * image->width * 3;
        y += jpeg_read_scanlines(info, rows, (JDIMENSION)n);
    }
}

static void read_cmyk_rows(j_decompress_ptr info, ls__image *image, ls__image *row)
{
    for (int64_t y = 0; y < image->height; y++) {
        JSAMPROW rows[1] = { row->pixels };
        jpeg_read_scanlines(info, rows, 1);
        rgb_from_cmyk(row->pixels, image->width, info->saw_Adobe_marker,
                      image->pixels + y * image->width * 3);
    }
}

/* ---- Regions. ---- */

/* libjpeg smoothes the blocks of an incomplete progressive file by their neighbours, which may be
 * skipped ones. */
static bool is_complete(const struct jpeg_decompress_struct *info)
{
    for (int c = 0; info->coef_bits && c < info->num_components; c++)
        for (int k = 0; k < DCTSIZE2; k++)
            if (info->coef_bits[c][k] != 0) return false;
    return true;
}

/* Reduced images whose luma is sampled 4 x 2 or 2 x 4 have other pixels below skipped rows
 * (libjpeg-turbo 2.1.5). */
static bool may_skip(const struct jpeg_decompress_struct *info, int reduction)
{
    const bool usual = info->max_h_samp_factor <= 2 && info->max_v_samp_factor <= 2;
    return (reduction == 1 || usual) && is_complete(info);
}

/* Widens the window, in reduced pixels, to one that can be decoded alone with the same bits, and
 * sets its columns in libjpeg. Smooth chroma reads a neighbour of 2 pixels on each side, and has
 * another formula for 1 or 2 samples: a margin of 4 pixels is enough for both. */
static void widen_window(j_decompress_ptr info, int reduction, ls__window *window)
{
    enum { MARGIN = 4 };
    const int64_t height = info->output_height, width = info->output_width;
    if (!may_skip(info, reduction)) {
        *window = (ls__window){ 0, 0, height, width };
        return;
    }
    int64_t left = window->left - MARGIN, right = window->left + window->width + MARGIN;
    if (left < 0) left = 0;
    if (right > width) right = width;
    /* Whole groups of rows that share chroma. */
    const int64_t group = info->max_v_samp_factor;
    int64_t bottom = (window->top + window->height + group - 1) / group * group;
    if (bottom > height) bottom = height;

    JDIMENSION first = (JDIMENSION)left, n = (JDIMENSION)(right - left);
    jpeg_crop_scanline(info, &first, &n);
    *window = (ls__window){ window->top, first, bottom - window->top, n };
}

/* Reads the bits after the window, for damage. The last row is decoded, because skipping it would
 * not read it. */
static void check_rest(j_decompress_ptr info, uint8_t *row)
{
    const JDIMENSION left = info->output_height - info->output_scanline;
    if (left > 1) jpeg_skip_scanlines(info, left - 1);
    JSAMPROW rows[1] = { row };
    if (left > 0) jpeg_read_scanlines(info, rows, 1);
    jpeg_finish_decompress(info);
}

/* After jpeg_start_decompress. */
static ls_status read_window(ls__jpeg *self, ls__window window, const ls__region *region)
{
    ls__decoder *decoder = self->decoder;
    j_decompress_ptr info = &self->info;
    widen_window(info, region->reduction, &window);
    LS_TRY(ls__decoder_begin_window(decoder, &window, region->reduction));
    const bool cmyk = info->out_color_space == JCS_CMYK;
    if (!ls__image_reserve(decoder->ctx, &decoder->scratch, 1, window.width, cmyk ? 4 : 3))
        return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory for a row");

    if (window.top > 0) jpeg_skip_scanlines(info, (JDIMENSION)window.top);
    if (cmyk)
        read_cmyk_rows(info, &decoder->image, &decoder->scratch);
    else
        read_rows(info, &decoder->image);
    if (!region->known_whole) check_rest(info, decoder->scratch.pixels);
    return LS_OK;
}

/* After a longjmp. */
static ls_status escaped(const ls__jpeg *self)
{
    return self->errors.msg_code == JERR_OUT_OF_MEMORY ? LS_ERR_MEMORY : LS_ERR_DATA;
}

static ls_status read_header(ls__jpeg *self)
{
    ls__decoder *decoder = self->decoder;
    j_decompress_ptr info = &self->info;
    if (setjmp(self->escape)) return escaped(self);
    jpeg_create_decompress(info);
    jpeg_mem_src(info, decoder->file, (unsigned long)decoder->file_bytes);
    jpeg_read_header(info, TRUE);
    if (info->jpeg_color_space == JCS_UNKNOWN)
        return ls__undecodable(decoder, LS_ERR_DATA, "JPEG of %d channels", info->num_components);
    decoder->is_cmyk = info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
    return ls__decoder_check(decoder, info->image_height, info->image_width);
}

ls_status ls__jpeg_probe(ls__decoder *decoder)
{
    ls__jpeg *self = ls__zalloc(decoder->ctx, sizeof(*self));
    if (!self) return ls__undecodable(decoder, LS_ERR_MEMORY, "no memory to decode a JPEG");
    decoder->jpeg = self;
    self->decoder = decoder;
    self->info.err = jpeg_std_error(&self->errors);
    self->info.client_data = self;
    self->errors.error_exit = escape;
    self->errors.emit_message = on_message;
    self->progress.progress_monitor = on_progress;
    return read_header(self);
}

ls_status ls__jpeg_decode(ls__decoder *decoder, const ls__region *stored)
{
    ls__jpeg *self = decoder->jpeg;
    j_decompress_ptr info = &self->info;
    if (setjmp(self->escape)) return escaped(self);
    info->out_color_space = self->decoder->is_cmyk ? JCS_CMYK : JCS_RGB;
    info->dct_method = JDCT_ISLOW;
    info->do_fancy_upsampling = TRUE;
    info->scale_num = 1;
    info->scale_denom = (unsigned)stored->reduction;
    info->progress = &self->progress;
    jpeg_start_decompress(info);
    info->progress = NULL; /* the rest is one pass over the pixels */

    const ls__window *window = &stored->window;
    const int reduction = stored->reduction;
    const int64_t top = window->top / reduction, left = window->left / reduction;
    const int64_t bottom = (window->top + window->height + reduction - 1) / reduction;
    const int64_t right = (window->left + window->width + reduction - 1) / reduction;
    return read_window(self, (ls__window){ top, left, bottom - top, right - left }, stored);
}

void ls__jpeg_close(ls__decoder *decoder)
{
    if (!decoder->jpeg) return;
    jpeg_destroy_decompress(&decoder->jpeg->info);
    ls__free(decoder->ctx, decoder->jpeg);
    decoder->jpeg = NULL;
}

#define TEXT(x)       #x
#define MACRO_TEXT(x) TEXT(x)

const char *ls__jpeg_version(void)
{
#ifdef LIBJPEG_TURBO_VERSION
    return "libjpeg-turbo " MACRO_TEXT(LIBJPEG_TURBO_VERSION);
#else
    return "libjpeg " MACRO_TEXT(JPEG_LIB_VERSION);
#endif
}
