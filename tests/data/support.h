/* support.h: small images for the tests of src/data. */
#ifndef LS_TESTS_DATA_SUPPORT_H
#define LS_TESTS_DATA_SUPPORT_H

#include "../suite.h"
#include <lockstep/lockstep.h>

/* Pixels [h,w,c] that look a bit like a photograph, another one for each seed; free them. */
uint8_t *draw_image(int h, int w, int c, unsigned seed);
void write_png(const char *path, int h, int w, int c, const uint8_t *pixels);

typedef struct jpeg_options {
    int quality;  /* 0 = 90 */
    int channels; /* of the pixels: 0 = 3; 1 grey, 4 CMYK */
    bool adobe;   /* CMYK stored inverted, with Adobe's marker */
    bool progressive;
    int across, down; /* luma samples for one of chroma: 0 = 2; of colour images */
    bool separate;    /* each channel in a scan of its own */
    bool unfinished;  /* progressive: the scans with the last bits are missing */
    bool arithmetic;  /* coding instead of Huffman's */
    int scans;   /* grey only: the first so many of 704, for every coefficient and bit; 0 = usual
                  */
    int restart; /* MCU rows between restart markers; 0 = none */
    int orientation; /* EXIF; 0 = none */
    bool big_endian; /* of the EXIF note */
    bool no_tables;  /* leaves the quantisation and Huffman tables out */
} jpeg_options;
/* The file's bytes; free them. */
unsigned char *make_jpeg(int h, int w, const uint8_t *pixels, jpeg_options options, size_t *n);
void write_jpeg(const char *path, int h, int w, const uint8_t *pixels, jpeg_options options);

/* The folder of decoder traps (LOCKSTEP_TEST_IMAGES, else ../shared/images beside the source); NULL
 * where it does not exist: such tests are skipped. */
const char *trap_images(void);

#endif
