/* kernel.h: a kernel of this folder, as its tasks and the provider see it. */
#ifndef LS_CPU_CONV_SMALL_CHANNELS_KERNEL_H
#define LS_CPU_CONV_SMALL_CHANNELS_KERNEL_H

#include "cpu/conv/small_channels/small_channels.h"

typedef struct ls__small_channels_kernel {
    ls__conv_kernel base;                    /* first */
    int64_t images, xh, xw, in, yh, yw, out; /* x [images,xh,xw,in], y [images,yh,yw,out] */
    int64_t kernel_h, row_taps;              /* row_taps: kernel width times in */
    int64_t stride_h, stride_w, padding[2];
    bool padded;           /* else x itself is read */
    bool slides;           /* forward: sliding.c's */
    int64_t columns;       /* of a padded row, in places */
    int64_t pitch;         /* of a row that is read, in floats */
    int64_t rows_per_tile; /* of y */
    int64_t tiles_per_image, n_tiles, n_tasks;
    int64_t padded_out, padded_row_taps; /* whole vectors */
} ls__small_channels_kernel;

/* Images are cut into tiles: output rows, each with the padding of the input rows that it sees.
 * A task has some tiles. */
typedef struct ls__small_channels_tile {
    int64_t image, first, rows; /* of y */
} ls__small_channels_tile;

ls__small_channels_tile ls__small_channels_tile_at(const ls__small_channels_kernel *k, int64_t i);
int64_t ls__small_channels_first_tile(const ls__small_channels_kernel *k, int64_t task);
/* How many input rows so many rows of y see. */
int64_t ls__small_channels_input_rows(const ls__small_channels_kernel *k, int64_t rows);
/* Where the part of a padded row that is in the image begins, and its length; in places. */
int64_t ls__small_channels_inside(const ls__small_channels_kernel *k, int64_t *length);
/* The input rows that a tile sees; zeros around the image. */
const float *ls__small_channels_read_tile(const ls__small_channels_kernel *k, const float *x,
                                          const ls__small_channels_tile *p, float *scratch);
int64_t ls__small_channels_tile_floats(const ls__small_channels_kernel *k); /* of these, at most */
/* Of a task's partial sums, [taps and bias][padded_out]. */
int64_t ls__small_channels_part_floats(const ls__small_channels_kernel *k);

/* Sets workspace_bytes and scratch_bytes from all else. */
void ls__small_channels_plan_memory(ls__small_channels_kernel *k);

/* x w b? -> y */
ls_status ls__small_channels_run_forward(ls__kernel *kernel, void *const *buffers, void *workspace,
                                         const ls__step *step);
/* dy w -> dx */
ls_status ls__small_channels_run_data(ls__kernel *kernel, void *const *buffers, void *workspace,
                                      const ls__step *step);
/* x dy -> dw db? */
ls_status ls__small_channels_run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                                         const ls__step *step);

#endif
