/* pack.h: a folder of images in one file, for data that is read often or over a slow disk.
 *
 *   ls_dataset *train = ls_image_folder_open(ctx, "photos/train");
 *   ls_pack_part part = { "train", train };
 *   ls_pack_write(ctx, "photos.pack", 1, &part, NULL, NULL);
 *   ...
 *   train = ls_image_folder_open(ctx, "photos.pack/train");
 *
 * ls_image_folder_open and _open_classes open a pack in place of the folder that was packed; its
 * parts are the folders in it. The index is read when the pack is opened, each image when it is
 * needed. A pack of files, or of their pixels, gives the same batches, bit for bit, and has the
 * same digest as the folder: a run begun on one can be resumed on the other. A pack of resized
 * images is a dataset of its own.
 *
 * Damage to the index is detected when the pack is opened, damage to a sample's data when it is
 * first read; the sample is then a bad image (see on_bad_image of the loader). The file must not
 * change while it is open. A file that another process truncates, and a disk that fails, cause bad
 * images, too (LS_ERR_IO); no signal is raised. The file may be replaced by renaming another to its
 * path. */
#ifndef LOCKSTEP_PACK_H
#define LOCKSTEP_PACK_H

#include <lockstep/data.h>

LS_BEGIN_DECLARATIONS

/* The dataset of an image folder, which becomes the part `name`; "" for a pack of one part that is
 * opened by the name of the file alone. */
typedef struct ls_pack_part {
    const char *name;
    ls_dataset *dataset;
} ls_pack_part;

typedef struct ls_pack_config {
    bool pixels;    /* each image is stored decoded, u8 [H,W,3]: fast to read, but large */
    int64_t resize; /* > 0: stores pixels, each image resized so that its shorter side is this;
                       smaller ones are enlarged */
    ls_bad_image on_bad_image; /* SKIP: an unreadable image is packed as such, with a warning;
                                  loaders treat it as they treat the file. One image at least must
                                  be readable */
    int workers;               /* threads that read and decode; 0 = the calling thread does. The
                                  number never changes a byte of the pack */
    int64_t max_pixels; /* as in ls_loader_config: larger images are unreadable; 0 = the default */
    bool overwrite;     /* replaces an existing file, unless it is an image to be packed */

    /* Called for each sample by the calling thread; false stops with LS_ERR_IO and leaves no file.
     */
    bool (*progress)(void *user, int64_t n_done, int64_t n_samples);
    void *user;
} ls_pack_config;

typedef struct ls_pack_summary {
    int n_parts;
    int64_t n_samples;
    /* Unreadable samples; of ls_pack_check: those that the pack holds no data of but the reason. */
    int64_t n_bad;
    int64_t bytes; /* of the pack */
    bool pixels;
    int64_t resize; /* 0 = not resized */
} ls_pack_summary;

/* Writes a pack, which appears whole or not at all. Each image is decoded, also for a pack of
 * files, so that unreadable images are detected now. config NULL: all defaults; out may be NULL. On
 * failure out has the unreadable images that were found, and no other number.
 *
 * LS_ERR_INVALID: a part without a name beside others, with a slash in it, or named twice; a
 * dataset that is no image folder's, or of another context, or has its classes in another order
 * than that of their bytes; a path that is one of the images. LS_ERR_IO: a file that is there, a
 * full disk, or progress said false. Of an unreadable image LS_ERR_NOT_FOUND, LS_ERR_IO or
 * LS_ERR_DATA, as ls_loader_next. LS_ERR_DATA also where none can be used. LS_ERR_MEMORY. */
LS_API ls_status ls_pack_write(ls_context *ctx, const char *path, int n_parts,
                               const ls_pack_part *parts, const ls_pack_config *config,
                               ls_pack_summary *out);

/* Reads a whole pack and compares all of it with the hashes in it. LS_ERR_FORMAT: no pack, or
 * damaged; the message names the first sample that is. LS_ERR_NOT_FOUND, LS_ERR_IO: could not be
 * read, or progress said false. out may be NULL; of config, which may be NULL too, only progress
 * counts. */
LS_API ls_status ls_pack_check(ls_context *ctx, const char *path, const ls_pack_config *config,
                               ls_pack_summary *out);

/* Sets held[i] to whether a pack at that path has the part parts[i] ("" for the one without a
 * name), for n parts, and returns whether any is held. For a file that is damaged or can't be read
 * all are set, so that opening it reports the error. */
LS_API bool ls_pack_holds(const char *path, int n, const char *const *parts, bool *held);

LS_END_DECLARATIONS

#endif
