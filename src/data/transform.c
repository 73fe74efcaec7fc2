/* transform.c: resize, crop, flip. The geometry follows torchvision's transforms (Resize,
 * CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip), the random numbers do not: each
 * is a word of a block of the picture's draw, so they depend on nothing else.
 *
 *   block 0            word 0: flip
 *   block 1            words 0, 1: top of a random crop; words 2, 3: its left
 *   block 2 + 2 try    word 0: area of the box; word 1: its aspect ratio
 *   block 3 + 2 try    words 0, 1: top of the box; words 2, 3: its left */
#include "data/transform.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_FLIP, BLOCK_CROP, BLOCK_BOX, BOX_TRIES = 10 };

double ls__log2(double x)
{
    /* x = 2^n m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh z with |z| < 0.172: the 13th term
     * is below 1e-20. */
    int n;
    double m = frexp(x, &n);
    if (m < 0.70710678118654752) {
        m *= 2;
        n--;
    }
    const double z = (m - 1) / (m + 1), square = z * z;
    double sum = 0;
    for (int k = 25; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return n + 2 * z * sum * 1.4426950408889634;
}

double ls__exp2(double x)
{
    /* 2^x = 2^n e^y with |y| < 0.347: the 16th term is below 1e-20. */
    const double n = floor(x + 0.5), y = (x - n) * 0.69314718055994531;
    double sum = 1;
    for (int k = 15; k >= 1; k--) sum = 1 + sum * y / k;
    return ldexp(sum, (int)n);
}

static void draw_block(const ls__transform *self, const ls_draw *draw, uint32_t block,
                       uint32_t words[4])
{
    ls_draw one = *draw;
    one.block = block;
    ls_random_words(self->seed, &one, words);
}

static double uniform(uint32_t word)
{
    return word * 0x1p-32;
}

/* The place of a window of `size` in 0..limit-1, at random. */
static int64_t offset_below(uint32_t high, uint32_t low, int64_t limit, int64_t size)
{
    return (int64_t)ls_random_below(high, low, (uint64_t)(limit - size + 1));
}

/* Half of an even number; of an odd one the even neighbour, as Python rounds. */
static int64_t half_to_even(int64_t n)
{
    const int64_t half = n / 2;
    return n % 2 ? half + half % 2 : half;
}

void ls__resized_size(int64_t resize, int64_t *height, int64_t *width)
{
    if (resize == 0) return;
    int64_t *shorter = *width <= *height ? width : height;
    int64_t *longer = *width <= *height ? height : width;
    *longer = resize * *longer / *shorter;
    *shorter = resize;
}

/* A box of that aspect ratio's limit, or the whole picture, in the centre. */
static ls__window central_box(const ls__transform *self, int64_t height, int64_t width)
{
    ls__window box = { 0, 0, height, width };
    const double ratio = (double)width / (double)height;
    if (ratio < self->ratio_min) {
        box.height = (int64_t)rint((double)width / self->ratio_min);
    } else if (ratio > self->ratio_max) {
        box.width = (int64_t)rint((double)height * self->ratio_max);
    }
    if (box.height < 1) box.height = 1;
    if (box.width < 1) box.width = 1;
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    return box;
}

ls__window ls__random_box(const ls__transform *self, const ls_draw *draw, int64_t height,
                          int64_t width)
{
    const double low = ls__log2(self->ratio_min), high = ls__log2(self->ratio_max);
    for (uint32_t attempt = 0; attempt < BOX_TRIES; attempt++) {
        uint32_t shape[4], place[4];
        draw_block(self, draw, BLOCK_BOX + 2 * attempt, shape);
        draw_block(self, draw, BLOCK_BOX + 2 * attempt + 1, place);
        const double part =
            self->scale_min + uniform(shape[0]) * (self->scale_max - self->scale_min);
        const double area = part * (double)height * (double)width;
        const double ratio = ls__exp2(low + uniform(shape[1]) * (high - low));
        ls__window box = { .height = (int64_t)rint(sqrt(area / ratio)),
                           .width = (int64_t)rint(sqrt(area * ratio)) };
        if (box.height < 1 || box.height > height || box.width < 1 || box.width > width) continue;
        box.top = offset_below(place[0], place[1], height, box.height);
        box.left = offset_below(place[2], place[3], width, box.width);
        return box;
    }
    return central_box(self, height, width);
}

/* The window that becomes the sample, of a picture of that size; it may reach into the padding. */
static bool crop_window(const ls__transform *self, const ls_draw *draw, int64_t height,
                        int64_t width, ls__window *out)
{
    *out = (ls__window){ 0, 0, self->height, self->width };
    if (self->crop == 0) return height == self->height && width == self->width;
    const int64_t padding = self->padding;
    if (height + 2 * padding < self->crop || width + 2 * padding < self->crop) return false;
    if (padding > 0) {
        uint32_t words[4];
        draw_block(self, draw, BLOCK_CROP, words);
        out->top = offset_below(words[0], words[1], height + 2 * padding, self->crop) - padding;
        out->left = offset_below(words[2], words[3], width + 2 * padding, self->crop) - padding;
    } else {
        out->top = half_to_even(height - self->crop);
        out->left = half_to_even(width - self->crop);
    }
    return true;
}

/* Zeros where the window lies outside. */
static void copy_window(const ls__view *from, const ls__window *window, uint8_t *dst)
{
    const int64_t row_bytes = window->width * from->channels;
    const int64_t begin = window->left < 0 ? -window->left : 0;
    const int64_t right = from->width - window->left;
    const int64_t end = right < window->width ? right : window->width;
    for (int64_t y = 0; y < window->height; y++, dst += row_bytes) {
        const int64_t row = window->top + y;
        if (row < 0 || row >= from->height || begin >= end) {
            memset(dst, 0, (size_t)row_bytes);
            continue;
        }
        memset(dst, 0, (size_t)(begin * from->channels));
        memcpy(dst + begin * from->channels,
               from->pixels + row * from->row_bytes + (window->left + begin) * from->channels,
               (size_t)((end - begin) * from->channels));
        memset(dst + end * from->channels, 0, (size_t)((window->width - end) * from->channels));
    }
}

static void flip_rows(int64_t height, int64_t width, int channels, uint8_t *pixels)
{
    for (int64_t y = 0; y < height; y++, pixels += width * channels) {
        uint8_t *left = pixels, *right = pixels + (width - 1) * channels;
        for (; left < right; left += channels, right -= channels) {
            for (int c = 0; c < channels; c++) {
                const uint8_t swap = left[c];
                left[c] = right[c];
                right[c] = swap;
            }
        }
    }
}

static ls_status resize_whole(ls__transformer *self, const ls__view *from, int64_t height,
                              int64_t width, ls__view *out)
{
    const ls_context *ctx = self->resizer.ctx;
    if (!ls__picture_reserve(ctx, &self->resized, height, width, from->channels))
        return LS_ERR_MEMORY;
    *out =
        (ls__view){ self->resized.pixels, width * from->channels, height, width, from->channels };
    const ls__window all = { 0, 0, height, width };
    return ls__resize(&self->resizer, from, height, width, &all, self->resized.pixels)
               ? LS_OK
               : LS_ERR_MEMORY;
}

static ls_status cut_box(const ls__transform *transform, ls__transformer *self,
                         const ls__view *from, const ls_draw *draw, uint8_t *dst)
{
    const ls__window box = ls__random_box(transform, draw, from->height, from->width);
    const ls__view part = { from->pixels + box.top * from->row_bytes + box.left * from->channels,
                            from->row_bytes, box.height, box.width, from->channels };
    const ls__window all = { 0, 0, transform->height, transform->width };
    return ls__resize(&self->resizer, &part, transform->height, transform->width, &all, dst)
               ? LS_OK
               : LS_ERR_MEMORY;
}

static ls_status misfit(const ls__transform *self, int64_t height, int64_t width, char *reason)
{
    if (self->crop == 0) {
        snprintf(reason, LS__REASON_SIZE,
                 "%lld x %lld pixels where the first picture has %lld x %lld, and no crop is set",
                 (long long)width, (long long)height, (long long)self->width,
                 (long long)self->height);
    } else {
        snprintf(reason, LS__REASON_SIZE, "%lld x %lld pixels with padding %lld, crop wants %lld",
                 (long long)width, (long long)height, (long long)self->padding,
                 (long long)self->crop);
    }
    return LS_ERR_DATA;
}

void ls__transformer_free(ls__transformer *self)
{
    ls__picture_free(self->resizer.ctx, &self->resized);
    ls__resizer_free(&self->resizer);
}

ls_status ls__transform_run(const ls__transform *transform, ls__transformer *self,
                            const ls__view *picture, const ls_draw *draw, uint8_t *dst,
                            char reason[LS__REASON_SIZE])
{
    int64_t height = picture->height, width = picture->width;
    ls__resized_size(transform->resize, &height, &width);
    if (width > LS__MAX_PIXELS / height) {
        snprintf(reason, LS__REASON_SIZE, "%lld x %lld pixels when resized, the limit is %d in all",
                 (long long)width, (long long)height, LS__MAX_PIXELS);
        return LS_ERR_DATA;
    }
    ls__view from = *picture;
    bool resizing = height != from.height || width != from.width;
    if (resizing && (transform->random_resized_crop || transform->padding > 0)) {
        LS_TRY(resize_whole(self, picture, height, width, &from));
        resizing = false;
    }

    if (transform->random_resized_crop) {
        LS_TRY(cut_box(transform, self, &from, draw, dst));
    } else {
        ls__window window;
        if (!crop_window(transform, draw, height, width, &window))
            return misfit(transform, height, width, reason);
        if (!resizing) {
            copy_window(&from, &window, dst);
        } else if (!ls__resize(&self->resizer, &from, height, width, &window, dst)) {
            return LS_ERR_MEMORY;
        }
    }
    uint32_t words[4];
    draw_block(transform, draw, BLOCK_FLIP, words);
    if (ls_random_uniform(words[0]) < transform->flip)
        flip_rows(transform->height, transform->width, from.channels, dst);
    return LS_OK;
}
