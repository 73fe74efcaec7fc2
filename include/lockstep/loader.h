/* loader.h: the loader, which makes batches of a dataset.
 *
 * For a given dataset, a batch is a function of (seed, epoch, step, config) alone: the order is a
 * keyed permutation of the samples, and each random choice is keyed by (seed, epoch, sample). The
 * number of workers never changes a byte (except with LS_SEED_BY_WORKER). */
#ifndef LOCKSTEP_LOADER_H
#define LOCKSTEP_LOADER_H

#include <lockstep/data.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_loader ls_loader;

typedef enum ls_bad_image {
    LS_BAD_IMAGE_FAIL, /* an unreadable image ends the epoch with an error that names the file */
    LS_BAD_IMAGE_SKIP, /* the image is replaced by another sample, of any class, drawn with the key
                          (seed, epoch, unreadable sample, number of its draw in the epoch,
                          attempt), in at most 100 attempts. The unreadable sample is counted and
                          listed when its batch is returned. Replaced are images with unusable
                          contents (LS_ERR_DATA), and files that did not exist when the loader was
                          opened. Reading is tried again after other errors, which may pass; then
                          they end the epoch, because no result may depend on them */
    LS_BAD_IMAGE_BLANK /* the image is black, its number in ls_batch.samples -1, and the unreadable
                          sample is listed. For datasets without labels and targets, else
                          LS_ERR_INVALID */
} ls_bad_image;

/* LS_SEED_BY_WORKER imitates the per-worker seeding of PyTorch's DataLoader: each worker has its
 * own random sequence, which depends on the seed and the worker's number and restarts each epoch.
 * With n workers, each worker loads every n-th batch. So the NUMBER OF WORKERS CHANGES THE RESULTS;
 * 0 and 1 workers differ, too. With a fixed number of workers a run is reproducible, even if it is
 * resumed in the middle of an epoch. It is meant for experiments. The order of the samples is the
 * same with both values. */
typedef enum ls_seeding {
    LS_SEED_BY_SAMPLE, /* random choices are keyed by (seed, epoch, sample) */
    LS_SEED_BY_WORKER
} ls_seeding;

/* Only the region of a JPEG file that the crop needs is decoded. EXACT gives the same pixels in
 * that region as decoding the whole image. FAST decodes at 1/2, 1/4 or 1/8 of the size, the
 * smallest that is not below the size after resizing. Its pixels differ and are slightly less
 * sharp. The mode is part of a run's identity. LS_ERR_INVALID for datasets in memory and packs of
 * pixels. */
typedef enum ls_decode { LS_DECODE_EXACT, LS_DECODE_FAST } ls_decode;

/* How an image gets the size `resize` of a loader, r. The box is r high and r crop_width / crop
 * wide, rounded down: r x r for a square crop and without a crop. */
typedef enum ls_resize_mode {
    LS_RESIZE_CROP,   /* the image keeps its aspect ratio and covers the box: with a square box its
                         shorter side becomes r. The longer side is rounded down. What lies outside
                         of the crop is lost */
    LS_RESIZE_PAD,    /* the image keeps its aspect ratio and fits into the box, centred, with its
                         shorter side rounded to nearest. The rest has the bytes nearest to
                         255 mean, so a normalized value is within 0.5 / (255 std) of 0 */
    LS_RESIZE_STRETCH /* both sides become those of the box */
} ls_resize_mode;

/* Ops with random magnitudes, as torchvision defines them for PIL images: identity, shear,
 * translate, rotate (to the nearest pixel; pixels from outside are 0), brightness, color, contrast,
 * sharpness, posterize, solarize, autocontrast, equalize. */
typedef enum ls_auto_augment {
    LS_AUTO_AUGMENT_NONE,
    LS_AUTO_AUGMENT_TRIVIAL, /* TrivialAugmentWide (Mueller and Hutter 2021): one op, whose
                                magnitude is one of 31 */
    LS_AUTO_AUGMENT_RAND     /* RandAugment (Cubuk et al. 2020): two ops at magnitude 9 of 0..30 */
} ls_auto_augment;

/* Which samples an epoch has. With BALANCED each class that has samples is drawn equally often: of
 * n samples in K such classes, n / K times, rounded up or down, so that the number of steps stays
 * the same. Samples of rare classes are drawn several times, those of frequent classes not in each
 * epoch; within a class the numbers of draws differ by at most 1. Each draw of a sample has its own
 * random transforms. It requires shuffle and labels (LS_ERR_INVALID), and is for training. */
typedef enum ls_sampler {
    LS_SAMPLER_ALL, /* each sample once */
    LS_SAMPLER_BALANCED
} ls_sampler;

typedef struct ls_loader_config {
    int64_t batch_size; /* images per batch; required */
    int workers;        /* threads that load; 0 = the calling thread loads */
    int prefetch; /* with workers: number of batches that are prefetched, ready or in progress;
                     0 = 4. All workers load images of the same batch, so a few batches are
                     enough */
    bool shuffle; /* true: a keyed permutation per epoch; false: by sample number */
    ls_sampler sampler;
    bool drop_last; /* drop the last batch if it is incomplete; an error if no batch
                       remains */
    bool honour_exif;
    ls_decode decode;
    ls_bad_image on_bad_image;
    /* An image whose header states more pixels is unreadable; 0 = LS_DEFAULT_MAX_PIXELS. The limit
     * is part of a run's identity, because it determines which images are replaced. LS_ERR_INVALID
     * for datasets in memory. */
    int64_t max_pixels;
    ls_seeding seeding;
    /* Batches of one channel from images of three: Pillow's convert("L"), the luma of ITU-R BT.601,
     * (19595 R + 38470 G + 7471 B + 32768) >> 16, computed after the geometry below. A grey file
     * gives its own pixels, a dataset of one channel is unchanged. */
    bool grey;
    /* Transparent pixels, and the bits of samples in files of 16 bits per channel: 9 to 16, 0 = 16.
     * With d bits, such as the 12 of many cameras, the samples 0..2^d-1 become 0..255, larger ones
     * 255: of PNG the upper 8 of the d bits are kept, PNM is scaled as if its maxval were 2^d-1.
     * LS_ALPHA_BLACK and depth are LS_ERR_INVALID for data that are no files; for a pack of pixels
     * they must be those of ls_pack_config. */
    ls_alpha alpha;
    int depth;

    /* Geometry, in this order: resize, random resized crop or crop, flips. All batches have the
     * same height and width; an image that cannot be transformed to that size is unreadable. Sizes
     * and rounding are those of torchvision. A field that would have no effect is an error. The
     * random crops and their fractions are those of the resized image, with its padding. */
    int64_t resize; /* size after resizing, by resize_mode: with 0 the shorter side becomes this;
                       0 = keep the size */
    ls_resize_mode resize_mode;
    int64_t crop; /* height of the crop; 0 = no crop: all images must have the size of the first
                     readable one */
    int64_t crop_width;         /* 0 = crop: a square */
    int64_t crop_padding;       /* > 0: pads each side with zeros and takes a random crop; 0: centre
                                   crop */
    bool random_resized_crop;   /* a random area and aspect ratio, resized to the size of the crop
                                   (Szegedy et al. 2015) */
    float scale_min, scale_max; /* range of the crop's area, as a fraction of the image;
                                   0, 0 = 0.08, 1 */
    float ratio_min, ratio_max; /* range of its aspect ratio; 0, 0 = 3/4, 4/3 */
    float flip_probability;     /* probability of a horizontal flip */
    float vertical_flip_probability; /* probability of a vertical flip */

    /* Random changes of the cropped image's pixels, in this order. Operations and magnitudes are
     * those of torchvision, the pixels those of Pillow. */
    ls_auto_augment auto_augment;
    /* Colour jitter. The factors of brightness, contrast and saturation are uniform in [1 - x,
     * 1 + x], not below 0; the hue is rotated by a uniform fraction of a circle in [-hue, hue], hue
     * at most 0.5. The order of the four is random. Saturation and hue require images of three
     * channels (with `grey` they come before the conversion). */
    float brightness, contrast, saturation, hue;
    /* Probability that a box is erased (Zhong et al. 2017): 0.02 to 0.33 of the area, height /
     * width 0.3 to 3.3; none if ten random boxes do not fit. Its bytes are those nearest to
     * 255 mean, so a normalized value is within 0.5 / (255 std) of 0. */
    float random_erase;

    /* Mixup (Zhang et al. 2018) and cutmix (Yun et al. 2019) of each batch, after all transforms of
     * its images, as torchvision's MixUp and CutMix do it: image i is mixed with image i - 1, the
     * first with the last. lambda is drawn from Beta(alpha, alpha), keyed by (seed, epoch, step)
     * with both values of `seeding`, and rounded to a multiple of 2^-14.
     *   mixup: lambda x_i + (1 - lambda) x_{i-1}, rounded to u8: within 0.5 / (255 std) of the
     *     blend of normalized values
     *   cutmix: a box of (1 - lambda) of the area around a random pixel, cut off at the edges, is
     *     that of x_{i-1}; lambda becomes the share of the area outside of it
     * With both, one of the two is drawn for each batch with probability 0.5. 0 = off, else 0.001
     * to 1000. The batches have targets. LS_ERR_INVALID without labels, if the dataset has
     * targets, and if batch_size is 1. For training. */
    float mixup_alpha, cutmix_alpha;

    /* Normalization, done by the net (ls_net_build adds the node): (x / 255 - mean) / std per
     * channel; all 0 = ImageNet's values (for one channel their average, 0.449 and 0.226). */
    float mean[3], std[3];
    LS_RESERVED(16);
} ls_loader_config;

/* The number of workers for most programs, and the default of the commands: one per processor that
 * this process may use, at most 8. */
LS_API int ls_default_worker_count(void);

/* Opens a loader over a dataset. Allocates all memory for batches and starts all threads. The
 * threads block all signals. The only callbacks that they call are the context's allocator and
 * `load` of ls_dataset_callbacks. */
LS_API ls_loader *ls_loader_open(ls_dataset *dataset, const ls_loader_config *config);
LS_API void ls_loader_close(ls_loader **loader);

/* The specification of a net's input. */
typedef struct ls_input_spec {
    ls_spec image;         /* u8 [batch,H,W,C], or f32, which is not normalized */
    float mean[4], std[4]; /* for u8, per channel: (x / 255 - mean) / std; std 0 = 1 */
    int n_classes;         /* 0 = no labels */
    int n_targets;         /* columns of the dataset's own targets; 0 = none */
    LS_RESERVED(4);
} ls_input_spec;
LS_API ls_input_spec ls_loader_input_spec(const ls_loader *loader);

/* Steps per epoch, counting an incomplete last batch unless drop_last is set. */
LS_API int64_t ls_loader_step_count(const ls_loader *loader);

/* Borrowed until the next ls_loader_next, _start or _close. */
typedef struct ls_batch {
    const ls_tensor *images; /* u8 [n,H,W,C] */
    const ls_tensor *labels; /* i32 [n]; with mixup or cutmix the class with the larger share of the
                                image, which top-1 counts (as in torchvision's scripts) */
    const int64_t *samples;  /* numbers of the n samples, after replacement of unreadable ones; -1
                                for a blank one */
    int64_t n; /* number of images; in a batch that the caller fills, 0 = as many as the tensor
                  has */
    int64_t epoch, step;
    const ls_tensor *targets; /* for the net's input "target", of any shape [n,...]. A loader with
                                 mixup or cutmix gives f32 [n,classes]: lambda for the image's class
                                 plus 1 - lambda for that of the image mixed in. A loader over a
                                 dataset with targets gives them, f32 [n,targets]. Else NULL */
    bool is_last;             /* of the epoch: with gradient accumulation, ls_net_step updates */
    LS_RESERVED(8);
} ls_batch;

/* Begins an epoch (0 to 2^20 - 1) at its first step, or at any step (for resuming). If an epoch is
 * in progress, its remaining batches are discarded. */
LS_API ls_status ls_loader_start(ls_loader *loader, int64_t epoch);
LS_API ls_status ls_loader_start_at(ls_loader *loader, int64_t epoch, int64_t step);
/* Returns the next batch in order; false at the end of the epoch and on an error, which
 * ls_loader_status returns. LS_ERR_INVALID if ls_evaluate, ls_lr_find or a trainer has used the
 * loader in the middle of the epoch. When several images of a batch are unreadable, the error names
 * the first one in batch order. With several ranks (context.h) the batch has its whole size, but
 * only the samples of this rank's shards are loaded, and with mixup or cutmix the one before them.
 * The label and the number of the others are -1, their targets 0, their pixels undefined. */
LS_API bool ls_loader_next(ls_loader *loader, ls_batch *batch);
LS_API ls_status ls_loader_status(const ls_loader *loader);

typedef struct ls_loader_stats {
    int64_t n_images;    /* delivered since the loader was opened */
    int64_t n_bad;       /* number of distinct unreadable samples */
    double wait_seconds; /* time that the caller spent in ls_loader_next, waiting for a batch or
                            making it */
    LS_RESERVED(8);
} ls_loader_stats;
LS_API ls_loader_stats ls_loader_statistics(const ls_loader *loader);
/* The i-th unreadable sample in order of sample number, with the reason (borrowed); -1 out of
 * range. */
LS_API int64_t ls_loader_bad_sample(const ls_loader *loader, int64_t i, const char **reason);

LS_END_DECLARATIONS

#endif
