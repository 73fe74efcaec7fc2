/* mix.c: mixup and cutmix of a batch, by the worker that fills the last image of it. The random
 * numbers are keyed by (seed, epoch, step), so that no byte depends on the worker.
 *
 * Lambda and the box are those of torchvision's v2.MixUp and v2.CutMix. They mix normalized floats;
 * here u8 values are mixed and rounded, so that a batch stays the bytes that the net receives, and
 * the step costs nothing on the device. */
#include "data/loader/loader.h"
#include "data/transform/draws.h"

#include <math.h>
#include <string.h>

/* Weights of pixels are multiples of 1 / ONE. Products of 14 and 8 bits are fast in vectors of i16.
 */
enum { WEIGHT_BITS = 14, ONE = 1 << WEIGHT_BITS };

/* Purposes of a batch's draws. */
enum { BLOCK_CHOICE, BLOCK_BOX, BLOCK_BETA };

typedef struct mix {
    double lambda; /* the share of an image's own class */
    int weight;    /* of the image's own pixels in the box, in 1 / ONE; 0 for cutmix */
    ls__window box;
} mix;

static mix draw_mix(const ls_loader *loader, int64_t step)
{
    const ls_loader_config *c = &loader->config;
    const int64_t height = loader->transform.height, width = loader->transform.width;
    const uint64_t seed = loader->transform.seed;
    const ls_draw draw = { .stream = LS_RANDOM_MIX,
                           .epoch = (uint32_t)loader->epoch,
                           .step = (uint64_t)step };
    uint32_t words[4];
    ls__draw_block(seed, &draw, BLOCK_CHOICE, words);
    const bool cuts =
        c->mixup_alpha == 0 || (c->cutmix_alpha > 0 && ls_random_uniform(words[0]) >= 0.5f);
    const double beta =
        ls__draw_beta(seed, &draw, BLOCK_BETA, (double)(cuts ? c->cutmix_alpha : c->mixup_alpha));
    const int weight = (int)rint(beta * ONE);
    const double lambda = (double)weight / ONE;
    if (!cuts) return (mix){ lambda, weight, { 0, 0, height, width } };

    ls__draw_block(seed, &draw, BLOCK_BOX, words);
    const int64_t x = ls__random_offset(words[0], words[1], width, 1);
    const int64_t y = ls__random_offset(words[2], words[3], height, 1);
    const double half = 0.5 * sqrt(1 - lambda);
    const int64_t half_width = (int64_t)(half * (double)width);
    const int64_t half_height = (int64_t)(half * (double)height);
    const int64_t left = x > half_width ? x - half_width : 0;
    const int64_t top = y > half_height ? y - half_height : 0;
    const int64_t right = x + half_width < width ? x + half_width : width;
    const int64_t bottom = y + half_height < height ? y + half_height : height;
    const ls__window box = { top, left, bottom - top, right - left };
    const double area = (double)(box.height * box.width) / (double)(height * width);
    return (mix){ 1 - area, 0, box };
}

static void blend(uint8_t *restrict to, const uint8_t *restrict from, int weight, size_t n)
{
    const int16_t own = (int16_t)weight, other = (int16_t)(ONE - weight);
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)((to[i] * own + from[i] * other + ONE / 2) >> WEIGHT_BITS);
}

/* The images [begin, end) of a batch of n. */
typedef struct own_range {
    int64_t begin, end, n;
} own_range;

/* Mixes the same bytes of the images: image i with i - 1, in place, from the last one down. */
static void mix_bytes(const ls_loader *loader, uint8_t *pixels, own_range range, int weight,
                      size_t count)
{
    enum { BLOCK = 4096 }; /* of each image: those of 128 images fit in 512 KiB of cache */
    uint8_t last[BLOCK];
    for (size_t done = 0; done < count; done += BLOCK) {
        const size_t bytes = count - done < BLOCK ? count - done : BLOCK;
        memcpy(last, pixels + (size_t)(range.n - 1) * loader->sample_bytes + done, bytes);
        for (int64_t i = range.end - 1; i >= range.begin; i--) {
            uint8_t *to = pixels + (size_t)i * loader->sample_bytes + done;
            const uint8_t *from = i > 0 ? to - loader->sample_bytes : last;
            if (weight == 0)
                memcpy(to, from, bytes);
            else
                blend(to, from, weight, bytes);
        }
    }
}

static void mix_labels(const ls_loader *loader, const ls__slot *slot, own_range range,
                       double lambda)
{
    const int64_t classes = loader->dataset->n_classes;
    int32_t *labels = slot->label_values;
    const int32_t last = labels[range.n - 1];
    memset(slot->targets, 0, (size_t)(range.n * classes) * sizeof(float));
    for (int64_t i = range.end - 1; i >= range.begin; i--) {
        const int32_t own = labels[i], other = i > 0 ? labels[i - 1] : last;
        float *row = slot->targets + i * classes;
        row[own] = (float)lambda;
        row[other] = own == other ? 1 : (float)(1 - lambda);
        if (lambda < 0.5) labels[i] = other;
    }
}

void ls__loader_mix(const ls_loader *loader, const ls__slot *slot, int64_t step, int64_t n)
{
    const mix m = draw_mix(loader, step);
    own_range range = { .n = n };
    ls__loader_own_range(loader, step, &range.begin, &range.end);
    if (range.begin == range.end) return;
    const int64_t width = loader->transform.width, channels = loader->channels;
    const bool whole_rows = m.box.width == width;
    const int64_t n_rows = whole_rows ? 1 : m.box.height;
    const int64_t row_bytes = m.box.width * channels * (whole_rows ? m.box.height : 1);
    for (int64_t y = 0; y < n_rows; y++)
        mix_bytes(loader, slot->pixels + ((m.box.top + y) * width + m.box.left) * channels, range,
                  m.weight, (size_t)row_bytes);
    mix_labels(loader, slot, range, m.lambda);
}
