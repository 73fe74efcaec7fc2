/* single_image.c: ls_image_load and ls_image_resize. */
#include "data/decode/decoder.h"
#include "data/transform/resize.h"

#include "base/context.h"
#include "base/error.h"
#include "base/floats.h"
#include "tensor/tensor.h"
#include <lockstep/data.h>

ls_tensor *ls_image_load(ls_context *ctx, const char *path, bool honour_exif)
{
    LS__DEFAULT_FLOATS;
    LS__ENTER_NULL(ctx);
    if (!path) {
        ls__fail(ctx, LS_ERR_INVALID, "ls_image_load: no path given");
        return NULL;
    }
    ls_tensor *image = NULL;
    ls__decoder decoder = { .ctx = ctx };
    ls_status status = ls__decoder_probe(&decoder, path, honour_exif);
    if (status == LS_OK) status = ls__decode_region(&decoder, NULL);
    if (status == LS_OK) {
        const ls__image *decoded = &decoder.image;
        image = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(decoded->height, decoded->width, 3),
                                    decoded->pixels);
    } else {
        ls__fail(ctx, status, "image '%s': %s", path, decoder.reason);
    }
    ls__decoder_free(&decoder);
    return image;
}

static ls_status check_resize(ls_context *ctx, const ls_tensor *image, int64_t height,
                              int64_t width)
{
    const ls_shape *shape = &image->shape;
    if (image->dtype != LS_U8 || shape->n_dims != 3 || shape->dims[2] != 3 || image->count == 0) {
        char text[LS_SHAPE_TEXT_SIZE];
        return ls__fail(ctx, LS_ERR_SHAPE, "ls_image_resize: got %s %s, expected U8 [H,W,3]",
                        ls_dtype_name(image->dtype), ls_shape_text(shape, text, sizeof(text)));
    }
    if (height < 1 || width < 1)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_image_resize: to %lld x %lld pixels, expected 1 x 1 or more",
                        (long long)width, (long long)height);
    if (image->count / 3 > LS__MAX_PIXELS)
        return ls__fail(ctx, LS_ERR_INVALID,
                        "ls_image_resize: an image of %lld pixels, the limit is %d",
                        (long long)(image->count / 3), LS__MAX_PIXELS);
    char reason[LS__REASON_SIZE];
    if (ls__check_resize(shape->dims[0], shape->dims[1], height, width, reason) != LS_OK)
        return ls__fail(ctx, LS_ERR_INVALID, "ls_image_resize: %s", reason);
    return LS_OK;
}

ls_tensor *ls_image_resize(const ls_tensor *image, int64_t height, int64_t width)
{
    LS__DEFAULT_FLOATS;
    if (!image) return NULL;
    ls_context *ctx = image->owned.ctx;
    LS__ENTER_NULL(ctx);
    if (check_resize(ctx, image, height, width) != LS_OK) return NULL;
    ls_tensor *out = NULL;
    ls__resizer resizer = { .ctx = ctx };
    ls__image from = { 0 }, to = { 0 };
    bool has_memory = ls__image_reserve(ctx, &from, image->shape.dims[0], image->shape.dims[1], 3);
    if (has_memory && ls_tensor_read(image, from.pixels, image->bytes) == LS_OK) {
        const ls__source source = ls__source_of_image(&from);
        has_memory = ls__resize_image(&resizer, &source, height, width, &to);
        if (has_memory)
            out = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(height, width, 3), to.pixels);
    }
    if (!has_memory) ls__fail_memory(ctx, "ls_image_resize", (size_t)(height * width * 3));
    ls__buffer_free(ctx, &resizer.memory);
    ls__image_free(ctx, &from);
    ls__image_free(ctx, &to);
    return out;
}
