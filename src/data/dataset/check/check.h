/* check.h: the state of ls_dataset_check, shared by its files: they list the images, decode them,
 * and report findings. */
#ifndef LS_DATA_DATASET_CHECK_CHECK_H
#define LS_DATA_DATASET_CHECK_CHECK_H

#include "base/bump.h"
#include "base/context.h"
#include "data/dataset/check/fingerprint.h"
#include "data/dataset/folder.h"
#include <lockstep/dataset_check.h>

/* A file in a class folder, or an image outside of class folders. */
typedef struct ls__checked_file {
    const char *path;    /* whole; borrowed */
    ls_status status;    /* of reading and decoding */
    char *reason;        /* why it is unreadable; owned; NULL = it was decoded */
    int32_t group;       /* -1: a file that is ignored because of its name */
    int32_t orientation; /* EXIF's, or 1 */
    bool is_cmyk, is_transparent;
    bool is_uniform;       /* on white, with 16 bits */
    bool is_uniform_again; /* on black, or with the bits in use; as is_uniform of other images */
    int opacity;           /* of a transparent image: the mean of alpha, in per cent */
    int32_t min_sample, max_sample; /* of a file of 16 bits per channel; else 0 */
    uint8_t brightest;              /* byte of the decoded image */
    int64_t height, width;          /* upright */
    ls_digest file, pixels;         /* pixels: only if it was decoded */
    bool is_copy;                   /* an earlier image has these pixels; set by ls__check_files */
    ls__fingerprint look;           /* only if it was decoded */
} ls__checked_file;

/* The images of a class folder, or those of a split that lie outside of class folders. */
typedef struct ls__check_group {
    ls_class_summary count;
    int64_t begin, end; /* in the report's files */
} ls__check_group;

enum { LS__MAX_SPLITS = 16 };

struct ls_dataset_report {
    ls__owned owned;
    ls__bump bump;          /* of texts and lists */
    char *dir;              /* without slashes at the end */
    bool is_of_parts;       /* of open datasets, whose paths are reported whole */
    size_t root_length;     /* bytes of each path before the part that is reported */
    ls__folder_files found; /* images of all groups; its other lists are those below */
    ls__text_list ignored, hidden, unreadable; /* unreadable: folders, as in ls__folder_files */
    const char *
        *paths; /* of images, group by group, then of ignored and hidden files; each sorted */
    char *splits[LS__MAX_SPLITS]; /* paths below dir, owned; "" alone: the folder itself */
    int n_splits;
    ls__check_group *groups;
    ls_finding *findings;
    int64_t n_groups, n_findings;
    size_t group_capacity, finding_capacity;
    ls__checked_file *files; /* images, then ignored files */
    int64_t n_images, n_files;
    ls__text_list folder_names;
    ls_folder_summary *folders;
    int64_t n_folders;
    ls_dataset_summary summary;
};

/* The part of a path that is reported. */
static inline const char *ls__check_name(const ls_dataset_report *report, const char *path)
{
    return path + report->root_length;
}

/* Whether samples of 16 bits leave the brighter half of the range unused. */
static inline bool ls__check_is_dark(const ls__checked_file *file)
{
    return file->max_sample > 0 && file->brightest < 128;
}

/* The bits that samples up to `max` use, 9 to 16: a value of ls_loader_config.depth. */
static inline int ls__check_bits(int32_t max)
{
    int bits = 9;
    while (bits < 16 && max >> bits) bits++;
    return bits;
}

/* An empty report of a folder; NULL with an error kept. */
ls_dataset_report *ls__check_open_report(ls_context *ctx, const char *dir);
void ls__check_free_files(ls_dataset_report *report);

/* Adds a finding, whose reason is what printf makes of the format. path, other: valid as long as
 * the report; NULL = memory was short. */
ls_status ls__check_add(ls_dataset_report *report, ls_finding_kind kind, const char *path,
                        const char *other, const char *format, ...) LS_PRINTF(5, 6);

/* Adds the images from number `begin` on as a group. split: borrowed; name: copied, may be NULL. */
ls_status ls__check_add_group(ls_dataset_report *report, const char *split, const char *name,
                              int64_t begin);
ls_status ls__check_add_split(ls_dataset_report *report, const char *path);
/* Sorts the paths of each group, of the ignored and of the hidden files, and fills files. */
ls_status ls__check_take_paths(ls_dataset_report *report);

/* Fills groups, paths and files from datasets; with findings about their classes. */
ls_status ls__check_list_parts(ls_dataset_report *report, int n, const ls_check_part *parts);
/* Fills groups, paths and files. */
ls_status ls__check_list(ls_dataset_report *report);
/* Fills folders. */
ls_status ls__check_count_folders(ls_dataset_report *report);
/* Findings about classes that are not in all parts, before ls__check_take_paths. */
ls_status ls__check_part_classes(ls_dataset_report *report);
/* Findings about groups in several splits: those of the datasets, those that a pattern makes of the
 * listed files, or none if it is NULL. */
ls_status ls__check_part_groups(ls_dataset_report *report, int n, const ls_check_part *parts);
ls_status ls__check_pattern_groups(ls_dataset_report *report, const char *pattern);
/* Findings about folders and classes, for listed files. */
ls_status ls__check_layout(ls_dataset_report *report);
/* Reads and decodes all files. */
ls_status ls__check_decode(ls_dataset_report *report, const ls_dataset_check_config *config);
/* Findings about files, for decoded files; and the summary. */
ls_status ls__check_files(ls_dataset_report *report, int64_t min_side);
/* Findings about images that look the same, after ls__check_files. */
ls_status ls__check_near(ls_dataset_report *report);
/* Findings about samples that training changes or crops, and about the shares of classes, after
 * ls__check_files. */
ls_status ls__check_samples(ls_dataset_report *report);

#endif
