/* pack.h: a folder of images in one file.
 *
 * The file is written from front to end, so its index is at the end:
 *
 *   header   ls__pack_header
 *   data     of each sample, in their order, each at a multiple of 64: its file, or its pixels u8
 *            [height,width,3] as its file holds them (not turned by EXIF), or the reason why it
 *            could not be read
 *   index    ls__pack_index; splits and classes, each an ls__pack_group; samples, each an
 *            ls__pack_sample; text: names, each ended by a 0. A name's number is its offset there
 *   trailer  ls__pack_trailer
 *
 * A split holds one image folder. Its name is that of the folder within the packed one, "" where
 * that was the image folder itself. Splits follow each other, classes lie within their split,
 * samples within their class, sorted by name. A sample's name begins with its class: "cat/1.jpg".
 */
#ifndef LS_DATA_DATASET_PACKS_PACK_H
#define LS_DATA_DATASET_PACKS_PACK_H

#include "data/decode/decoder.h"

#define LS__PACK_MAGIC     "\x89LSpack\n"
#define LS__PACK_END_MAGIC "LSpackZ\n"

enum {
    LS__PACK_VERSION = 1,
    LS__PACK_BLOCK = 64 /* bytes of header and trailer; the alignment of data */
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

/* These structs have the same bytes in the file: little-endian, without gaps. Hashes are XXH3-64
 * with seed 0. */
typedef struct ls__pack_header {
    char magic[8];
    uint32_t version, form;
    uint32_t resize; /* shorter side of the pixels; 0 = not resized */
    uint32_t alpha;  /* of the pixels: 0 = ignored, as by older versions; 1 = white, 2 = black */
    uint32_t depth;  /* and the bits of samples in files of 16 bits per channel; 0 = 16 */
    uint32_t zeros[7];
    uint64_t hash; /* of the bytes before it */
} ls__pack_header;

typedef struct ls__pack_index {
    uint64_t n_splits, n_classes, n_samples, text_bytes;
    uint64_t decoders; /* a name: the text of ls__decoders when it was written */
    uint64_t zeros[3];
} ls__pack_index;

/* The classes of a split, or the samples of a class. */
typedef struct ls__pack_group {
    uint64_t name, first, n;
} ls__pack_group;

typedef struct ls__pack_sample {
    uint64_t offset, bytes, hash;   /* of its data */
    uint64_t file_bytes, file_hash; /* of the image file that was packed */
    uint64_t name;
    uint32_t height, width;      /* of pixels, else 0 */
    uint16_t state, orientation; /* EXIF's of pixels, else 0 */
    uint32_t zero;
} ls__pack_sample;

typedef struct ls__pack_trailer {
    char magic[8];
    uint64_t bytes; /* of the file */
    uint64_t index_offset, index_bytes, index_hash, header_hash, zero;
    uint64_t hash; /* of the bytes before it */
} ls__pack_trailer;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
                   sizeof(ls__pack_header) == LS__PACK_BLOCK && sizeof(ls__pack_index) == 64 &&
                   sizeof(ls__pack_group) == 24 && sizeof(ls__pack_sample) == 64 &&
                   sizeof(ls__pack_trailer) == LS__PACK_BLOCK,
               "the structs are the bytes of the file");

/* ---- Reading ---- */

/* An open pack. Its index is a copy in memory. Samples are read by pread, so a file that another
 * process truncates causes an error and no signal. */
typedef struct ls__pack {
    const ls_context *ctx; /* its allocator holds the index */
    int fd;
    uint64_t bytes, data_end; /* of the file when it was opened; where the index begins */
    ls__pack_form form;
    int64_t resize;
    ls_alpha alpha;
    int depth; /* 9 to 16 */
    const char *decoders;
    int64_t n_splits, n_classes, n_samples;
    ls__pack_index *index;
    const ls__pack_group *splits, *classes; /* in the index's memory, as samples and text */
    const ls__pack_sample *samples;
    const char *text;
} ls__pack;

/* Opens a pack and checks all but the data, so that a hostile index does no harm. LS_ERR_FORMAT:
 * damaged, or no pack; LS_ERR_MEMORY; else as ls__decoder_read. */
ls_status ls__pack_open(const ls_context *ctx, const char *path, ls__pack *out,
                        char reason[LS__REASON_SIZE]);
void ls__pack_close(ls__pack *pack);

/* The number of the split with this name; -1: none. */
int64_t ls__pack_find_split(const ls__pack *pack, const char *name);
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

/* Sets decoder->height and width. Reads the data, compares them with their hash and sets *sound;
 * where *sound is set already, does not compare, nor read upright pixels. Errors as
 * ls__decoder_probe, and LS_ERR_DATA for a wrong hash. */
ls_status ls__pack_probe(const ls__pack *pack, const ls__pack_sample *sample, bool honour_exif,
                         bool *sound, ls__decoder *decoder);
/* After a probe: at least the region of the sample into decoder->source. NULL: all of it. */
ls_status ls__pack_decode(const ls__pack *pack, const ls__pack_sample *sample,
                          const ls__region *region, ls__decoder *decoder);

/* Splits "DIR/train.pack/train" into an existing file, copied to `file` (as large as the path), and
 * the rest ("" for none). False when no beginning of the path is a file. */
bool ls__pack_parse_path(const char *path, char *file, const char **split);

#endif
