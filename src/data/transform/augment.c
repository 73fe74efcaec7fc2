/* augment.c: see augment.h. The distributions are those of torchvision's ColorJitter,
 * RandomErasing, TrivialAugmentWide and RandAugment. */
#include "data/transform/augment.h"
#include "data/transform/draws.h"

#include <assert.h>
#include <string.h>

/* RandomErasing's scale, and its ratio (height / width) of 0.3 to 3.3 as width / height. */
static const ls__box_range erased_range = {
    .scale_min = 0.02, .scale_max = 0.33, .ratio_min = 1 / 3.3, .ratio_max = 1 / 0.3
};

/* 0..n-1; n is small. */
static int choose(uint32_t word, int n)
{
    return (int)((uint64_t)word * (uint32_t)n >> 32);
}

static void append(ls__augment_plan *plan, const ls__pixel_op *op)
{
    assert(plan->n_ops < LS__MAX_AUGMENT_OPS);
    plan->ops[plan->n_ops++] = *op;
}

static void choose_auto(const ls_loader_config *config, uint64_t seed, const ls_draw *draw,
                        int64_t height, int64_t width, ls__augment_plan *out)
{
    const bool trivial = config->auto_augment == LS_AUTO_AUGMENT_TRIVIAL;
    const int n = trivial ? 1 : LS__RAND_AUGMENT_OPS;
    for (int i = 0; i < n; i++) {
        uint32_t words[4];
        ls__pixel_op chosen;
        ls__draw_block(seed, draw, LS__BLOCK_AUTO_AUGMENT + (uint32_t)i, words);
        const ls__auto_op op = (ls__auto_op)choose(words[0], LS__N_AUTO_OPS);
        const int bin = trivial ? choose(words[1], LS__MAGNITUDE_BINS) : LS__RAND_AUGMENT_BIN;
        if (ls__auto_pixel_op(config->auto_augment, op, bin, choose(words[2], 2), height, width,
                              &chosen))
            append(out, &chosen);
    }
}

/* The factor of an enhancement: uniform in [1 - x, 1 + x], and not below 0. */
static float jitter_factor(double x, uint32_t word)
{
    const double low = x < 1 ? 1 - x : 0;
    return (float)(low + word * 0x1p-32 * (1 + x - low));
}

static void choose_jitter(const ls_loader_config *config, uint64_t seed, const ls_draw *draw,
                          ls__augment_plan *out)
{
    uint32_t words[4], order[4];
    ls__draw_block(seed, draw, LS__BLOCK_JITTER, words);
    ls__draw_block(seed, draw, LS__BLOCK_JITTER_ORDER, order);
    const double amounts[4] = { (double)config->brightness, (double)config->contrast,
                                (double)config->saturation, (double)config->hue };
    static const ls__pixel_op_kind kinds[4] = { LS__PIXEL_BRIGHTNESS, LS__PIXEL_CONTRAST,
                                                LS__PIXEL_SATURATION, LS__PIXEL_HUE };
    int left[4] = { 0, 1, 2, 3 };
    for (int n = 4, code = choose(order[0], 24); n > 0; code /= n--) {
        const int k = code % n, i = left[k];
        left[k] = left[n - 1];
        if (amounts[i] == 0) continue;
        ls__pixel_op op = { .kind = kinds[i] };
        if (kinds[i] == LS__PIXEL_HUE) /* in [-hue, hue] circles, towards 0, as torchvision */
            op.amount = (int)((words[i] * 0x1p-32 * 2 - 1) * amounts[i] * 255);
        else
            op.factor = jitter_factor(amounts[i], words[i]);
        append(out, &op);
    }
}

void ls__augment_choose(const ls_loader_config *config, uint64_t seed, const ls_draw *draw,
                        int64_t height, int64_t width, ls__augment_plan *out)
{
    *out = (ls__augment_plan){ 0 };
    if (config->auto_augment != LS_AUTO_AUGMENT_NONE)
        choose_auto(config, seed, draw, height, width, out);
    if (config->brightness > 0 || config->contrast > 0 || config->saturation > 0 || config->hue > 0)
        choose_jitter(config, seed, draw, out);
    if (config->random_erase > 0) {
        uint32_t words[4];
        ls__draw_block(seed, draw, LS__BLOCK_ERASE, words);
        if (ls_random_uniform(words[0]) < config->random_erase)
            ls__draw_box(seed, draw, LS__BLOCK_ERASE_BOX, &erased_range, height, width, height - 1,
                         width - 1, &out->erased);
    }
}

static void erase(const ls__window *box, int64_t width, int channels, const uint8_t *bytes,
                  uint8_t *pixels)
{
    for (int64_t y = 0; y < box->height; y++) {
        uint8_t *row = pixels + ((box->top + y) * width + box->left) * channels;
        for (int64_t x = 0; x < box->width; x++, row += channels)
            memcpy(row, bytes, (size_t)channels);
    }
}

bool ls__augment_apply(const ls__augment_plan *plan, const ls_context *ctx, ls__buffer *copy,
                       int64_t height, int64_t width, int channels, const uint8_t *fill,
                       uint8_t *pixels)
{
    for (int i = 0; i < plan->n_ops; i++)
        if (!ls__apply_pixel_op(&plan->ops[i], ctx, copy, height, width, channels, pixels))
            return false;
    erase(&plan->erased, width, channels, fill, pixels);
    return true;
}
