/* dataset_check.h: finds what is wrong with a folder of images before a model is trained on it.
 *
 *   ls_dataset_report *report = ls_dataset_check(ctx, "photos", NULL);
 *   for (int64_t i = 0; i < ls_dataset_report_finding_count(report); i++) {
 *       const ls_finding f = ls_dataset_report_finding_at(report, i);
 *       printf("%s: %s: %s\n", ls_finding_name(f.kind), f.path, f.reason);
 *   }
 */
#ifndef LOCKSTEP_DATASET_CHECK_H
#define LOCKSTEP_DATASET_CHECK_H

#include <lockstep/data.h>

LS_BEGIN_DECLARATIONS

/* X(name, text, what the findings are). The paths of findings are relative to the folder that was
 * checked; "" is that folder itself. */
#define LS_FINDING_LIST(X)                                                                         \
    X(LAYOUT, "layout",                                                                            \
      "folders are not arranged as DIR/train/<class>/<image> or DIR/<class>/<image>")              \
    X(EMPTY_CLASS, "empty-class", "class folders without images")                                  \
    X(NO_VALIDATION, "no-validation", "classes without validation images")                         \
    X(NO_TRAINING, "no-training", "classes without training images")                               \
    X(IMBALANCE, "imbalance", "classes with many more training images than others")                \
    X(NESTED, "nested", "folders in class folders, whose images are of that class")                \
    X(UNREADABLE, "unreadable", "unreadable images and folders")                                   \
    X(LEAK, "leak", "images that are in several splits")                                           \
    X(NEAR_LEAK, "near-leak", "images that look the same, in several splits")                      \
    X(GROUP_LEAK, "group-leak", "groups whose images are in several splits")                       \
    X(AMBIGUOUS, "ambiguous", "duplicates in different classes")                                   \
    X(NEAR_AMBIGUOUS, "near-ambiguous", "images that look the same, in different classes")         \
    X(DUPLICATE, "duplicate", "duplicates within a class")                                         \
    X(NEAR_DUPLICATE, "near-duplicate", "images that look the same, within a class")               \
    X(IGNORED, "ignored", "files that are not read")                                               \
    X(HIDDEN, "hidden", "names that begin with a dot, which are skipped")                          \
    X(ROTATED, "rotated", "images that are stored turned, with an EXIF orientation")               \
    X(CMYK, "cmyk", "JPEG files in CMYK, whose colours are converted without a profile")           \
    X(ALPHA, "alpha", "images with transparent pixels")                                            \
    X(DEPTH, "depth", "images of 16 bits that use a part of the range")                            \
    X(UNIFORM, "uniform", "images of one colour")                                                  \
    X(ASPECT, "aspect", "images of which a centre crop drops more than 37 %")                      \
    X(SMALL, "small", "very small images")

typedef enum ls_finding_kind {
#define LS_FINDING_ENUM(name, text, what) LS_FINDING_##name,
    LS_FINDING_LIST(LS_FINDING_ENUM)
#undef LS_FINDING_ENUM
        LS_FINDING_KIND_COUNT
} ls_finding_kind;

/* A finding of LS_FINDING_IMBALANCE begins at this ratio of the largest to the smallest class of
 * the training images (M. Buda, A. Maki, M. A. Mazurowski, "A systematic study of the class
 * imbalance problem in convolutional neural networks", Neural Networks 106, 2018, tests ratios from
 * 10 on). */
enum { LS_IMBALANCE_RATIO = 10 };

/* "unreadable" and "unreadable images"; static, never NULL. */
LS_API const char *ls_finding_name(ls_finding_kind kind);
LS_API const char *ls_finding_text(ls_finding_kind kind);

typedef struct ls_dataset_check_config {
    int workers;        /* threads that read and decode; 0 = the calling thread. The number does not
                           change the report */
    int64_t max_pixels; /* as in ls_loader_config: larger images are unreadable; 0 = the default */
    int64_t min_side;   /* pixels: an image is very small if a side is below this; 0 = 16 */
    /* ls_dataset_check makes groups of images by this pattern, as ls_dataset_group_by_pattern does,
     * with its errors. NULL = no groups. */
    const char *group_pattern;

    /* Called for each file by the calling thread. If it returns false, the call ends with
     * LS_ERR_IO. */
    bool (*progress)(void *user, int64_t n_done, int64_t n_files);
    void *user;
    LS_RESERVED(8);
} ls_dataset_check_config;

typedef struct ls_dataset_report ls_dataset_report;

/* Reads and decodes all images of a folder. The splits are the folders of ls_split_find in `dir`;
 * without any of them `dir` itself holds the class folders. The other splits are compared with the
 * first one of training data. Duplicates are files with equal pixels, after the EXIF orientation
 * was applied, in any split. The first of them in the order of the report is the original; each
 * other one is a finding of LS_FINDING_LEAK if it is in another split, of AMBIGUOUS if it is in
 * another class, else of DUPLICATE. The other images are compared by fingerprints of 64 bits and a
 * grid of 18 x 16 means: one that looks like an earlier one, such as a copy that was resized or
 * saved again with another quality, is a finding of NEAR_LEAK, NEAR_AMBIGUOUS or NEAR_DUPLICATE.
 * A group with images in several splits is a finding of GROUP_LEAK, at its first image in the last
 * of these splits. All images are checked, also those outside of class folders and in folders below
 * them, in whatever way the folders are arranged. Images without classes alone in `dir`, or in a
 * folder of tests, which prediction reads, are no finding by themselves.
 *
 * The report belongs to the context. It lists everything in byte order and depends on the files,
 * max_pixels, min_side and group_pattern alone. config NULL = all defaults. Errors: LS_ERR_INVALID
 * names the member; LS_ERR_NOT_FOUND, LS_ERR_IO or LS_ERR_DATA for a folder that can't be read, as
 * ls_image_folder_open; LS_ERR_MEMORY. An image or a folder below `dir` that can't be read is a
 * finding, not an error. */
LS_API ls_dataset_report *ls_dataset_check(ls_context *ctx, const char *dir,
                                           const ls_dataset_check_config *config);

/* A part of a dataset that is open. */
typedef struct ls_check_part {
    const char *split; /* its name in the report, such as "train"; "" for a dataset without parts */
    ls_dataset *dataset;
    LS_RESERVED(4);
} ls_check_part;

/* The same for n parts of image files, 1 to 16, the first one for training: CSV lists
 * (ls_csv_open_config), or files with classes in their names (ls_image_pattern_open). An image that
 * several rows name is LEAK or AMBIGUOUS as a duplicate is, and else counted once. Paths in the
 * report are those of the datasets. There are no findings about folders, and no folder summaries.
 * Errors: LS_ERR_INVALID names the member, also for samples without files; as ls_dataset_check. */
LS_API ls_dataset_report *ls_dataset_check_parts(ls_context *ctx, int n, const ls_check_part *parts,
                                                 const ls_dataset_check_config *config);
LS_API void ls_dataset_report_close(ls_dataset_report **report);

/* The folder that was checked, without slashes at its end; "" for parts, and for NULL. Valid as
 * long as the report. */
LS_API const char *ls_dataset_report_dir(const ls_dataset_report *report);

/* Texts are valid as long as the report. */
typedef struct ls_finding {
    ls_finding_kind kind;
    const char *path;   /* of the file or folder */
    const char *other;  /* LEAK, AMBIGUOUS, DUPLICATE, NEAR_*: the original; GROUP_LEAK: the group's
                           first image in another split; else "" */
    const char *reason; /* "truncated PNG file" */
    LS_RESERVED(4);
} ls_finding;
/* In the order of kinds, then of paths. All is 0 out of range, and for a NULL report. */
LS_API int64_t ls_dataset_report_finding_count(const ls_dataset_report *report);
LS_API ls_finding ls_dataset_report_finding_at(const ls_dataset_report *report, int64_t i);

typedef struct ls_class_summary {
    const char *split; /* its path in the folder, such as "train"; "" = the folder itself */
    const char *name;  /* of the class; NULL: images outside of class folders */
    int64_t n_images, n_readable;
    LS_RESERVED(4);
} ls_class_summary;
/* In the order of the splits, then of names. */
LS_API int64_t ls_dataset_report_class_count(const ls_dataset_report *report);
LS_API ls_class_summary ls_dataset_report_class_at(const ls_dataset_report *report, int64_t i);

/* A folder that holds images, or a class folder. */
typedef struct ls_folder_summary {
    const char *path;
    int64_t n_images; /* in the folder itself, not in those below it */
    LS_RESERVED(4);
} ls_folder_summary;
/* In byte order with '/' as the first character: a folder is followed by those in it. */
LS_API int64_t ls_dataset_report_folder_count(const ls_dataset_report *report);
LS_API ls_folder_summary ls_dataset_report_folder_at(const ls_dataset_report *report, int64_t i);

typedef struct ls_size_range {
    int64_t min, median, max; /* of an even number of images the lower of both medians */
} ls_size_range;

typedef struct ls_dataset_summary {
    int64_t n_images, n_readable;
    ls_size_range width, height; /* of the readable images, upright; 0 if there are none */
    LS_RESERVED(8);
} ls_dataset_summary;
LS_API ls_dataset_summary ls_dataset_report_summary(const ls_dataset_report *report);

LS_END_DECLARATIONS

#endif
