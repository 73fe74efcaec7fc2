/* draws.c: see draws.h. */
#include "data/transform/draws.h"
#include "arith/functions.h"
#include "base/random.h"

#include <math.h>

void ls__draw_block(uint64_t seed, const ls_draw *draw, uint32_t block, uint32_t words[4])
{
    ls_draw one = *draw;
    one.block = block;
    ls_random_words(seed, &one, words);
}

int64_t ls__random_offset(uint32_t high, uint32_t low, int64_t limit, int64_t size)
{
    return (int64_t)ls_random_below(high, low, (uint64_t)(limit - size + 1));
}

bool ls__draw_box(uint64_t seed, const ls_draw *draw, uint32_t first_block,
                  const ls__box_range *range, int64_t height, int64_t width, int64_t max_height,
                  int64_t max_width, ls__window *out)
{
    const double low = ls__log2(range->ratio_min), high = ls__log2(range->ratio_max);
    for (uint32_t attempt = 0; attempt < LS__BOX_TRIES; attempt++) {
        uint32_t shape[4], offset[4];
        ls__draw_block(seed, draw, first_block + 2 * attempt, shape);
        ls__draw_block(seed, draw, first_block + 2 * attempt + 1, offset);
        const double scale =
            range->scale_min + shape[0] * 0x1p-32 * (range->scale_max - range->scale_min);
        const double area = scale * (double)height * (double)width;
        const double ratio = ls__exp2(low + shape[1] * 0x1p-32 * (high - low));
        ls__window box = { .height = (int64_t)rint(sqrt(area / ratio)),
                           .width = (int64_t)rint(sqrt(area * ratio)) };
        if (box.height < 1 || box.height > max_height || box.width < 1 || box.width > max_width)
            continue;
        box.top = ls__random_offset(offset[0], offset[1], height, box.height);
        box.left = ls__random_offset(offset[2], offset[3], width, box.width);
        *out = box;
        return true;
    }
    return false;
}

/* log2 of a gamma variable of that shape; uses the blocks first_block, first_block + 2, and so on.
 * The logarithm does not underflow, as the variable does for small shapes. */
static double draw_log2_gamma(uint64_t seed, const ls_draw *draw, uint32_t first_block,
                              double shape)
{
    enum { TRIES = 64 }; /* each is rejected with a probability below 0.05 */
    static const double LN2 = 0.69314718055994531;
    const double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    double result = ls__log2(d), power = 0;
    for (uint32_t attempt = 0; attempt < TRIES; attempt++) {
        uint32_t words[4];
        ls__draw_block(seed, draw, first_block + 2 * attempt, words);
        const double x = (double)ls__random_normal(words[0], words[1]);
        const double u = (words[2] + 0.5) * 0x1p-32, root = 1 + c * x;
        power = ls__log2((words[3] + 0.5) * 0x1p-32); /* independent of the rejection */
        if (root <= 0) continue;
        const double v = root * root * root, log2_v = ls__log2(v);
        if (LN2 * ls__log2(u) >= 0.5 * x * x + d * (1 - v + LN2 * log2_v)) continue;
        result += log2_v;
        break;
    }
    return result + (shape < 1 ? power / shape : 0);
}

double ls__draw_beta(uint64_t seed, const ls_draw *draw, uint32_t first_block, double alpha)
{
    const double x = draw_log2_gamma(seed, draw, first_block, alpha);
    const double y = draw_log2_gamma(seed, draw, first_block + 1, alpha);
    return 1 / (1 + ls__exp2(y - x));
}
