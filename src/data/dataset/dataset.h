/* dataset.h: samples with labels, in files, in a pack or in memory. */
#ifndef LS_DATA_DATASET_DATASET_H
#define LS_DATA_DATASET_DATASET_H

#include "base/context.h"
#include "data/decode/decoder.h"
#include "data/dataset/pack.h"
#include <lockstep/data.h>
#include <stdatomic.h>

struct ls_dataset {
    ls__owned owned;
    int n_loaders; /* open over it; the memory is freed when all are closed */
    bool closed;

    int64_t n_samples;
    int n_classes;
    int channels;       /* 3 for files */
    char **class_names; /* n_classes */
    int32_t *labels;    /* n_samples */
    int64_t n_ignored;
    char *ignored_example; /* NULL when none */

    /* In files, or in a pack of them: n_samples paths, each in path_text. Else NULL. */
    const char **paths;
    char *path_text;
    size_t root_length; /* bytes of each path before the part that names the sample */

    /* In a pack. Else NULL. */
    ls__pack *pack;
    int64_t *packed_as;        /* n_samples: the sample's number in the pack */
    atomic_bool *packed_sound; /* n_samples: its data had the right hash */

    /* In memory: [n_samples,height,width,channels]. Else NULL. */
    uint8_t *images;
    int64_t height, width;

    ls_digest digest; /* the last one made, for ls_dataset_digest */
    bool has_digest, digest_of_contents;
};

/* An empty dataset, owned by ctx; NULL with an error kept. ls_dataset_close frees its members. */
ls_dataset *ls__dataset_open(ls_context *ctx, const char *what);

/* Copies the class names; NULL: they are "0", "1", ... */
bool ls__dataset_name_classes(ls_dataset *dataset, int n_classes, const char *const *names);

/* For loaders: the dataset stays until as many releases. */
void ls__dataset_retain(ls_dataset *dataset);
void ls__dataset_release(ls_dataset *dataset);

/* The size of a sample's upright image, into decoder->height and width. Thread-safe with a decoder
 * per thread; errors as ls__decoder_probe. */
ls_status ls__dataset_probe(const ls_dataset *dataset, int64_t sample, bool honour_exif,
                            ls__decoder *decoder);
/* After a probe, once: at least the region of that sample's image into decoder->source, borrowed
 * until the next probe. NULL: the whole image. Errors as ls__decode_region. */
ls_status ls__dataset_decode(const ls_dataset *dataset, int64_t sample, const ls__region *region,
                             ls__decoder *decoder);

/* The decoders that its pixels depend on: those of a pack of pixels, else the library's. */
const char *ls__dataset_decoders(const ls_dataset *dataset);

#endif
