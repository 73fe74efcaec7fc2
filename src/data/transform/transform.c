/* transform.c: resize, crop, flip. The geometry follows torchvision's transforms (Resize,
 * CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip), the random numbers do not: each
 * is a word of a block of the image's draw, so they depend on nothing else.
 */
#include "data/transform/transform.h"
#include "data/transform/draws.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* n / 2 rounded half to even, as Python rounds. */
static int64_t half_to_even(int64_t n)
{
    const int64_t half = n / 2;
    return n % 2 ? half + half % 2 : half;
}

/* a b / c, rounded to nearest and at least 1. */
static int64_t scaled(int64_t a, int64_t b, int64_t c)
{
    const int64_t out = (2 * a * b + c) / (2 * c);
    return out > 0 ? out : 1;
}

void ls__transformed_size(const ls__transform *self, int64_t *height, int64_t *width,
                          ls__window *content)
{
    const int64_t box_height = self->resize;
    const int64_t box_width =
        self->crop > 0 ? self->resize * self->crop_width / self->crop : self->resize;
    const int64_t by_height = *width * box_height, by_width = *height * box_width;
    *content = (ls__window){ 0, 0, *height, *width };
    if (self->resize == 0) return;
    if (self->resize_mode == LS_RESIZE_CROP) {
        content->width = by_height <= by_width ? box_width : by_height / *height;
        content->height = by_height <= by_width ? by_width / *width : box_height;
    } else {
        content->width = box_width;
        content->height = box_height;
    }
    if (self->resize_mode == LS_RESIZE_PAD && by_height > by_width)
        content->height = scaled(*height, box_width, *width);
    else if (self->resize_mode == LS_RESIZE_PAD)
        content->width = scaled(*width, box_height, *height);
    const bool crops = self->resize_mode == LS_RESIZE_CROP;
    *height = crops ? content->height : box_height;
    *width = crops ? content->width : box_width;
    content->top = half_to_even(*height - content->height);
    content->left = half_to_even(*width - content->width);
}

/* The central box with the nearest allowed aspect ratio. */
static ls__window central_box(const ls__transform *self, int64_t height, int64_t width)
{
    ls__window box = { 0, 0, height, width };
    const double ratio = (double)width / (double)height;
    if (ratio < self->ratio_min)
        box.height = (int64_t)rint((double)width / self->ratio_min);
    else if (ratio > self->ratio_max)
        box.width = (int64_t)rint((double)height * self->ratio_max);
    if (box.height < 1) box.height = 1;
    if (box.width < 1) box.width = 1;
    box.top = (height - box.height) / 2;
    box.left = (width - box.width) / 2;
    return box;
}

ls__window ls__random_box(const ls__transform *self, const ls_draw *draw, int64_t height,
                          int64_t width)
{
    const ls__box_range range = { self->scale_min, self->scale_max, self->ratio_min,
                                  self->ratio_max };
    ls__window box;
    if (ls__draw_box(self->seed, draw, LS__BLOCK_BOX, &range, height, width, height, width, &box))
        return box;
    return central_box(self, height, width);
}

/* The crop window of an image of that size; it may reach into the padding. */
static ls_status crop_window(const ls__transform *self, const ls_draw *draw, int64_t height,
                             int64_t width, ls__window *out, char reason[LS__REASON_SIZE])
{
    const int64_t crop = self->crop, crop_width = self->crop_width, padding = self->padding;
    *out = (ls__window){ 0, 0, self->height, self->width };
    if (crop == 0 && (height != self->height || width != self->width)) {
        snprintf(reason, LS__REASON_SIZE,
                 "%lld x %lld pixels where the first image has %lld x %lld, and no crop is set",
                 (long long)width, (long long)height, (long long)self->width,
                 (long long)self->height);
        return LS_ERR_DATA;
    }
    if (height + 2 * padding < crop || width + 2 * padding < crop_width) {
        char text[48];
        if (crop == crop_width)
            snprintf(text, sizeof(text), "%lld", (long long)crop);
        else
            snprintf(text, sizeof(text), "%lld x %lld", (long long)crop_width, (long long)crop);
        snprintf(reason, LS__REASON_SIZE, "%lld x %lld pixels with padding %lld, crop is %s",
                 (long long)width, (long long)height, (long long)padding, text);
        return LS_ERR_DATA;
    }
    if (padding > 0) {
        uint32_t words[4];
        ls__draw_block(self->seed, draw, LS__BLOCK_CROP, words);
        out->top = ls__random_offset(words[0], words[1], height + 2 * padding, crop) - padding;
        out->left =
            ls__random_offset(words[2], words[3], width + 2 * padding, crop_width) - padding;
    } else if (crop > 0) {
        out->top = half_to_even(height - crop);
        out->left = half_to_even(width - crop_width);
    }
    return LS_OK;
}

/* One axis of a crop that is cut, then resized: pixels beyond it are not read. */
static ls__resize_axis crop_axis(int64_t begin, int64_t size, int reduction, int64_t at,
                                 int64_t out)
{
    const int64_t first = begin / reduction;
    return (ls__resize_axis){ .begin = (double)begin / reduction - (double)first,
                              .length = (double)size / reduction,
                              .limit = (begin + size + reduction - 1) / reduction - first,
                              .at = at - first,
                              .out = out,
                              .n = out };
}

/* ---- The plan. ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* The image's pixels in a window that may reach over its edges; at least one. */
static ls__window inside(ls__window window, int64_t height, int64_t width)
{
    const int64_t top = clamp(window.top, 0, height - 1);
    const int64_t left = clamp(window.left, 0, width - 1);
    const int64_t bottom = clamp(window.top + window.height, top + 1, height);
    const int64_t right = clamp(window.left + window.width, left + 1, width);
    return (ls__window){ top, left, bottom - top, right - left };
}

/* The largest reduction that leaves an image no smaller than the size it is resized to. */
static int max_reduction(int64_t height, int64_t width, int64_t to_height, int64_t to_width)
{
    int reduction = 8;
    while (reduction > 1 && (height / reduction < to_height || width / reduction < to_width))
        reduction /= 2;
    return reduction;
}

/* The image's pixels that the crop window of the resized image depends on. */
static ls__window window_inputs(const ls__sample_plan *plan, int64_t height, int64_t width,
                                int reduction)
{
    const ls__window *crop = &plan->crop;
    const ls__resize_axis rows =
        ls__axis_of(height, 1, 0, plan->resized_height, crop->top, crop->height);
    const ls__resize_axis columns =
        ls__axis_of(width, 1, 0, plan->resized_width, crop->left, crop->width);
    ls__window out;
    ls__axis_inputs(&rows, &out.top, &out.height);
    ls__axis_inputs(&columns, &out.left, &out.width);
    /* A reduced image may need one more pixel on each side. */
    const int64_t more = reduction > 1 ? reduction : 0;
    return inside((ls__window){ out.top - more, out.left - more, out.height + 2 * more,
                                out.width + 2 * more },
                  height, width);
}

static ls__region plan_region(const ls__transform *self, const ls__sample_plan *plan,
                              int64_t height, int64_t width)
{
    const bool fast = self->decode == LS_DECODE_FAST;
    ls__region out = { .reduction = 1 };
    if (plan->resize_first || plan->mode == LS__CROP_RESIZED) {
        if (fast)
            out.reduction = max_reduction(height, width, plan->content.height, plan->content.width);
        out.window = plan->resize_first ? (ls__window){ 0, 0, height, width }
                                        : window_inputs(plan, height, width, out.reduction);
    } else {
        if (fast && plan->mode == LS__CROP_RESIZE)
            out.reduction =
                max_reduction(plan->crop.height, plan->crop.width, plan->height, plan->width);
        out.window = inside(plan->crop, height, width);
    }
    return out;
}

ls_status ls__transform_plan(const ls__transform *self, const ls_draw *draw, int64_t height,
                             int64_t width, ls__sample_plan *out, char reason[LS__REASON_SIZE])
{
    *out = (ls__sample_plan){ .resized_height = height,
                              .resized_width = width,
                              .height = self->height,
                              .width = self->width };
    ls__transformed_size(self, &out->resized_height, &out->resized_width, &out->content);
    memcpy(out->fill, self->fill, sizeof(out->fill));
    const bool resizing = out->resized_height != height || out->resized_width != width;
    if (resizing) {
        LS_TRY(ls__check_resize(height, width, out->resized_height, out->resized_width, reason));
        LS_TRY(ls__check_resize(height, width, out->content.height, out->content.width, reason));
    }
    out->resize_first = (resizing && (self->random_resized_crop || self->padding > 0)) ||
                        out->content.height != out->resized_height ||
                        out->content.width != out->resized_width;
    if (self->random_resized_crop) {
        out->mode = LS__CROP_RESIZE;
        out->crop = ls__random_box(self, draw, out->resized_height, out->resized_width);
        LS_TRY(
            ls__check_resize(out->crop.height, out->crop.width, self->height, self->width, reason));
    } else {
        out->mode = resizing && !out->resize_first ? LS__CROP_RESIZED : LS__CROP_COPY;
        LS_TRY(
            crop_window(self, draw, out->resized_height, out->resized_width, &out->crop, reason));
    }
    uint32_t words[4];
    ls__draw_block(self->seed, draw, LS__BLOCK_FLIP, words);
    out->flip = ls_random_uniform(words[0]) < self->flip;
    ls__draw_block(self->seed, draw, LS__BLOCK_VERTICAL_FLIP, words);
    out->vertical_flip = ls_random_uniform(words[0]) < self->vertical_flip;
    if (self->augment)
        ls__augment_choose(self->augment, self->seed, draw, self->height, self->width,
                           &out->augment);
    out->region = plan_region(self, out, height, width);
    return LS_OK;
}

/* ---- Applying it. ---- */

/* Copies the window, with zeros outside of the image. */
static void copy_window(const ls__source *from, const ls__window *window, uint8_t *dst)
{
    const int channels = from->view.channels;
    const int64_t row_bytes = window->width * channels;
    const int64_t begin = window->left < 0 ? -window->left : 0;
    const int64_t right = from->width - window->left;
    const int64_t end = right < window->width ? right : window->width;
    for (int64_t y = 0; y < window->height; y++, dst += row_bytes) {
        const int64_t row = window->top + y;
        if (row < 0 || row >= from->height || begin >= end) {
            memset(dst, 0, (size_t)row_bytes);
            continue;
        }
        memset(dst, 0, (size_t)(begin * channels));
        memcpy(dst + begin * channels,
               from->view.pixels + (row - from->top) * from->view.row_bytes +
                   (window->left + begin - from->left) * channels,
               (size_t)((end - begin) * channels));
        memset(dst + end * channels, 0, (size_t)((window->width - end) * channels));
    }
}

static void flip_horizontal(int64_t height, int64_t width, int channels, uint8_t *pixels)
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

static bool flip_vertical(ls__transformer *self, int64_t height, int64_t row_bytes, uint8_t *pixels)
{
    const size_t n = (size_t)row_bytes;
    if (!ls__buffer_reserve(self->resizer.ctx, &self->copy, n)) return false;
    uint8_t *top = pixels, *bottom = pixels + (height - 1) * row_bytes;
    for (; top < bottom; top += row_bytes, bottom -= row_bytes) {
        memcpy(self->copy.bytes, top, n);
        memcpy(top, bottom, n);
        memcpy(bottom, self->copy.bytes, n);
    }
    return true;
}

/* The crop window, resized to the sample or cut from the resized image. */
static bool resize_crop(ls__transformer *self, const ls__sample_plan *plan, const ls__source *from,
                        uint8_t *dst)
{
    const ls__window *crop = &plan->crop;
    const int reduction = from->reduction;
    ls__resize_axis rows, columns;
    if (plan->mode == LS__CROP_RESIZE) {
        rows = crop_axis(crop->top, crop->height, reduction, from->top, plan->height);
        columns = crop_axis(crop->left, crop->width, reduction, from->left, plan->width);
    } else {
        rows = ls__axis_of(from->height, reduction, from->top, plan->resized_height, crop->top,
                           crop->height);
        columns = ls__axis_of(from->width, reduction, from->left, plan->resized_width, crop->left,
                              crop->width);
    }
    columns.mirror = plan->flip;
    return ls__resize_region(&self->resizer, &from->view, &rows, &columns, dst);
}

void ls__transformer_free(ls__transformer *self)
{
    ls__image_free(self->resizer.ctx, &self->resized);
    ls__image_free(self->resizer.ctx, &self->padded);
    ls__buffer_free(self->resizer.ctx, &self->resizer.memory);
    ls__buffer_free(self->resizer.ctx, &self->copy);
}

/* The whole image after `resize`, in memory of the transformer; NULL without memory. */
static const ls__image *resize_whole(ls__transformer *self, const ls__sample_plan *plan,
                                     const ls__source *source)
{
    const ls__window *content = &plan->content;
    const ls_context *ctx = self->resizer.ctx;
    const int64_t width = plan->resized_width;
    const int channels = source->view.channels;
    ls__image *inner = &self->resized, *out = &self->padded;
    if (!ls__resize_image(&self->resizer, source, content->height, content->width, inner))
        return NULL;
    if (content->height == plan->resized_height && content->width == width) return inner;
    if (!ls__image_reserve(ctx, out, plan->resized_height, width, channels)) return NULL;
    for (int64_t i = 0; i < out->height * width; i++)
        memcpy(out->pixels + i * channels, plan->fill, (size_t)channels);
    const int64_t row_bytes = content->width * channels;
    for (int64_t y = 0; y < content->height; y++)
        memcpy(out->pixels + ((content->top + y) * width + content->left) * channels,
               inner->pixels + y * row_bytes, (size_t)row_bytes);
    return out;
}

bool ls__transform_apply(const ls__sample_plan *plan, ls__transformer *self,
                         const ls__source *source, uint8_t *dst)
{
    ls__source resized;
    if (plan->resize_first) {
        const ls__image *image = resize_whole(self, plan, source);
        if (!image) return false;
        resized = ls__source_of_image(image);
        source = &resized;
    }
    const int channels = source->view.channels;
    if (plan->mode != LS__CROP_COPY) {
        if (!resize_crop(self, plan, source, dst)) return false;
    } else {
        copy_window(source, &plan->crop, dst);
        if (plan->flip) flip_horizontal(plan->height, plan->width, channels, dst);
    }
    if (plan->vertical_flip && !flip_vertical(self, plan->height, plan->width * channels, dst))
        return false;
    return ls__augment_apply(&plan->augment, self->resizer.ctx, &self->copy, plan->height,
                             plan->width, channels, plan->fill, dst);
}
