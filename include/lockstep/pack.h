/* pack.h: a folder of images in one file, for data that is read often or over a slow disk.
 *
 *   ls_dataset *train = ls_image_folder_open(ctx, "photos/train");
 *   ls_pack_split split = { "train", train };
 *   ls_pack_write(ctx, "photos.pack", 1, &split, NULL, NULL);
 *   ...
 *   train = ls_image_folder_open(ctx, "photos.pack/train");
 *
 * ls_image_folder_open and _open_classes open a pack like the folder that was packed, and its
 * splits like sub-folders. The index is read when the pack is opened, each image when it is needed.
 * A pack of image files or of decoded pixels gives bit-identical batches, and has the same digest
 * as the folder: a run that began on one can be resumed on the other. A pack of resized images is a
 * different dataset with its own digest.
 *
 * Damage to the index is detected when the pack is opened, damage to a sample's data when it is
 * first read; the sample is then unreadable (see on_bad_image of the loader). The file must not
 * change while it is open. A file that another process truncates, and a disk that fails, cause
 * unreadable images, too (LS_ERR_IO); no signal is raised. The file may be replaced by renaming
 * another to its path. */
#ifndef LOCKSTEP_PACK_H
#define LOCKSTEP_PACK_H

#include <lockstep/loader.h>

LS_BEGIN_DECLARATIONS

/* The dataset of an image folder, which becomes the split `name`. The name "" is for a pack of one
 * split, which is opened by the path of the file alone. */
typedef struct ls_pack_split {
    const char *name;
    ls_dataset *dataset;
    LS_RESERVED(4);
} ls_pack_split;

typedef struct ls_pack_config {
    bool pixels;    /* each image is stored decoded, u8 [H,W,3]: fast to read, but large */
    int64_t resize; /* > 0: stores pixels, each image resized so that its shorter side has this
                       size; smaller ones are enlarged */
    ls_bad_image on_bad_image; /* SKIP: an image with unusable contents, or without a file, is
                                  packed as it is, with a warning; loaders treat it like an
                                  unreadable file. Another error of reading ends the call. At
                                  least one image must be readable */
    int workers;               /* threads that read and decode; 0 = the calling thread. The
                                  number does not change a byte of the pack */
    int64_t max_pixels; /* as in ls_loader_config: larger images are unreadable; 0 = the default */
    ls_alpha alpha; /* these two as in ls_loader_config, for packs of pixels, whose loaders must */
    int depth;      /* have the same; LS_ERR_INVALID for packs of files */
    bool overwrite; /* replaces an existing file, unless it is an image to be packed */

    /* Called for each sample by the calling thread. If it returns false, the call ends with
     * LS_ERR_IO and writes no file; with `overwrite` the previous file is unchanged. */
    bool (*progress)(void *user, int64_t n_done, int64_t n_samples);
    void *user;
    LS_RESERVED(8);
} ls_pack_config;

typedef struct ls_pack_summary {
    int n_splits;
    int64_t n_samples;
    /* Unreadable samples. For ls_pack_check, samples whose data the pack lacks. */
    int64_t n_bad;
    int64_t bytes; /* of the pack */
    bool pixels;
    int64_t resize; /* 0 = not resized */
    LS_RESERVED(8);
} ls_pack_summary;

/* Writes a pack, atomically. Each image is decoded, even for a pack of files, so that unreadable
 * images are detected now. config NULL: all defaults; out may be NULL. On failure only out's n_bad
 * is set.
 *
 * LS_ERR_INVALID: an unnamed split beside others; a split's name with a slash, or used twice; a
 * dataset that is not of an image folder, or is of another context, or whose classes are not in
 * byte order; a path that is one of the images. LS_ERR_IO: the file exists, the disk is full, or
 * progress returned false. LS_ERR_NOT_FOUND, LS_ERR_IO or LS_ERR_DATA: an unreadable image, as for
 * ls_loader_next. LS_ERR_DATA: no image is readable. LS_ERR_MEMORY: out of memory. */
LS_API ls_status ls_pack_write(ls_context *ctx, const char *path, int n_splits,
                               const ls_pack_split *splits, const ls_pack_config *config,
                               ls_pack_summary *out);

/* Reads a whole pack and compares it with its hashes. LS_ERR_FORMAT: not a pack, or damaged; the
 * message names the first damaged sample. LS_ERR_NOT_FOUND, LS_ERR_IO: the file can't be read, or
 * progress returned false. out and config may be NULL; of config only progress is read. */
LS_API ls_status ls_pack_check(ls_context *ctx, const char *path, const ls_pack_config *config,
                               ls_pack_summary *out);

/* For each i < n, sets found[i] to whether the pack at `path` has the split splits[i] ("" = the
 * unnamed split). Returns true if it has any of them. If the file is damaged or can't be read, all
 * are true, so that opening it reports the error. */
LS_API bool ls_pack_holds(const char *path, int n, const char *const *splits, bool *found);

#ifndef LOCKSTEP_MINIMAL
/* Opens the parts of a folder for ls_pack_write: its class folders for training, validation and
 * tests (ls_split_find) as "train", "val" and "test", or without them the class folders in `dir`
 * as "". Lists are left out with a warning. Returns the number of parts, or 0 with the error:
 * LS_ERR_DATA for a pack, a list and idx files, LS_ERR_IO and others for what can't be read. The
 * context owns the datasets. */
LS_API int ls_pack_open_splits(ls_context *ctx, const char *dir, ls_pack_split splits[LS_N_SPLITS]);
#endif

LS_END_DECLARATIONS

#endif
