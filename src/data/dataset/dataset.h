/* dataset.h: samples with labels, in files, in a pack or in memory. */
#ifndef LS_DATA_DATASET_DATASET_H
#define LS_DATA_DATASET_DATASET_H

#include "base/bump.h"
#include "base/context.h"
#include "data/decode/decoder.h"
#include "data/dataset/folder.h"
#include "data/dataset/packs/pack.h"
#include <lockstep/data.h>
#include <stdatomic.h>

/* The choices of a caller that opened a dataset: columns of ls_csv_config, the pattern of
 * ls_image_pattern_open. */
enum {
    LS__BY_PATH_COLUMN,
    LS__BY_LABEL_COLUMN,
    LS__BY_SPLIT_COLUMN,
    LS__BY_GROUP_COLUMN,
    LS__BY_LABEL_PATTERN,
    LS__N_OPENED_BY
};
/* "path_column", ..., "label_pattern" */
extern const char *const ls__opened_by_names[LS__N_OPENED_BY];

struct ls_dataset {
    ls__owned owned;
    ls__bump bump;                    /* of all members but those that ls__free releases */
    char *opened_by[LS__N_OPENED_BY]; /* of a whole dataset; NULL: not chosen */

    int64_t n_samples;
    int n_classes;
    int channels;       /* 3 for files */
    char **class_names; /* n_classes */
    bool has_names;     /* of classes or targets; else they are "0", "1" and so on */
    int32_t *labels;    /* n_samples; -1 = none */

    /* Of a whole dataset; else 0 and NULL. */
    int n_targets;
    char **target_names;
    float *targets; /* [n_samples][n_targets] */
    bool targets_are_labels;

    int64_t n_ignored;
    char *ignored_example; /* NULL when none */
    char *unused_group;    /* a column of a list that may be one of groups; NULL when none */

    /* In files or a pack: n_samples paths, each in path_text. Else NULL. */
    const char **paths;
    char *path_text;
    size_t root_length;     /* bytes of each path before the sample's name */
    uint32_t *root_lengths; /* n_samples: the same, where they differ; else NULL */
    bool in_class_folders;  /* the names begin with "CLASS/" */

    /* Of a whole dataset with groups: n_samples names, "" = none, each in group_text. Else NULL. */
    const char **groups;
    char *group_text;
    char *grouped_by; /* the pattern or column; of a split, that by which it was divided */
    bool grouped_by_pattern;

    /* In a pack. Else NULL. */
    ls__pack *pack;
    int64_t *pack_offsets;     /* n_classes: a sample's number in the pack minus that here */
    atomic_bool *packed_sound; /* n_samples: its data had the right hash */

    /* In memory: [n_samples,height,width,channels]. Else NULL. */
    uint8_t *images;
    int64_t height, width;

    ls_dataset_callbacks *callbacks; /* of a program; else NULL */

    /* A split of another dataset, which owns the texts of the paths. Else NULL. */
    ls_dataset *whole;
    int64_t *source_samples; /* n_samples: the samples' numbers there */
    double split_fraction;
    uint64_t split_seed;
    bool is_validation;

    ls_digest digest; /* the last one made, for ls_dataset_digest */
    bool has_digest, digest_of_contents;
};

/* An empty dataset, owned by ctx; NULL with an error kept. ls_dataset_close frees its members. */
ls_dataset *ls__dataset_open(ls_context *ctx, const char *what);

/* Copies what the caller chose; values may be NULL. */
ls_status ls__dataset_note_opening(ls_dataset *dataset, const char *what,
                                   const char *const values[LS__N_OPENED_BY]);

/* The dataset that has the sample's data: the whole one of a split. The sample's number becomes
 * that in it. */
static inline const ls_dataset *ls__dataset_source(const ls_dataset *dataset, int64_t *sample)
{
    if (!dataset->whole) return dataset;
    *sample = dataset->source_samples[*sample];
    return dataset->whole;
}
static inline const ls_dataset *ls__dataset_whole(const ls_dataset *dataset)
{
    return dataset->whole ? dataset->whole : dataset;
}

/* The sample's path without the folder of the dataset, which its digest and split depend on. Only
 * of a dataset with paths. */
static inline const char *ls__dataset_name(const ls_dataset *dataset, int64_t sample)
{
    dataset = ls__dataset_source(dataset, &sample);
    return dataset->paths[sample] +
           (dataset->root_lengths ? dataset->root_lengths[sample] : dataset->root_length);
}

/* A sample of a dataset in a pack. */
static inline const ls__pack_sample *ls__dataset_packed(const ls_dataset *dataset, int64_t i)
{
    return &dataset->pack->samples[i + dataset->pack_offsets[dataset->labels[i]]];
}

/* n copies of names; NULL: of "0", "1", ... NULL if memory is short. */
char **ls__dataset_copy_names(ls__bump *bump, int n, const char *const *names);
/* Copies the class names; NULL: they are "0", "1", ... */
bool ls__dataset_name_classes(ls_dataset *dataset, int n_classes, const char *const *names);

/* n targets for each sample, all 0, with copies of their names. The samples' number is set. */
ls_status ls__dataset_open_targets(ls_dataset *dataset, const char *what, int n,
                                   const char *const *names);

/* The list's texts become the paths of as many samples, in this order; the dataset takes their
 * memory. Allocates the labels, too. */
bool ls__dataset_take_paths(ls_dataset *dataset, ls__text_list *paths);

/* The size of a sample's upright image, into decoder->height and width. Thread-safe with a decoder
 * per thread; errors as ls__decoder_probe. */
ls_status ls__dataset_probe(const ls_dataset *dataset, int64_t sample, bool honour_exif,
                            ls__decoder *decoder);
/* After a probe, once: at least the region of that sample's image into decoder->source, borrowed
 * until the next probe. NULL: the whole image. Errors as ls__decode_region. */
ls_status ls__dataset_decode(const ls_dataset *dataset, int64_t sample, const ls__region *region,
                             ls__decoder *decoder);

/* Of a dataset of callbacks: calls load, and leaves the pixels in decoder->image. */
ls_status ls__callbacks_probe(const ls_dataset *dataset, int64_t sample, ls__decoder *decoder);
/* What stands for the sample's pixels in the dataset's digest. Errors as the probe's. */
ls_status ls__callbacks_digest(const ls_dataset *dataset, int64_t sample, ls__decoder *decoder,
                               uint64_t *size, uint64_t *digest);

/* Whether samples may be transparent: files of other formats than JPEG and PNM, by their names. */
bool ls__dataset_may_have_alpha(const ls_dataset *dataset);

/* Digests of the decoders of its pixels (ls__decoders): those stored in a pack of pixels, else
 * those of the loaded libraries. WebP is included if a file has its extension. NULL if memory is
 * short. */
const char *ls__dataset_decoders(const ls_dataset *dataset, char buffer[LS__DECODERS_SIZE]);

#endif
