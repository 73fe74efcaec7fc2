/* draws.h: the random numbers of an image's transforms. Each is a word of a block of the image's
 * draw, so it depends on nothing else. */
#ifndef LS_DATA_TRANSFORM_DRAWS_H
#define LS_DATA_TRANSFORM_DRAWS_H

#include "data/decode/image.h"
#include <lockstep/random.h>

enum { LS__BOX_TRIES = 10, LS__MAX_AUTO_AUGMENT_OPS = 8 };

/* The blocks of a draw, at most 2^8. A box takes two for each try:
 *   first + 2 try        word 0: area; word 1: aspect ratio
 *   first + 2 try + 1    words 0, 1: top; words 2, 3: left */
enum {
    LS__BLOCK_FLIP, /* word 0 */
    LS__BLOCK_CROP, /* words 0, 1: top of a random crop; words 2, 3: its left */
    LS__BLOCK_BOX,  /* the box of a random resized crop */
    LS__BLOCK_VERTICAL_FLIP = LS__BLOCK_BOX + 2 * LS__BOX_TRIES, /* word 0 */
    LS__BLOCK_AUTO_AUGMENT, /* one for each op; word 0: which op; word 1: magnitude; word 2: sign */
    LS__BLOCK_JITTER = LS__BLOCK_AUTO_AUGMENT + LS__MAX_AUTO_AUGMENT_OPS, /* brightness, contrast,
                                                                             saturation, hue */
    LS__BLOCK_JITTER_ORDER, /* word 0: permutation of these four */
    LS__BLOCK_ERASE,        /* word 0: whether a box is erased */
    LS__BLOCK_ERASE_BOX,
    LS__BLOCK_END = LS__BLOCK_ERASE_BOX + 2 * LS__BOX_TRIES
};
_Static_assert(LS__BLOCK_END <= 1 << 8, "a draw's counter has 8 bits for the block");

/* The four words of a block. */
void ls__draw_block(uint64_t seed, const ls_draw *draw, uint32_t block, uint32_t words[4]);

/* A random offset of a window of `size` pixels within `limit`. */
int64_t ls__random_offset(uint32_t high, uint32_t low, int64_t limit, int64_t size);

/* A box of random area, uniform between fractions of the image, and random aspect ratio (width /
 * height), uniform in its logarithm. */
typedef struct ls__box_range {
    double scale_min, scale_max, ratio_min, ratio_max;
} ls__box_range;

/* The first box, in LS__BOX_TRIES, of at most max_height x max_width pixels in an image of
 * height x width; false if there is none. */
bool ls__draw_box(uint64_t seed, const ls_draw *draw, uint32_t first_block,
                  const ls__box_range *range, int64_t height, int64_t width, int64_t max_height,
                  int64_t max_width, ls__window *out);

/* A number from the distribution Beta(alpha, alpha), 0.001 <= alpha <= 1000, of the blocks from
 * first_block on: X / (X + Y) of two gamma variables (Devroye 1986, "Non-Uniform Random Variate
 * Generation", section IX.3), each by rejection from a normal variable (Marsaglia & Tsang 2000, "A
 * simple method for generating gamma variables"; for alpha < 1 their section 6). IEEE arithmetic
 * and our own functions alone. */
double ls__draw_beta(uint64_t seed, const ls_draw *draw, uint32_t first_block, double alpha);

#endif
