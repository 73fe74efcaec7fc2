/* data.h: image datasets, and the loader that makes batches of them.
 *
 * A batch is a function of (seed, epoch, step, config) alone: the order is a keyed permutation of
 * the samples, and each random choice is keyed by (seed, epoch, sample). The number of workers
 * never changes a byte (except with LS_SEED_BY_WORKER). */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/tensor.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_dataset ls_dataset;
typedef struct ls_loader ls_loader;

/* Folder names in a dataset: training data first, then validation data in the order in which the
 * lockstep command searches for them. */
#define LS_SPLIT_NAMES "train", "val", "validation", "valid", "test"

/* ---- A folder with one sub-folder per class: DIR/<class>/<...>/<image>. ---- */

/* dir may also name a pack (see pack.h): "photos.pack" or, where it has parts, "photos.pack/train".
 *
 * Classes are the sub-folder names in byte order; samples are the files below them, class by class,
 * sorted by path. Extensions, in any case: jpg jpeg png bmp ppm pgm; others are counted, not read.
 * Names that begin with a dot are skipped. Links to files and folders are followed. Errors: no such
 * folder, no class folders, a class folder without images, a link back to a folder above it, a pack
 * that is damaged or has no such part; each message names what was found and what was expected.
 * Warnings (ls_context_warning): one class only; classes that are called train, val or test; class
 * folders in folders of these names, which means a folder opened one level too high. */
LS_API ls_dataset *ls_image_folder_open(ls_context *ctx, const char *dir);

/* The same with given classes, for validation data, whose class numbers must be those of the
 * training data. A folder that is not in `classes` is an error; a class without a folder has no
 * samples. Labels follow the order of `classes`. */
LS_API ls_dataset *ls_image_folder_open_classes(ls_context *ctx, const char *dir, int n_classes,
                                                const char *const *classes);

/* A list of image files with labels in 0..n_classes-1. Both arrays are copied; the classes are
 * called "0", "1", ... labels NULL and n_classes 0: files without labels, for prediction; their
 * label is -1. No file is opened before the loader reads it. */
LS_API ls_dataset *ls_image_list_open(ls_context *ctx, int64_t n, const char *const *paths,
                                      const int32_t *labels, int n_classes);

/* Samples in memory: images u8 [N,H,W,C] (C 1 or 3) and labels [N] in 0..n_classes-1, copied. The
 * classes are called "0", "1", ...; a loader's batches have C channels, too. */
LS_API ls_dataset *ls_dataset_from_memory(ls_context *ctx, const uint8_t *images, ls_shape shape,
                                          const int32_t *labels, int n_classes);

/* Loaders over the dataset stay valid. Its memory is freed after the last of them is closed. */
LS_API void ls_dataset_close(ls_dataset **dataset);
LS_API int64_t ls_dataset_count(const ls_dataset *dataset);
LS_API int ls_dataset_class_count(const ls_dataset *dataset);
LS_API const char *ls_dataset_class_name(const ls_dataset *dataset,
                                         int label); /* borrowed; NULL out of range */
LS_API const char *ls_dataset_sample_path(const ls_dataset *dataset,
                                          int64_t sample); /* borrowed; NULL if in memory */
LS_API int ls_dataset_label(const ls_dataset *dataset, int64_t sample); /* -1 out of range */
/* Files below the class folders that were left out for their extension, and one of them ("" when
 * none). */
LS_API int64_t ls_dataset_ignored_count(const ls_dataset *dataset, const char **example);

/* A digest of the samples in order: their labels, paths (below the folder that was opened) and
 * sizes; with `contents` also the bytes of the files, so every file is read. For samples in memory
 * it covers the pixels. An unreadable file is not an error; the digest includes the fact that it is
 * unreadable. The digest is computed once and kept. Checkpoints store it. */
LS_API ls_status ls_dataset_digest(ls_dataset *dataset, bool contents, ls_digest *out);

/* ---- One image file. ---- */

/* The largest image, in pixels, that is decoded when no limit is set: 256 MiB of RGB. Pillow warns
 * of a decompression bomb above the same number (Image.MAX_IMAGE_PIXELS). A limit may be at most
 * LS_LARGEST_MAX_PIXELS, so that an image of 8 bytes per pixel stays below 2^31 bytes.
 *
 * Decoding a file, even a hostile one, takes at most
 *   memory: 24 bytes per pixel (PNG; JPEG 14, BMP and PNM 6) and 4 times the file,
 *   time: 50 ns per pixel, 3 s for the scans of a JPEG, and 2 us per byte of the file (measured on
 *     one core of a Xeon server): 4 to 8 s at the default limit, and 2 s per MB.
 * A JPEG of more than 500 scans, or of more than about 2^32 samples (pixels of a component) in all
 * scans together, is refused (arithmetic coding: 2^29). At the default limit of pixels that allows
 * 47 passes over one component. Progressive JPEG files have about 10 scans. A PNG is refused if its
 * compressed data is larger than 64 KiB plus twice the image. */
enum { LS_DEFAULT_MAX_PIXELS = 89478485, LS_LARGEST_MAX_PIXELS = (1 << 28) - 1 };

/* Decodes a JPEG, PNG, BMP or PNM (P2, P3, P5, P6) file by its content, not its name. Result: u8
 * [H,W,3]. The pixels are those of Pillow 13's convert("RGB"), except where noted:
 *   grey becomes three equal channels, alpha is dropped without blending, gamma and colour profiles
 *     are ignored;
 *   16 bits: PNG keeps the upper 8; PNM scales 0..maxval to 0..255, halves rounded up (Pillow: to
 *     even). Pillow clips 16-bit grey at 255;
 *   CMYK is inverted only if the file has Adobe's marker (Pillow: always); R = C K / 255, rounded;
 *   BMP: 5 and 6 bits become 8 by rounding (Pillow: down), any colour masks, no RLE;
 *   honour_exif turns the image upright by the EXIF orientation in APP1 of JPEG or the eXIf chunk
 *     of PNG, as Pillow's ImageOps.exif_transpose, which also reads XMP.
 * Errors name the file and the reason: LS_ERR_NOT_FOUND or LS_ERR_IO when it cannot be read,
 * LS_ERR_DATA when it is empty, truncated, damaged (wherever the format shows it), of another kind,
 * or beyond LS_DEFAULT_MAX_PIXELS or 2^30 bytes. A JPEG counts as damaged if libjpeg warns of
 * damage. It may have unused bytes between its segments or after a scan. */
LS_API ls_tensor *ls_image_load(ls_context *ctx, const char *path, bool honour_exif);

/* Antialiased bilinear resize of u8 [H,W,3], horizontally first: the bytes of Image.resize with
 * BILINEAR of Pillow 9.4 to 12.3. Pillow 13 resizes vertically first where the height shrinks more
 * than the width; then some bytes differ by 1. LS_ERR_INVALID beyond LS_LARGEST_MAX_PIXELS, and
 * where the weights, which grow with the sides, take more than 1 GiB: a side of about 10 million
 * pixels. */
LS_API ls_tensor *ls_image_resize(const ls_tensor *image, int64_t height, int64_t width);

/* ---- The loader. ---- */

typedef enum ls_bad_image {
    LS_BAD_IMAGE_FAIL, /* an unreadable image ends the epoch with an error that names the file */
    LS_BAD_IMAGE_SKIP  /* the image is replaced by another sample, of any class, drawn with the key
                          (seed, epoch, bad sample, attempt), in at most 100 attempts. The bad
                          sample is counted and listed when its batch is returned */
} ls_bad_image;

/* LS_SEED_BY_WORKER imitates PyTorch's worker_init_fn: each worker has its own random sequence,
 * which depends on the seed and the worker's number and restarts each epoch. Of n workers each
 * takes every n-th batch. So the NUMBER OF WORKERS CHANGES THE RESULTS; 0 and 1 workers differ,
 * too. With a fixed number of workers a run is reproducible, also if it is resumed in the middle of
 * an epoch. It is meant for experiments. The order of the samples is the same with both values. */
typedef enum ls_seeding {
    LS_SEED_BY_SAMPLE, /* random choices are keyed by (seed, epoch, sample) */
    LS_SEED_BY_WORKER
} ls_seeding;

/* Only the region of a JPEG file that the crop needs is decoded. EXACT gives the pixels of the
 * whole image. FAST decodes at 1/2, 1/4 or 1/8 of the size, the smallest that is not below the size
 * after resizing. Its pixels differ and are slightly less sharp. The mode is part of a run's
 * identity. LS_ERR_INVALID for datasets in memory and packs of pixels. */
typedef enum ls_decode { LS_DECODE_EXACT, LS_DECODE_FAST } ls_decode;

typedef struct ls_loader_config {
    int64_t batch;  /* images per batch; required */
    int workers;    /* threads that load; 0 = the calling thread loads */
    int prefetch;   /* with workers: batches that may be ready or in progress ahead of the caller;
                       0 = 4. Several workers share a batch, so few are enough */
    bool shuffle;   /* order by keyed permutation of the epoch; otherwise by sample number */
    bool drop_last; /* leave out the last batch when it would be smaller; an error when none is left
                     */
    bool honour_exif;
    ls_decode decode;
    ls_bad_image on_bad_image;
    /* An image whose header states more pixels is a bad image; 0 = LS_DEFAULT_MAX_PIXELS. The limit
     * is part of a run's identity, because it determines which images are replaced. LS_ERR_INVALID
     * for datasets in memory. */
    int64_t max_pixels;
    ls_seeding seeding;

    /* Geometry, in this order: resize, random resized crop or crop, flip. All batches have the same
     * height and width; an image that cannot be transformed to that size is a bad image. Sizes and
     * rounding are those of torchvision. A field that would have no effect is an error. */
    int64_t resize; /* shorter side becomes this, keeping the aspect ratio; 0 = keep the size */
    int64_t crop;   /* side of the square crop; 0 = no crop: all images must have the size of the
                       first readable one */
    int64_t crop_padding; /* > 0: zeros added on each side, and the crop's position is random (else
                             the centre) */
    bool random_resized_crop; /* a random area and aspect ratio, resized to crop x crop (Szegedy et
                                 al. 2015) */
    float scale_min, scale_max; /* of its area; 0, 0 = 0.08, 1 */
    float ratio_min, ratio_max; /* of its aspect; 0, 0 = 3/4, 4/3 */
    float flip;                 /* probability of a horizontal flip */

    /* Normalisation, done on the device: (x / 255 - mean) / std per channel; all 0 =
     * ImageNet's values (for one channel their average, 0.449 and 0.226). */
    float mean[3], std[3];
} ls_loader_config;

/* Opens a loader over a dataset. All batches and threads are created here. The threads block all
 * signals, and the allocator is the only function of the program that they call. */
LS_API ls_loader *ls_loader_open(ls_dataset *dataset, const ls_loader_config *config);
LS_API void ls_loader_close(ls_loader **loader);

/* A net's input. */
typedef struct ls_input_spec {
    ls_spec image;         /* u8 [batch,H,W,C], or f32, which is not normalised */
    float mean[4], std[4]; /* for u8, per channel: (x / 255 - mean) / std; std 0 = 1 */
    int n_classes;         /* 0 = no labels */
} ls_input_spec;
LS_API ls_input_spec ls_loader_spec(const ls_loader *loader);

/* Steps per epoch, counting a partial last batch unless drop_last. */
LS_API int64_t ls_loader_step_count(const ls_loader *loader);

/* Borrowed until the next ls_loader_next, _start or _close. */
typedef struct ls_batch {
    const ls_tensor *images; /* u8 [n,H,W,C] */
    const ls_tensor *labels; /* i32 [n] */
    const int64_t *samples;  /* n sample numbers: those that were loaded */
    int64_t n; /* number of images; in a batch that the caller fills, 0 = as many as the tensor
                  has */
    int64_t epoch, step;
} ls_batch;

/* Begins an epoch (0 to 2^20 - 1) at its first step, or at any step (for resuming). If an epoch is
 * in progress, its remaining batches are discarded. */
LS_API ls_status ls_loader_start(ls_loader *loader, int64_t epoch);
LS_API ls_status ls_loader_start_at(ls_loader *loader, int64_t epoch, int64_t step);
/* The next batch in order. false at the end of the epoch and on an error, which ls_loader_status
 * returns. When several images of a batch are bad, the error names the first in its order. */
LS_API bool ls_loader_next(ls_loader *loader, ls_batch *batch);
LS_API ls_status ls_loader_status(const ls_loader *loader);

typedef struct ls_loader_stats {
    int64_t n_images;    /* delivered since the loader was opened */
    int64_t n_bad;       /* different samples found unreadable */
    double wait_seconds; /* time that the caller spent in ls_loader_next, waiting for a batch or
                            making it */
} ls_loader_stats;
LS_API ls_loader_stats ls_loader_statistics(const ls_loader *loader);
/* The i-th unreadable sample in order of sample number, with the reason (borrowed); -1 out of
 * range. */
LS_API int64_t ls_loader_bad_sample(const ls_loader *loader, int64_t i, const char **reason);

LS_END_DECLARATIONS

#endif
