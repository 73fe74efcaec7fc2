/* help_texts.h: ranges and help of settings that the command has in several places. */
#ifndef LS_RUN_HELP_TEXTS_H
#define LS_RUN_HELP_TEXTS_H

#include <lockstep/data.h>
#include <stddef.h>

/* The sides of --image-size. */
enum { LS__MIN_IMAGE_SIZE = 8, LS__MAX_IMAGE_SIZE = 4096 };

/* The default of --max-pixels, for help texts. */
#define MAX_PIXELS_NOTE "89478485"
_Static_assert(LS_DEFAULT_MAX_PIXELS == 89478485, "help texts give the library's default");

/* In the order of ls_precision. */
#define PRECISION_NAMES "f32|tf32|bf16|f16"

/* Help of settings that several commands have. */
#define ALPHA_HELP                                                                                 \
    "transparent pixels: white, black = composed on that colour; ignore = the stored colour"
#define BENCHMARK_HELP "select kernels by timing them before the first step"
#define DEPTH_HELP                                                                                 \
    "bits that the samples of PNG and PNM files of 16 bits use, such as 12 for X-rays; larger "    \
    "samples are white"
#define DETERMINISTIC_HELP                                                                         \
    "kernels: strict = deterministic only; warn = a warning where an op has none; off = any "      \
    "kernel"
#define DEVICE_HELP     "device: cpu, cuda, cuda:1, ..., or auto"
#define IMAGE_SIZE_HELP "height and width of the model's input in pixels; N = a square"
#define MAX_PIXELS_HELP                                                                            \
    "maximum number of pixels of an image; larger images are treated as unreadable"
#define ON_BAD_IMAGE_HELP "unreadable images: fail = stop, skip = replace each by another image"
#define TEST_TIME_FLIP_HELP                                                                        \
    "average the class probabilities of each image and its mirror image; takes twice the time"
#define PRECISION_HELP                                                                             \
    "data type of matrix multiplications and convolutions; bf16 and f16 also store activations "   \
    "in that type; tf32 requires CUDA"
#define RESIZE_HELP                                                                                \
    "images of other shapes than --image-size: crop = the sides are cut off; pad = the whole "     \
    "image, with borders of the mean colour; stretch = the whole image, distorted"
#define SHORTCUTS_HELP "zero-padded shortcuts in place of 1x1 convolutions where the shape changes"
#define STEM_HELP                                                                                  \
    "first layer: small = 3x3 convolution, large = 7x7 convolution and max pooling, auto = by "    \
    "model and image size"
#define WEIGHTS_KEY_HELP                                                                           \
    "where the file has the weights: a key, such as model_ema, or a prefix of the names"
#define THREADS_HELP "number of compute threads"

/* Both write a list for the help of settings: the bundled models, and those with dropout, each with
 * its default. */
void ls__list_models(char *out, size_t size);
void ls__list_dropouts(char *out, size_t size);

#endif
