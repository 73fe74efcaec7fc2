/* advice_images.c: warnings about images that the settings of a run do not suit; see run_state.h.
 * Some training images are examined, evenly spaced. */
#include "base/error.h"
#include "base/path.h"
#include "run/folders.h"
#include "run/run_state.h"
#include <stdio.h>
#include <stdlib.h>

enum { MAX_EXAMINED = 15 }; /* images */

/* The images that were read. */
typedef struct examined {
    ls_context *ctx;
    const ls__run_settings *settings;
    const ls_model *model; /* the bundled one; NULL: a program's own */
    int n;
    ls_image_info images[MAX_EXAMINED];
} examined;

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- Sizes ---- */

enum { SIZE_TEXT_SIZE = 48 };

static int64_t shorter_side(const ls_size *size)
{
    return size->height < size->width ? size->height : size->width;
}

/* "224", or "96x576", of the shape of --image-size with another shorter side. */
static const char *size_text(const ls_size *size, int64_t shorter, char out[SIZE_TEXT_SIZE])
{
    const int64_t old = shorter_side(size);
    if (size->height == size->width)
        snprintf(out, SIZE_TEXT_SIZE, "%lld", (long long)shorter);
    else
        snprintf(out, SIZE_TEXT_SIZE, "%lldx%lld", (long long)(size->height * shorter / old),
                 (long long)(size->width * shorter / old));
    return out;
}

/* The pixels of an image that become the shorter side of --image-size: of the side that decides the
 * scale. The other side is cut by a crop, and filled by padding; of a stretched image it is
 * enlarged more. */
static int64_t used_side(const ls__run_settings *r, const ls_image_info *image)
{
    const ls_size *size = &r->image_size;
    const bool by_height = (image->height * size->width < image->width * size->height) ==
                           (r->resize_mode == LS_RESIZE_CROP);
    const int64_t shorter = shorter_side(size);
    return by_height ? shorter * image->height / size->height
                     : shorter * image->width / size->width;
}

/* Detects images that would be much enlarged, and photographs that would be reduced to thumbnails.
 * From 128 pixels on, the shapes in a photograph stay recognizable; 224 is the usual size. */
static void advise_size(const examined *e)
{
    enum { MUCH = 4, ENOUGH = 128, MIN_SIZE = 32 };
    static const char *const names[] = { "shorter side", "longer side", "longer side" };
    const ls__run_settings *r = e->settings;
    const ls_size *wanted = &r->image_size;
    const int64_t size = shorter_side(wanted);
    int64_t sides[MAX_EXAMINED];
    char now[SIZE_TEXT_SIZE], other[SIZE_TEXT_SIZE];
    if (e->n == 0) return;
    for (int i = 0; i < e->n; i++) sides[i] = used_side(r, &e->images[i]);
    qsort(sides, (size_t)e->n, sizeof(*sides), by_size);
    const int64_t median = sides[e->n / 2];
    const char *name =
        wanted->height == wanted->width ? names[r->resize_mode] : "side that decides the scale";
    size_text(wanted, size, now);
    int64_t better = MIN_SIZE;
    while (better < median) better *= 2;
    if (MUCH * median < size && better < size)
        ls__warn(e->ctx, LS_LOG_RUN,
                 "most training images are much smaller than --image-size %s (median %s of %d "
                 "images: %lld pixels): enlarging them costs time and adds no detail; "
                 "--image-size %s may do",
                 now, name, e->n, (long long)median, size_text(wanted, better, other));
    if (size >= ENOUGH || median < MUCH * size) return;
    const bool is_for_small = e->model && e->model->image_size < ENOUGH;
    ls__warn(e->ctx, LS_LOG_RUN,
             "most training images are much larger than --image-size %s (median %s of %d "
             "images: %lld pixels): details are lost; for photographs use %s--image-size %s",
             now, name, e->n, (long long)median, is_for_small ? "--model resnet18 " : "",
             size_text(wanted, ENOUGH, other));
}

/* The per cent of the image that the crop leaves out. The crop has the shape of --image-size, and
 * the whole of one side. */
static double left_out(const ls__run_settings *r, const ls_image_info *image)
{
    const double a = (double)(image->height * r->image_size.width),
                 b = (double)(image->width * r->image_size.height);
    return 100 * (1 - (a < b ? a / b : b / a));
}

/* An --image-size of this image's shape, whose shorter side is that of --image-size, and whose
 * longer one a multiple of 8. */
static ls_size fitting_size(const ls__run_settings *r, const ls_image_info *image)
{
    enum { UNIT = 8 };
    const int64_t side = shorter_side(&r->image_size);
    const int64_t shorter = image->height < image->width ? image->height : image->width;
    const int64_t longer = image->height + image->width - shorter;
    const int64_t other = (side * longer / shorter + UNIT / 2) / UNIT * UNIT;
    return image->height < image->width ? (ls_size){ side, other } : (ls_size){ other, side };
}

/* 'lockstep check' lists an image from the same share on. */
static void advise_crop(const examined *e)
{
    enum { PART = 4 };
    const double much = 37.5;
    const ls__run_settings *r = e->settings;
    int64_t shares[MAX_EXAMINED];
    ls_size size = { 0 };
    int n = 0;
    for (int i = 0; i < e->n && r->resize_mode == LS_RESIZE_CROP; i++) {
        const double share = left_out(r, &e->images[i]);
        if (share <= much) continue;
        if (n == 0) size = fitting_size(r, &e->images[i]);
        shares[n++] = (int64_t)share;
    }
    if (n == 0 || PART * n < e->n) return;
    qsort(shares, (size_t)n, sizeof(*shares), by_size);
    ls__warn(e->ctx, LS_LOG_RUN,
             "the centre crop leaves out more than %d %% of %d of %d training images "
             "examined (median %lld %%): --resize pad or --resize stretch uses the whole image; "
             "--image-size %lldx%lld gives the crop the shape of the first of them",
             (int)much, n, e->n, (long long)shares[n / 2], (long long)size.height,
             (long long)size.width);
}

static void advise_orientation(const examined *e)
{
    int n_turned = 0;
    for (int i = 0; i < e->n; i++) n_turned += e->images[i].orientation > 1;
    if (n_turned > 0 && !e->settings->exif)
        ls__warn(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have an EXIF orientation: without --exif "
                 "they are used as stored, turned or mirrored",
                 n_turned, e->n);
}

/* ---- Transparency ---- */

static const char *const alpha_words[] = { "white", "black", "ignore" };

static void advise_transparency(const examined *e)
{
    static const char *const alphas[] = { "composed on white", "composed on black",
                                          "used with their stored colours" };
    const int alpha = e->settings->alpha;
    int n_transparent = 0, n_uniform[3] = { 0 };
    for (int i = 0; i < e->n; i++) {
        const ls_image_info *image = &e->images[i];
        n_transparent += image->transparent;
        for (int k = 0; k < 3; k++) n_uniform[k] += image->transparent && image->uniform[k];
    }
    if (n_transparent > 0)
        ls__note(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have transparent pixels, which are %s "
                 "(--alpha white|black|ignore)",
                 n_transparent, e->n, alphas[alpha]);
    int best = 0;
    for (int k = 1; k < 3; k++)
        if (n_uniform[k] < n_uniform[best]) best = k;
    if (n_uniform[alpha] == 0) return;
    if (n_uniform[best] < n_uniform[alpha])
        ls__warn(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have one colour when they are %s, because "
                 "their shapes are in alpha: --alpha %s shows %d of them",
                 n_uniform[alpha], e->n, alphas[alpha], alpha_words[best],
                 n_uniform[alpha] - n_uniform[best]);
    else
        ls__warn(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have one colour when they are %s, and "
                 "with any other --alpha",
                 n_uniform[alpha], e->n, alphas[alpha]);
}

/* ---- Samples ---- */

/* Whether samples from min to max give one colour with the depth, as ls_image_info.uniform. */
static bool gives_one_colour(int min, int max, int depth)
{
    const int shift = depth - 8, low = min >> shift, high = max >> shift;
    return (high < 255 ? high : 255) - (low < 255 ? low : 255) <= 2;
}

/* Images of 16 bits of which only the lower bits are used would be nearly black. */
static void advise_depth(const examined *e)
{
    const int depth = e->settings->depth > 0 ? (int)e->settings->depth : 16;
    int min = UINT16_MAX, max = 0, bits = 9, n_deep = 0;
    for (int i = 0; i < e->n; i++) {
        const ls_image_info *image = &e->images[i];
        if (image->max_sample == 0) continue;
        n_deep++;
        if (image->min_sample < min) min = image->min_sample;
        if (image->max_sample > max) max = image->max_sample;
    }
    while (bits < 16 && max >> bits) bits++;
    if (n_deep > 0 && bits < depth)
        ls__warn(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have samples of 16 bits that use %d to "
                 "%d only: they are nearly black; --depth %d shows their differences",
                 n_deep, e->n, min, max, bits);
    else if (n_deep > 0 && bits > depth)
        ls__warn(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have samples of 16 bits up to %d: "
                 "--depth %d makes those above %d white",
                 n_deep, e->n, max, depth, (1 << depth) - 1);
    else if (n_deep > 0 && gives_one_colour(min, max, depth))
        ls__warn(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have samples of 16 bits that use %d to "
                 "%d only, which are one grey with any --depth: convert them to 8 bits with "
                 "their range",
                 n_deep, e->n, min, max);
}

/* Opaque images. Those of 16 bits depend on the depth. */
static void advise_uniform(const examined *e)
{
    const int depth = e->settings->depth > 0 ? (int)e->settings->depth : 16;
    int n = 0;
    for (int i = 0; i < e->n; i++) {
        const ls_image_info *image = &e->images[i];
        if (!image->transparent)
            n += image->max_sample > 0
                     ? gives_one_colour(image->min_sample, image->max_sample, depth)
                     : image->uniform[e->settings->alpha];
    }
    if (n > 0)
        ls__warn(e->ctx, LS_LOG_RUN,
                 "%d of %d training images examined have one colour, which shows nothing to "
                 "learn; 'lockstep check' lists them",
                 n, e->n);
}

/* Settings that none of the images is subject to. A pack of pixels does not have what they act on.
 */
static void advise_no_effect(const examined *e)
{
    const ls__run_settings *r = e->settings;
    bool has_alpha = false, is_deep = false;
    for (int i = 0; i < e->n; i++) {
        has_alpha = has_alpha || e->images[i].transparent;
        is_deep = is_deep || e->images[i].max_sample > 0;
    }
    if (e->n == 0) return;
    if (r->alpha != LS_ALPHA_WHITE && !has_alpha)
        ls__note(e->ctx, LS_LOG_RUN,
                 "--alpha %s changes nothing in the %d training images examined: they have no "
                 "transparent pixels",
                 alpha_words[r->alpha], e->n);
    if (r->depth > 0 && !is_deep)
        ls__note(e->ctx, LS_LOG_RUN,
                 "--depth %lld changes nothing in the %d training images examined: they have no "
                 "samples of 16 bits without a stated range",
                 (long long)r->depth, e->n);
}

void ls__run_advise_images(const ls_run *t)
{
    examined e = { .ctx = t->ctx,
                   .settings = t->settings,
                   .model = t->model ? NULL : ls_model_find(t->settings->model) };
    const int64_t n = ls_dataset_sample_count(t->train_data);
    for (int64_t i = 0; i < MAX_EXAMINED && i < n; i++) {
        const int64_t sample = n > MAX_EXAMINED ? i * (n - 1) / (MAX_EXAMINED - 1) : i;
        e.n += ls_dataset_image_info(t->train_data, sample, &e.images[e.n]) == LS_OK;
        ls_context_clear_error(t->ctx);
    }
    advise_size(&e);
    advise_crop(&e);
    advise_orientation(&e);
    advise_transparency(&e);
    advise_depth(&e);
    advise_uniform(&e);
    if (!ls__is_file(t->settings->data_dir) || ls__folders_has_csv(t->settings->data_dir))
        advise_no_effect(&e);
}
