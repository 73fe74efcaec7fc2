/* pack.h: a folder of images in one file.
 *
 * All numbers are little-endian, all hashes XXH3-64 with seed 0. The file is written from front to
 * end, so the index is at its end:
 *
 *   header   64 bytes   magic; u32 version, form (0 files, 1 pixels), resize (shorter side in
 *                       pixels, 0 = not resized), 0; zeros; u64 hash of the 56 bytes before it
 *   data                of each sample, in their order, each at a multiple of 64: its file, or its
 *                       pixels u8 [height,width,3] as its file holds them (not turned by EXIF),
 *                       or the reason why it could not be read
 *   index    64 bytes   u64 numbers of parts, classes, samples; u64 bytes of text; u64 text of the
 *                       decoders that made the pixels; zeros
 *            24 each    parts: u64 name, first class, number of classes
 *            24 each    classes: u64 name, first sample, number of samples
 *            64 each    samples: see ls__pack_sample
 *                       text: names, each ended by a 0; a name's number is its offset here
 *   trailer  64 bytes   end magic; u64 bytes of the file, place and bytes of the index, its hash,
 *                       hash of the header; u64 0; u64 hash of the 56 bytes before it
 *
 * A part holds one image folder. Its name is that of the folder within the packed one, "" where
 * that was the image folder itself. Parts follow each other, classes lie within their part, samples
 * within their class, sorted by name. A sample's name begins with its class: "cat/1.jpg". */
#ifndef LS_DATA_DATASET_PACK_H
#define LS_DATA_DATASET_PACK_H

#include "data/decode/decoder.h"

#define LS__PACK_MAGIC     "\x89LSpack\n"
#define LS__PACK_END_MAGIC "LSpackZ\n"

enum {
    LS__PACK_VERSION = 1,
    LS__PACK_BLOCK = 64, /* of header and trailer, and what data is aligned to */
    LS__PACK_INDEX_BYTES = 64,
    LS__PACK_GROUP_BYTES = 24, /* of a part, of a class */
    LS__PACK_SAMPLE_BYTES = 64
};

typedef enum ls__pack_form { LS__PACK_FILES, LS__PACK_PIXELS } ls__pack_form;

/* A sample's data: a file or pixels, by the pack's form, or the reason why it could not be read. */
typedef enum ls__pack_state {
    LS__PACK_SOUND,
    LS__PACK_NOT_FOUND, /* LS_ERR_NOT_FOUND */
    LS__PACK_UNREAD,    /* LS_ERR_IO */
    LS__PACK_UNUSABLE,  /* LS_ERR_DATA */
    LS__PACK_N_STATES
} ls__pack_state;

/* Size or hash of a file that could not be read. */
#define LS__PACK_UNKNOWN UINT64_MAX

/* In the file in this order: six u64, two u32, two u16, u32 0. */
typedef struct ls__pack_sample {
    uint64_t offset, bytes, hash;   /* of its data */
    uint64_t file_bytes, file_hash; /* of the image file that was packed */
    uint64_t name;
    uint32_t height, width;      /* of pixels, else 0 */
    uint16_t state, orientation; /* EXIF's of pixels, else 0 */
} ls__pack_sample;

typedef struct ls__pack_group {
    uint64_t name, first, n;
} ls__pack_group;

static inline uint64_t ls__le64(const uint8_t *p)
{
    return (uint64_t)ls__le32(p + 4) << 32 | ls__le32(p);
}

/* ---- Reading ---- */

/* An open pack. Its index is a copy in memory. Samples are read by pread, so a file that another
 * process truncates causes an error and no signal. */
typedef struct ls__pack {
    const ls_context *ctx; /* its allocator holds the index */
    int fd;
    uint64_t bytes, data_end; /* of the file when it was opened; where the index begins */
    ls__pack_form form;
    int64_t resize;
    const char *decoders;
    int64_t n_parts, n_classes, n_samples;
    uint8_t *index;
    const uint8_t *parts, *classes, *samples; /* in the index */
    const char *text;
} ls__pack;

/* Opens a pack and checks all but the data, so that the index of a hostile file can be trusted.
 * LS_ERR_FORMAT: damaged, or no pack; LS_ERR_MEMORY; else as ls__decoder_read. */
ls_status ls__pack_open(const ls_context *ctx, const char *path, ls__pack *out,
                        char reason[LS__REASON_SIZE]);
void ls__pack_close(ls__pack *pack);

ls__pack_group ls__pack_part(const ls__pack *pack, int64_t i);
/* The number of the part with this name; -1: none. */
int64_t ls__pack_find_part(const ls__pack *pack, const char *name);
ls__pack_group ls__pack_class(const ls__pack *pack, int64_t i);
ls__pack_sample ls__pack_sample_at(const ls__pack *pack, int64_t i);
static inline const char *ls__pack_text(const ls__pack *pack, uint64_t name)
{
    return pack->text + name;
}

/* Reads `bytes` bytes at `offset` of the file. LS_ERR_IO: the file is shorter, or the disk failed;
 * the reason gives offset and sizes. Thread-safe. */
ls_status ls__pack_pread(const ls__pack *pack, uint64_t offset, size_t bytes, void *out,
                         char reason[LS__REASON_SIZE]);

/* Whether the data have the sample's hash. */
bool ls__pack_is_sound(const ls__pack_sample *sample, const void *data);

/* Sets decoder->height and width. Reads the data and compares them with their hash unless *sound is
 * set, which this sets; with *sound set, upright pixels are not read yet. Errors as
 * ls__decoder_probe, and LS_ERR_DATA for other data than those written. */
ls_status ls__pack_probe(const ls__pack *pack, const ls__pack_sample *sample, bool honour_exif,
                         bool *sound, ls__decoder *decoder);
/* After a probe: at least the region of the sample into decoder->source. NULL: all of it. */
ls_status ls__pack_decode(const ls__pack *pack, const ls__pack_sample *sample,
                          const ls__region *region, ls__decoder *decoder);

/* Splits "DIR/train.pack/train" into a file that is there and the rest ("" for none), in `file`,
 * whose size is that of the path at least. False when no front part of the path is a file. */
bool ls__pack_split(const char *path, char *file, const char **part);

#endif
