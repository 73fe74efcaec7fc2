/* fingerprint.h: small descriptions of images, which are close where the images look the same:
 * saved again with another quality, resized, or converted.
 *
 * An image is averaged to a grid of 18 x 16 cells of equal area. The hash has a bit for each pair
 * of neighbours in a row of 9 x 8 blocks of this grid: 1 if the right one is brighter (dHash: N.
 * Krawetz, "Kind of Like That", hackerfactor.com, 2013). Images whose hashes differ in few bits are
 * candidates; the grid decides. All sums are integers, so fingerprints do not depend on the
 * processor. */
#ifndef LS_DATA_DATASET_CHECK_FINGERPRINT_H
#define LS_DATA_DATASET_CHECK_FINGERPRINT_H

#include "data/decode/image.h"

enum {
    LS__GRID_HEIGHT = 16,
    LS__GRID_WIDTH = 18,
    LS__GRID_CELLS = LS__GRID_HEIGHT * LS__GRID_WIDTH
};

typedef struct ls__fingerprint {
    uint64_t hash;
    uint32_t sum;    /* of luma */
    uint32_t spread; /* of luma: n sum(x^2) - sum(x)^2 over its n cells, n^2 times the variance */
    uint8_t luma[LS__GRID_CELLS];       /* [16,18]: 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601) */
    uint8_t chroma[LS__GRID_CELLS / 2]; /* [8,9,2]: R - luma and B - luma, halved, plus 128 */
} ls__fingerprint;

/* Of an RGB image. */
void ls__fingerprint_image(const ls__image_view *image, ls__fingerprint *out);

/* The number of bits of two hashes that differ. */
int ls__fingerprint_distance(uint64_t a, uint64_t b);

/* Whether two images look the same by their grids. */
bool ls__fingerprint_matches(const ls__fingerprint *a, const ls__fingerprint *b);

#endif
