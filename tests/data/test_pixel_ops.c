/* Pixel operations and automatic augmentation: equal to Pillow and torchvision in every byte. */
#include "data/transform/augment.h"
#include "data/transform/pixel_ops.h"

#include "../suite.h"
#include "support.h"
#include <stdlib.h>
#include <string.h>

/* The tables are printed by pillow_ops.py with Pillow 9.4 and torchvision 0.14. The digests are
 * FNV-1a, 64 bits, over all results of an op. */
static uint64_t add_to_digest(uint64_t digest, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) digest = (digest ^ bytes[i]) * 0x100000001b3u;
    return digest;
}

static const uint64_t digest_of_nothing = 0xcbf29ce484222325u;

typedef struct picture {
    int h, w, c;
    uint8_t *pixels;
} picture;

/* The digest goes on with the op's result of the picture. */
static uint64_t add_result(uint64_t digest, ls_context *ctx, const ls__pixel_op *op,
                           const picture *from)
{
    const size_t n = (size_t)(from->h * from->w * from->c);
    ls__buffer copy = { 0 };
    uint8_t *pixels = malloc(n);
    memcpy(pixels, from->pixels, n);
    if (op) ck_assert(ls__apply_pixel_op(op, ctx, &copy, from->h, from->w, from->c, pixels));
    digest = add_to_digest(digest, pixels, n);
    free(pixels);
    ls__buffer_free(ctx, &copy);
    return digest;
}

static const float factors[] = { 0, 0.27f, 0.5f, 1, 1.3f, 1.99f, 3.7f };
static const double hues[] = { -0.5, -0.31, -0.003, 0, 0.004, 0.2, 0.5 };
enum { N_FACTORS = 7, N_ENHANCEMENTS = 5 };

static const struct {
    int h, w, c;
    uint64_t digests[N_ENHANCEMENTS];
} enhanced[] = {
    { .h = 40,
      .w = 53,
      .c = 3,
      .digests = { 0xdca506fd38791fe5, 0x95b2233c02e19f9d, 0x516318cee4853f47, 0xb91c3fde0e6aaf57,
                   0x65f9b3c287f4044f } },
    { .h = 31,
      .w = 17,
      .c = 1,
      .digests = { 0x78b6569f5a7cd7bf, 0x666a32a17e69363a, 0x5cd7994beb1af632, 0xa1504d303fb499fd,
                   0x5cd7994beb1af632 } },
    { .h = 1,
      .w = 1,
      .c = 3,
      .digests = { 0xd575a9787138751f, 0x2e3dc856574ad8d6, 0x2e3dc856574ad8d6, 0x2bf2afc586b14e41,
                   0x7124188c9e088f69 } },
    { .h = 2,
      .w = 5,
      .c = 3,
      .digests = { 0x7108d24dd07836cc, 0xf3077655440d2bf8, 0x4fec48d8e0b94b11, 0x9ca06a75ef39ac96,
                   0xbc33ae9cdcfadd3e } },
    { .h = 3,
      .w = 3,
      .c = 3,
      .digests = { 0xa2c07a61dacb282a, 0x12b13a7925c6ae50, 0xce9f740f00576bc8, 0xb099d163cd7855a7,
                   0x681e0c0f74ecf0eb } },
};

static uint64_t enhance_all(ls_context *ctx, ls__pixel_op_kind kind, const picture *image)
{
    uint64_t digest = digest_of_nothing;
    for (int i = 0; i < N_FACTORS; i++) {
        const ls__pixel_op op = { .kind = kind,
                                  .factor = factors[i],
                                  .amount = (int)(hues[i] * 255) };
        digest = add_result(digest, ctx, &op, image);
    }
    return digest;
}

START_TEST(enhancements_equal_pillow)
{
    static const ls__pixel_op_kind kinds[N_ENHANCEMENTS] = { LS__PIXEL_BRIGHTNESS,
                                                             LS__PIXEL_CONTRAST,
                                                             LS__PIXEL_SATURATION,
                                                             LS__PIXEL_SHARPNESS, LS__PIXEL_HUE };
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(enhanced) / sizeof(enhanced[0]); i++) {
        const int h = enhanced[i].h, w = enhanced[i].w, c = enhanced[i].c;
        const picture image = { h, w, c, draw_image(h, w, c, (unsigned)(h + w)) };
        for (int k = 0; k < N_ENHANCEMENTS; k++)
            ck_assert_msg(enhance_all(ctx, kinds[k], &image) == enhanced[i].digests[k],
                          "enhancement %d of %d x %d x %d", k, h, w, c);
        free(image.pixels);
    }
    ls_context_close(&ctx);
}
END_TEST

/* All colours of channels that are multiples of 5. */
START_TEST(hues_of_many_colours_equal_pillow)
{
    enum { N = 52 };
    ls_context *ctx = ls_context_open(NULL);
    const picture image = { N, N * N, 3, malloc(N * N * N * 3) };
    for (int i = 0; i < N * N * N; i++) {
        image.pixels[3 * i] = (uint8_t)(i / (N * N) * 5);
        image.pixels[3 * i + 1] = (uint8_t)(i / N % N * 5);
        image.pixels[3 * i + 2] = (uint8_t)(i % N * 5);
    }
    ck_assert_uint_eq(enhance_all(ctx, LS__PIXEL_HUE, &image), 0x8522f245712abed4);
    free(image.pixels);
    ls_context_close(&ctx);
}
END_TEST

/* By ls__auto_op. */
static const struct {
    ls_auto_augment policy;
    int h, w, c;
    uint64_t digests[LS__N_AUTO_OPS];
} augmented[] = {
    { .policy = LS_AUTO_AUGMENT_TRIVIAL,
      .h = 29,
      .w = 44,
      .c = 3,
      .digests = { 0xa1c85f2e632ac8aa, 0x9798f8ecf576ca93, 0x373a6c95edaf4ab5, 0x83870c6ae21fc737,
                   0xe1127e5038fe86a4, 0x7be19aa14354465b, 0xdb28c53283b28475, 0x2110f70a9fcd8c73,
                   0xf333db7364cdbb5a, 0x776ed75c65957a01, 0x4c7b2531fd1e13d0, 0xdffe85bcb094207c,
                   0x347744583fb1e0e4, 0x939f27cb6ee5bf5c } },
    { .policy = LS_AUTO_AUGMENT_TRIVIAL,
      .h = 44,
      .w = 29,
      .c = 1,
      .digests = { 0x26c94fdfebf7e259, 0x9741ff61b7115c03, 0x015acda9a9d346f1, 0x8218e36ee155d1a9,
                   0x4f5ac67c424f82e6, 0xf11fe33f6a06551a, 0x73fc27e4347732a5, 0xf7b316fbb1bcde05,
                   0x242e70d74d0e065c, 0x02d697cd7bca17c6, 0xdaa6ab7116807ceb, 0xf965d84010530b5c,
                   0x398bd2088f0c7721, 0xcd80c7f5c9a64f4c } },
    { .policy = LS_AUTO_AUGMENT_TRIVIAL,
      .h = 64,
      .w = 64,
      .c = 3,
      .digests = { 0x7ac601dfb47d5355, 0x89fa57c94cbf77db, 0xd2c8edc49075bf5c, 0x10c9acd160d78e24,
                   0x598d09057946cd0a, 0x39f438620b9c89eb, 0x285ab13f3a20d564, 0x23be7a89786c198e,
                   0x741f42df23d46cbf, 0x3298f442a61750be, 0x607a41a03689b57d, 0xbe89686302306181,
                   0x31bd251bda3dd886, 0xf48f3dc98f3d3953 } },
    { .policy = LS_AUTO_AUGMENT_RAND,
      .h = 29,
      .w = 44,
      .c = 3,
      .digests = { 0xa1c85f2e632ac8aa, 0x1c472c98abf80e2a, 0x2a3fdb6cda1337a6, 0xdad63fd8d60b409e,
                   0xd6b591aac6ae45c8, 0xf035353f03746b71, 0x42263f0b835bcddf, 0xf2260b8326afe357,
                   0x5f603b913509ba6b, 0x1ec03d3cdb3a6a56, 0x553aba6724cf6c4b, 0x398d096b9fa07a43,
                   0x347744583fb1e0e4, 0x939f27cb6ee5bf5c } },
    { .policy = LS_AUTO_AUGMENT_RAND,
      .h = 44,
      .w = 29,
      .c = 1,
      .digests = { 0x26c94fdfebf7e259, 0x87987c296d57cdf6, 0xe6290c6b3034acf3, 0x995500a435ebd2fe,
                   0xeb3aaec6854c0c47, 0xae1df1e78f86a443, 0xb49ad52618110c0f, 0x6bf92582dc9dcdc5,
                   0x8e269b9123066acd, 0xde8237119a411193, 0x31cff108dfd8e55b, 0x562ce66164977373,
                   0x398bd2088f0c7721, 0xcd80c7f5c9a64f4c } },
    { .policy = LS_AUTO_AUGMENT_RAND,
      .h = 64,
      .w = 64,
      .c = 3,
      .digests = { 0x7ac601dfb47d5355, 0xf6bfdf808ba9bd86, 0x823fb01acb9264eb, 0x4972757904355770,
                   0x7bb7f5d26cb87ed2, 0x708648645f4f0aa1, 0x8cbcc3438b86679c, 0x05e11f8af66f7efa,
                   0x42713ed783d69d95, 0x204f5f3cb9206924, 0x2e57a5abbe1a7391, 0x88e986b2bebc221b,
                   0x31bd251bda3dd886, 0xf48f3dc98f3d3953 } },
    { .policy = LS_AUTO_AUGMENT_RAND,
      .h = 225,
      .w = 225,
      .c = 3,
      .digests = { 0x395d09206690ea88, 0x266c3953c79500f3, 0xf4c1791de6aeb846, 0xb79c9e68bbc8ab08,
                   0xf3e2f3b3cb6282b2, 0xdb307f4d6f71edf6, 0x5951284ccacbcd4a, 0x7d649676b65b7e12,
                   0xf2628a084a6e72c2, 0xb64e031a408d28c3, 0x1c0b8a41f0e57507, 0xf9ec8c5936b1760a,
                   0x0911164df74cd0c9, 0xdf654897341633a5 } },
};

/* Over all bins of TrivialAugment, or RandAugment's, each without and with the sign. */
static uint64_t augment_all(ls_context *ctx, ls_auto_augment policy, ls__auto_op op,
                            const picture *image)
{
    const bool rand = policy == LS_AUTO_AUGMENT_RAND;
    const bool has_bins = op != LS__AUTO_IDENTITY && op < LS__AUTO_AUTOCONTRAST;
    const bool has_sign = has_bins && op != LS__AUTO_POSTERIZE && op != LS__AUTO_SOLARIZE;
    const int first = rand ? LS__RAND_AUGMENT_BIN : 0;
    const int last = rand ? first : has_bins ? LS__MAGNITUDE_BINS - 1 : 0;
    uint64_t digest = digest_of_nothing;
    for (int bin = first; bin <= last; bin++)
        for (int sign = 0; sign <= has_sign; sign++) {
            ls__pixel_op out;
            const bool any = ls__auto_pixel_op(policy, op, bin, sign, image->h, image->w, &out);
            ck_assert_int_eq(any, op != LS__AUTO_IDENTITY);
            digest = add_result(digest, ctx, any ? &out : NULL, image);
        }
    return digest;
}

START_TEST(automatic_augmentation_equals_torchvision)
{
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(augmented) / sizeof(augmented[0]); i++) {
        const int h = augmented[i].h, w = augmented[i].w, c = augmented[i].c;
        const picture image = { h, w, c, draw_image(h, w, c, (unsigned)(h + w)) };
        for (int op = 0; op < LS__N_AUTO_OPS; op++)
            ck_assert_msg(augment_all(ctx, augmented[i].policy, (ls__auto_op)op, &image) ==
                              augmented[i].digests[op],
                          "policy %d, op %d, %d x %d x %d", (int)augmented[i].policy, op, h, w, c);
        free(image.pixels);
    }
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(pixel_ops)
{
    return RUN_SUITE("pixel operations", enhancements_equal_pillow,
                     hues_of_many_colours_equal_pillow, automatic_augmentation_equals_torchvision);
}
