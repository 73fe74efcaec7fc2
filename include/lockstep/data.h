/* data.h: image datasets: folders, lists, files, memory, callbacks. loader.h makes batches of
 * them. */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/tensor.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_dataset ls_dataset;

/* ---- The parts of a dataset ---- */

typedef enum ls_split { LS_SPLIT_TRAIN, LS_SPLIT_VALIDATION, LS_SPLIT_TEST, LS_N_SPLITS } ls_split;

/* True if a folder of this name is a part of a dataset: "train", "training"; "val", "validation",
 * "valid", "validate", "validating"; "test", "testing", in any case, alone or with words such as
 * "images", "set" or "data": "Training_Images", "testset". split may be NULL. */
LS_API bool ls_split_of_name(const char *name, ls_split *split);

/* The kinds of places that hold the images of a part. */
typedef enum ls_split_kind {
    LS_SPLIT_CLASS_FOLDERS, /* a folder of folders */
    LS_SPLIT_LIST,          /* a CSV file */
    LS_SPLIT_FLAT_FOLDER    /* a folder without folders */
} ls_split_kind;

/* Finds the i-th place of a part in the folder `dir`, from 0: the folders of class folders in the
 * order of the names above, then the CSV files ("train.csv"), then folders without folders whose
 * names are exactly those, or for validation and tests, beside training images, in another case.
 * Writes its path below dir, "train", and its kind, which may be NULL. A folder that holds one
 * folder alone, which holds class folders, stands for that one: "train/train". Changes nothing and
 * allocates nothing.
 *
 * LS_ERR_NOT_FOUND: there is none. LS_ERR_IO: dir can't be read, for the reason in errno.
 * LS_ERR_INVALID: an argument, or the path is longer than `size`. */
LS_API ls_status ls_split_find(const char *dir, ls_split split, int i, char *path, size_t size,
                               ls_split_kind *kind);

/* ---- A folder with one sub-folder per class: DIR/<class>/<...>/<image>. ---- */

/* dir may also name a pack (see pack.h): "photos.pack" or, where it has splits,
 * "photos.pack/train".
 *
 * Classes are the sub-folder names in byte order; samples are the files below them, class by class,
 * sorted by path. Extensions, in any case: jpg jpeg png webp bmp ppm pgm; other files are ignored
 * and counted. Names that begin with a dot, and __MACOSX, are skipped. Links to files and folders
 * are followed. Errors: no such folder, no class folders, a class folder without images, a link
 * back to a folder above it, a pack that is damaged or has no such split; each message names what
 * was found and what was expected. Warnings (ls_context_warning): one class only; classes that are
 * called train, val or test; class folders in folders of these names, which suggests that the
 * parent of the image folder was opened. */
LS_API ls_dataset *ls_image_folder_open(ls_context *ctx, const char *dir);

/* The same with given classes. This is for validation data, whose class numbers must be those of
 * the training data. A folder that is not in `classes` is an error; a class without a folder has no
 * samples. Labels follow the order of `classes`. */
LS_API ls_dataset *ls_image_folder_open_classes(ls_context *ctx, const char *dir, int n_classes,
                                                const char *const *classes);

/* The images below a folder, whose classes are in their names, such as "cat.12.jpg". label_pattern
 * is a POSIX extended regular expression with one group, the class: "([a-z]+)[.]",
 * "(.*)_[0-9]+[.]jpg". It is matched with the path below the folder, in which it may match any
 * part; bytes are compared as in the locale "C". The samples are sorted by path; the classes are
 * those of ls_csv_open, as n_classes and classes, which may be 0 and NULL.
 *
 * LS_ERR_INVALID: a pattern that can't be compiled, or has no group or several; LS_ERR_DATA: no
 * images, or images whose paths the pattern does not match, with their number and one of them;
 * LS_ERR_MISMATCH: a class that is not among the given ones; those of reading folders. */
LS_API ls_dataset *ls_image_pattern_open(ls_context *ctx, const char *dir,
                                         const char *label_pattern, int n_classes,
                                         const char *const *classes);

/* A list of image files with labels in 0..n_classes-1. Both arrays are copied. The classes are
 * called "0", "1" and so on. With labels NULL and n_classes 0 the files have no labels, for
 * prediction: their label is -1. No file is opened before the loader reads it. */
LS_API ls_dataset *ls_image_list_open(ls_context *ctx, int64_t n, const char *const *paths,
                                      const int32_t *labels, int n_classes);

/* Files for prediction, without labels: each path is an image file, or a folder, which stands for
 * the images below it at any depth, sorted by path (extensions and links as in
 * ls_image_folder_open, and files of other image formats, such as GIF, which the loader can't
 * read). The strings are copied. A folder that can't be read, such as a link that leads back, is a
 * warning, and an unreadable sample of its path. LS_ERR_DATA names a folder without images. */
LS_API ls_dataset *ls_image_files_open(ls_context *ctx, int64_t n, const char *const *paths);

/* Samples in memory: images u8 [N,H,W,C] (C 1 or 3) and labels [N] in 0..n_classes-1, copied. The
 * classes are called "0", "1", ...; a loader's batches have C channels, too. */
LS_API ls_dataset *ls_dataset_from_memory(ls_context *ctx, const uint8_t *images, ls_shape shape,
                                          const int32_t *labels, int n_classes);

/* Image files and their labels in a CSV file (RFC 4180; fields may be quoted, lines end with LF or
 * CRLF, empty lines are skipped, a UTF-8 byte order mark, too). Fields are separated by tabs,
 * commas or semicolons, the first of these that is in the first line; in a file ".txt" without them
 * by the last blank. Blanks around fields that are not quoted are ignored. Each row has a path and
 * a label. The header and labels are UTF-8, else LS_ERR_DATA; a path may be any bytes, and so may a
 * label that is the name of a given class.
 *
 * A relative path begins in the CSV file's folder (ls_csv_config.image_root), or in a folder there,
 * such as "images", which has the first image that is there; if several have it, that of the split
 * of the list ("train" for "train.csv"), else it is LS_ERR_DATA. "./" before a path is left out. A
 * '\' is read as '/' where there is no '/' and no such file. A path without an image's extension
 * gets that of a file that is there.
 *
 * The first row is a header if it has a field "path", "file", "filename" or "image" and a column of
 * the list below, in any case; or if the rows after it have images, by their extensions or because
 * they are there, in a column where it has none; or if it begins with a usual name, such as "id" or
 * "image_id". The rows then have as many fields, and other columns are ignored; the only other
 * column is that of the classes, whatever its name. A header without a column of labels is
 * LS_ERR_DATA. Names of targets are case-sensitive. Samples keep the file's order. The header
 * selects what the rows have; without one it is a label:
 *
 *   path,label              a class; the column may be called "class", "category" and so on. A
 *                           header with columns of several kinds selects the first kind here
 *   path,labels             any number of labels with ";" between, "cat;dog", or an empty field.
 *                           Spaces around a label are ignored. The samples have targets, one per
 *                           label: 1 for those in the row, else 0
 *   path,target             a decimal number such as -1.5e3. Each column called "target", or with a
 *   path,target_x,target_y  name that begins with "target_", is a target
 *
 * Samples with targets have no class: ls_dataset_class_count is 0, and ls_dataset_label -1. The
 * targets are in memory, 4 bytes for each target of each sample. LS_ERR_UNSUPPORTED if labels give
 * more than 2^30 targets.
 *
 * The digest and ls_dataset_split use the relative path as it is in the file. An absolute path
 * below the CSV file's folder counts as relative to it; of other absolute paths the part after the
 * deepest folder that they all share counts. So they do not depend on where the data are.
 *
 * n_classes 0 and classes NULL: the classes are the labels found, by value if all are decimal
 * numbers, else in byte order; targets of numbers have the order of their columns. Otherwise the
 * labels must be among the classes, as for ls_image_folder_open_classes, or, for targets, among the
 * names ls_dataset_target_name of the training data; columns of numbers are found by these names,
 * in any order, and others are ignored. No image is opened before the loader reads it.
 *
 * LS_ERR_DATA names the file, the line and the reason: another number of fields, two columns of the
 * same name, if it is read, an empty path or label, a label twice in a row, a target that is not a
 * finite number of type f32, a misplaced or missing quote, a 0 byte; or a file without rows or
 * labels. LS_ERR_MISMATCH: a label that is not among the classes, or a target without a column.
 * LS_ERR_NOT_FOUND, LS_ERR_IO, the latter also if a folder of an absolute path can't be examined.
 */
LS_API ls_dataset *ls_csv_open(ls_context *ctx, const char *path, int n_classes,
                               const char *const *classes);

/* Which rows are read, by the column of splits. */
typedef enum ls_csv_rows {
    LS_CSV_ROWS_ALL,
    LS_CSV_ROWS_TRAIN,
    LS_CSV_ROWS_VALIDATION,
    LS_CSV_ROWS_TEST
} ls_csv_rows;

typedef struct ls_csv_config {
    int n_classes; /* as for ls_csv_open, with classes */
    const char *const *classes;

    /* Columns: a number from 1, or a name of the header, in any case. NULL: as ls_csv_open finds
     * them; split_column: "split", "subset", "partition" or "set", if all its fields are splits.
     * A label column called "labels", "target" or "target_..." has several labels or numbers. If
     * only numbers are given, the first row is a header if its path is none of an image and later
     * rows have images in that column, or the row begins with a usual name. */
    const char *path_column, *label_column;
    const char *split_column; /* fields are names of splits: see ls_split_of_name */
    const char *group_column; /* of ls_dataset_split; images with an empty field have no group */
    ls_csv_rows rows;         /* LS_ERR_DATA if there is no column of splits, or no such row */

    /* The folder that relative paths begin in. NULL: see ls_csv_open. Names of samples are then
     * relative to it. */
    const char *image_root;
    LS_RESERVED(8);
} ls_csv_config;

/* As ls_csv_open, which is the same with the default columns. config NULL = all defaults.
 * LS_ERR_INVALID: a column number that is not above 0, a column given twice, a folder that is not
 * there. LS_ERR_DATA: a column that the list does not have, and a field of the column of splits
 * that is no split. */
LS_API ls_dataset *ls_csv_open_config(ls_context *ctx, const char *path,
                                      const ls_csv_config *config);

/* counts[LS_N_SPLITS]: how many rows the list has of each split; all 0 without a column of splits.
 * Reads the list alone, without its labels and images. Errors are those of ls_csv_open_config. */
LS_API ls_status ls_csv_count_splits(ls_context *ctx, const char *path, const ls_csv_config *config,
                                     int64_t counts[LS_N_SPLITS]);

/* Grey images and their labels in a pair of idx files, the format of MNIST and Fashion-MNIST:
 * images u8 [N,H,W] (magic number 0x803), labels u8 [N] (0x801), either of them plain or compressed
 * by gzip. The samples are in memory, with one channel; the classes are called "0", "1", ...
 * n_classes 0: the largest label + 1. Pass the training data's number for validation data.
 *
 * Errors name the file, the value found and the value expected: LS_ERR_NOT_FOUND, LS_ERR_IO;
 * LS_ERR_DATA for another magic number, a size that differs from the header's, damaged gzip data,
 * different numbers of images and labels, and a label that is not below n_classes. Memory is
 * allocated only after the header's sizes were found possible for the size of the file. */
LS_API ls_dataset *ls_idx_open(ls_context *ctx, const char *images, const char *labels,
                               int n_classes);

/* ---- Samples that a program provides. ---- */

/* Where the callback load puts an image. */
typedef struct ls_image_writer ls_image_writer;

typedef struct ls_dataset_callbacks {
    int64_t sample_count;       /* 1 to 2^40; required */
    int n_classes;              /* required with label, else 0 */
    const char *const *classes; /* n_classes names, copied; NULL = "0", "1", ... */
    int channels;               /* of all images: 1 or 3; 0 = 3 */

    /* The class of a sample, 0 to n_classes - 1. NULL: samples without labels. Called only by
     * ls_dataset_from_callbacks, once for each sample. */
    int (*label)(void *user, int64_t sample);

    /* The targets of a sample, for a loss that reads the input "target": writes n_targets finite
     * numbers. With or without label; the loss selects which of the two is read. Called only by
     * ls_dataset_from_callbacks, once for each sample. */
    void (*target)(void *user, int64_t sample, float *out);
    int n_targets;                   /* required with target, else 0 */
    const char *const *target_names; /* n_targets names, copied; NULL = "0", "1", ... */

    /* Required. Calls ls_image_writer_reserve with the size of the sample's image, and writes its
     * pixels to the memory returned. It must give the same pixels for a sample each time. On
     * failure it returns a status: LS_ERR_DATA if its data are unusable, to which on_bad_image
     * applies. With LS_ERR_IO and LS_ERR_NOT_FOUND the image is unreadable, and LS_BAD_IMAGE_BLANK
     * applies. The epoch ends with others.
     *
     * The loader's threads call it, several at a time, in any order, also for the same sample; they
     * block all signals. ls_loader_open and ls_dataset_digest may call it in the caller's thread.
     * It must not use the context, its objects, or other functions of this library than the two
     * below and those of random.h. */
    ls_status (*load)(void *user, int64_t sample, ls_image_writer *out);

    /* Optional. A number that differs when the sample's pixels differ, such as a hash of the data
     * that it is made from. It enters the dataset's digest, and so the identity of a run. NULL: a
     * hash of the pixels, for which ls_dataset_digest loads each sample, up to
     * LS_LARGEST_MAX_PIXELS. Called by ls_dataset_digest in its thread. */
    uint64_t (*digest)(void *user, int64_t sample);

    void *user; /* passed to the callbacks; must stay valid as long as the dataset's loaders */
    LS_RESERVED(8);
} ls_dataset_callbacks;

/* The struct is copied. Samples have no paths; errors call them "sample 7". Errors: LS_ERR_INVALID
 * names the member; LS_ERR_DATA for a label out of range, and for a target that is not finite. */
LS_API ls_dataset *ls_dataset_from_callbacks(ls_context *ctx,
                                             const ls_dataset_callbacks *callbacks);

/* Memory for the sample's image, u8 [height,width,channels] without gaps, valid until load returns.
 * Its contents are undefined. NULL if the image is larger than max_pixels of the loader, or memory
 * is short: load then returns, and its status is not used. */
LS_API uint8_t *ls_image_writer_reserve(ls_image_writer *out, int64_t height, int64_t width);
/* The reason of a failure, for error messages, printf style; up to 255 bytes are kept. */
LS_API void ls_image_writer_reason(ls_image_writer *out, const char *format, ...) LS_PRINTF(2, 3);

/* Makes groups of the samples that stay together when they are divided: the images of a patient, a
 * video or a camera. pattern is a POSIX extended regular expression with one group, as for
 * ls_image_pattern_open: samples with the same text there are of one group, such as those of
 * "(p[0-9]+)_" in "p12_left.png". Replaces earlier groups. For a CSV file see also group_column of
 * ls_csv_config. LS_ERR_INVALID: an unusable pattern, samples without paths, a split of another
 * dataset; LS_ERR_DATA: samples that do not match, with their number and one of them. */
LS_API ls_status ls_dataset_group_by_pattern(ls_dataset *dataset, const char *pattern);

/* The groups that have samples in training and in validation data, so that the validation accuracy
 * is too high. */
typedef struct ls_shared_groups {
    int64_t n_groups, n_samples; /* n_samples: of the validation data, in these groups */
    const char *example; /* the first of them in byte order; NULL if there are none. Borrowed
                            from `validation` */
    LS_RESERVED(4);
} ls_shared_groups;
/* Both datasets may be splits, and belong to one context (else LS_ERR_MISMATCH). Samples without a
 * group are not counted. NULL datasets give LS_ERR_EARLIER. LS_ERR_INVALID: out is NULL;
 * LS_ERR_MEMORY. */
LS_API ls_status ls_dataset_shared_groups(ls_dataset *train, ls_dataset *validation,
                                          ls_shared_groups *out);

/* Divides the samples into a training and a validation split, class by class. The validation split
 * takes floor(n * fraction + 0.5), but at least 1 and at most n - 1, of the n >= 2 images of a
 * class; the only image of a class stays in training, with a warning. In both splits the samples
 * keep their order, and the classes are those of the dataset. Samples with targets and without
 * labels are divided as if they were of one class.
 *
 * The choice is keyed by (seed, path of the sample below the folder that was opened): it is the
 * same for the folder, a copy of it and a pack of it, and does not depend on other classes. The
 * paths of ls_image_list_open are taken as they were given; for a CSV file see ls_csv_open. A
 * sample without a path is keyed by its number. The digest of a split covers its samples; a run's
 * identity includes the fraction and the seed.
 *
 * Images are divided, not rows: samples of a list whose paths lead to the same file, through
 * symbolic links, too, are one image, and lie on one side. So do the samples of a group; an image
 * in two groups joins them. Hard links are different images, because a copy has none. The groups
 * are visited in the order of Philox words that are keyed by (seed, name of the group, or path of
 * the image): the smallest in byte order of what is joined. A group with g_c images of class c
 * goes to validation if that lowers the sum over the classes of (v_c - t_c)^2 / t_c, where v_c
 * images of class c are in validation so far and t_c is the number above, and if each class keeps
 * an image for training. Then each class without validation images gets the group that raises the
 * sum least. Without groups and repeated images that is the number and choice above.
 *
 * Both splits stay valid after the dataset is closed. On failure both are NULL. Errors:
 * LS_ERR_INVALID for a fraction outside of (0, 1), and for a dataset without labels and targets;
 * LS_ERR_DATA if no class has two images, or groups; LS_ERR_IO if a path can't be resolved. */
LS_API ls_status ls_dataset_split(ls_dataset *dataset, double fraction, uint64_t seed,
                                  ls_dataset **train, ls_dataset **validation);

/* Loaders over the dataset, and its splits, stay valid. Its memory is freed after the last of them
 * is closed. */
LS_API void ls_dataset_close(ls_dataset **dataset);
LS_API int64_t ls_dataset_sample_count(const ls_dataset *dataset);
LS_API int ls_dataset_class_count(const ls_dataset *dataset);
/* 3 for image files, 1 for idx files; in memory, that of the images. */
LS_API int ls_dataset_channel_count(const ls_dataset *dataset);
LS_API const char *ls_dataset_class_name(const ls_dataset *dataset,
                                         int label); /* borrowed; NULL out of range */
LS_API const char *ls_dataset_sample_path(const ls_dataset *dataset,
                                          int64_t sample); /* borrowed; NULL if in memory */
LS_API int ls_dataset_label(const ls_dataset *dataset, int64_t sample); /* -1 out of range */
/* The number of targets that each sample has; 0 = none. */
LS_API int ls_dataset_target_count(const ls_dataset *dataset);
LS_API const char *ls_dataset_target_name(const ls_dataset *dataset,
                                          int i); /* borrowed; NULL out of range */
/* The sample's targets, ls_dataset_target_count numbers; borrowed; NULL out of range. */
LS_API const float *ls_dataset_targets(const ls_dataset *dataset, int64_t sample);
/* Whether targets are those of labels in a CSV file: 1 for a sample's own labels, else 0. */
LS_API bool ls_dataset_targets_are_labels(const ls_dataset *dataset);
typedef struct ls_image_info {
    int64_t height, width; /* of the upright image */
    int orientation;       /* EXIF: 1 = stored upright, 2 to 8 = turned or mirrored */
    bool transparent;      /* some pixel is not opaque: see ls_alpha */
    /* The range of samples of 16 bits (ls_loader_config.depth); 0 for images of 8 bits, and for a
     * PNM file with a maxval below 65535. */
    int min_sample, max_sample;
    /* [ls_alpha]: no channel's samples differ by more than 2 of 255, so the image has one colour.
     * JPEG files are not examined: false. */
    bool uniform[3];
    LS_RESERVED(8);
} ls_image_info;
/* The size of a sample's image. A JPEG file is read up to its pixels, other formats are decoded, a
 * program's sample is loaded. LS_ERR_INVALID: no such sample; else those of ls_image_load. */
LS_API ls_status ls_dataset_image_info(const ls_dataset *dataset, int64_t sample,
                                       ls_image_info *out);
/* counts[class_count]: the number of samples of each class. */
LS_API ls_status ls_dataset_class_sizes(const ls_dataset *dataset, int64_t *counts);
/* weights[class_count] for ls_loss_config.class_weights: the weight of a class of m samples, of n
 * in all K classes, is n / (K m). So each class has the same share of the loss. This is "balanced"
 * of scikit-learn's compute_class_weight, after King and Zeng 2001, "Logistic regression in rare
 * events data". LS_ERR_DATA: a class without samples. Both: LS_ERR_INVALID without labels. */
LS_API ls_status ls_dataset_balanced_weights(const ls_dataset *dataset, float *weights);
/* The number of files below the class folders that were ignored because of their extension, and one
 * of them ("" if there is none). */
LS_API int64_t ls_dataset_ignored_count(const ls_dataset *dataset, const char **example);

/* A digest of the samples in order: their labels, targets, paths (below the folder that was opened)
 * and sizes; with `contents` also the bytes of the files, so every file is read. For samples in
 * memory it covers the pixels. An unreadable file is not an error; the digest includes the fact
 * that it is unreadable. The digest is computed once and kept. Checkpoints store it. */
LS_API ls_status ls_dataset_digest(ls_dataset *dataset, bool contents, ls_digest *out);

/* ---- One image file. ---- */

/* The largest image, in pixels, that is decoded when no limit is set: 256 MiB of RGB. Pillow warns
 * of a decompression bomb above the same number (Image.MAX_IMAGE_PIXELS). A limit may be at most
 * LS_LARGEST_MAX_PIXELS, so that an image of 8 bytes per pixel stays below 2^31 bytes.
 *
 * Decoding a file, even a hostile one, takes at most
 *   memory: 24 bytes per pixel for PNG, 14 for JPEG, 12 for WebP, 8 for BMP, 6 for PNM, plus 4
 *     times the file size;
 *   time: 50 ns per pixel, plus 3 s for the scans of a JPEG, plus 2 us per byte of the file
 *     (measured on one core of a Xeon server). At the default limit that is 4 to 8 s, plus 2 s per
 *     MB of the file.
 * A JPEG of more than 500 scans, or of more than about 2^32 samples (pixels of a component) in all
 * scans together, is rejected (arithmetic coding: 2^29). At the default pixel limit this
 * allows 47 scans of one component. Progressive JPEG files have about 10 scans. A PNG is rejected
 * if its compressed data is larger than 64 KiB plus twice the image. */
enum { LS_DEFAULT_MAX_PIXELS = 89478485, LS_LARGEST_MAX_PIXELS = (1 << 28) - 1 };

/* What transparent pixels of PNG (an alpha channel or tRNS), WebP and BMP (an alpha mask) become. A
 * colour c with alpha a is composed on the background b: (c a + b (255 - a)) / 255, rounded.
 * Opaque pixels are the same with all values. A BMP file whose alpha is 0 everywhere is opaque. */
typedef enum ls_alpha {
    LS_ALPHA_WHITE, /* composed on white */
    LS_ALPHA_BLACK, /* composed on black, for bright shapes */
    LS_ALPHA_IGNORE /* the stored colour, whatever alpha is, as Pillow's convert("RGB") */
} ls_alpha;

/* Decodes a JPEG, PNG, WebP, BMP or PNM (P2, P3, P5, P6) file by its content, not its name. Result:
 * u8 [H,W,3]. The pixels are those of Pillow 13's convert("RGB"), except where noted:
 *   grey becomes three equal channels, transparent pixels are composed on white (ls_alpha), gamma
 *     and colour profiles are ignored;
 *   16 bits per channel: of PNG the upper 8 bits are kept; PNM is scaled from 0..maxval to 0..255,
 *     halves rounded up (Pillow: to even; it clips 16-bit grey at 255). ls_loader_config.depth;
 *   CMYK is inverted only if the file has Adobe's marker (Pillow: always); R = C K / 255, rounded;
 *   WebP: animations are an error;
 *   BMP: channels of 5 and 6 bits are scaled to 8 bits and rounded to nearest (Pillow: down); all
 *     colour masks are read; RLE is an error;
 *   honour_exif turns the image upright by the EXIF orientation in APP1 of JPEG, the eXIf chunk of
 *     PNG or the EXIF chunk of WebP, like Pillow's ImageOps.exif_transpose, except that Pillow also
 *     reads XMP.
 *
 * Errors name the file and the reason: LS_ERR_NOT_FOUND or LS_ERR_IO when it cannot be read,
 * LS_ERR_DATA when it is empty, truncated, damaged (as far as the format makes damage detectable),
 * of another format, or beyond LS_DEFAULT_MAX_PIXELS or 2^30 bytes. A JPEG counts as damaged if
 * libjpeg warns of damage. It may have unused bytes between its segments or after a scan. */
LS_API ls_tensor *ls_image_load(ls_context *ctx, const char *path, bool honour_exif);

/* Antialiased bilinear resize of u8 [H,W,3], horizontally first: the bytes of Image.resize with
 * BILINEAR of Pillow 9.4 to 12.2. Pillow 13 resizes vertically first where the height shrinks more
 * than the width; then some bytes differ by 1. LS_ERR_INVALID beyond LS_LARGEST_MAX_PIXELS, and
 * where the weights, which grow with the sides, take more than 1 GiB (about 10 million pixels). */
LS_API ls_tensor *ls_image_resize(const ls_tensor *image, int64_t height, int64_t width);

LS_END_DECLARATIONS

#endif
