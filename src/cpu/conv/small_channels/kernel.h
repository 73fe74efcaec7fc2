/* kernel.h: a kernel of this folder, as its tasks and its maker see it. */
#ifndef LS_CPU_CONV_SMALL_CHANNELS_KERNEL_H
#define LS_CPU_CONV_SMALL_CHANNELS_KERNEL_H

#include "cpu/conv/small_channels/narrow.h"

typedef struct ls__narrow_kernel {
    ls__kernel kernel; /* first */
    ls__cpu *cpu;
    ls__op_kind kind;
    int64_t images, xh, xw, in, yh, yw, out; /* x [images,xh,xw,in], y [images,yh,yw,out] */
    int64_t kernel_h, stretch;               /* stretch: kernel width times in */
    int64_t stride_h, stride_w, padding[2];
    bool padded;            /* else x itself is read */
    bool slides;            /* forward: slide.c's */
    int64_t columns;        /* of a padded row, in places */
    int64_t pitch;          /* of a row that is read, in floats */
    int64_t rows_per_piece; /* of y */
    int64_t pieces_per_image, n_pieces, n_tasks;
    int64_t wide_out, wide_stretch; /* whole vectors */
} ls__narrow_kernel;

/* Images are cut into pieces: output rows, each with the padding of the input rows that it sees.
 * A task has some pieces. */
typedef struct ls__narrow_piece {
    int64_t image, first, rows; /* of y */
} ls__narrow_piece;

ls__narrow_piece ls__narrow_piece_at(const ls__narrow_kernel *k, int64_t i);
int64_t ls__narrow_first_piece(const ls__narrow_kernel *k, int64_t task);
/* How many input rows so many rows of y see. */
int64_t ls__narrow_input_rows(const ls__narrow_kernel *k, int64_t rows);
/* Where the part of a padded row that is in the image begins, and its length; in places. */
int64_t ls__narrow_inside(const ls__narrow_kernel *k, int64_t *length);
/* The input rows that a piece sees; zeros around the image. */
const float *ls__narrow_read_piece(const ls__narrow_kernel *k, const float *x,
                                   const ls__narrow_piece *p, float *scratch);
int64_t ls__narrow_piece_floats(const ls__narrow_kernel *k); /* of these, at most */
/* Of a task's partial sums, [taps and bias][wide_out]. */
int64_t ls__narrow_part_floats(const ls__narrow_kernel *k);

/* Sets workspace_bytes; all else is set. Returns the bytes of scratch. */
size_t ls__narrow_plan_memory(ls__narrow_kernel *k);

/* x w b? -> y */
ls_status ls__narrow_run_forward(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step);
/* dy w -> dx */
ls_status ls__narrow_run_data(ls__kernel *kernel, void *const *buffers, void *workspace,
                              const ls__step *step);
/* x dy -> dw db? */
ls_status ls__narrow_run_weights(ls__kernel *kernel, void *const *buffers, void *workspace,
                                 const ls__step *step);

#endif
