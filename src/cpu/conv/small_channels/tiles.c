/* tiles.c: the tiles that images are cut into, and what memory they take. */
#include "cpu/conv/small_channels/kernel.h"

#include <string.h>

ls__small_channels_tile ls__small_channels_tile_at(const ls__small_channels_kernel *k, int64_t i)
{
    const int64_t first = i % k->tiles_per_image * k->rows_per_tile;
    return (ls__small_channels_tile){ i / k->tiles_per_image, first,
                                      ls__min(k->rows_per_tile, k->yh - first) };
}

int64_t ls__small_channels_input_rows(const ls__small_channels_kernel *k, int64_t rows)
{
    return (rows - 1) * k->stride_h + k->kernel_h;
}

int64_t ls__small_channels_tile_floats(const ls__small_channels_kernel *k)
{
    return ls__small_channels_input_rows(k, k->rows_per_tile) * k->pitch;
}

int64_t ls__small_channels_inside(const ls__small_channels_kernel *k, int64_t *length)
{
    *length = ls__min(k->xw, k->columns - k->padding[1]);
    return k->padding[1];
}

const float *ls__small_channels_read_tile(const ls__small_channels_kernel *k, const float *x,
                                          const ls__small_channels_tile *p, float *scratch)
{
    const int64_t top = p->first * k->stride_h - k->padding[0];
    const float *image = x + p->image * k->xh * k->xw * k->in;
    if (!k->padded) return image + top * k->pitch;
    int64_t length;
    const int64_t begin = ls__small_channels_inside(k, &length) * k->in;
    length *= k->in;
    for (int64_t r = 0; r < ls__small_channels_input_rows(k, p->rows); r++) {
        float *row = scratch + r * k->pitch;
        const int64_t h = top + r;
        if (h < 0 || h >= k->xh || length <= 0) {
            memset(row, 0, (size_t)k->pitch * sizeof *row);
            continue;
        }
        memset(row, 0, (size_t)begin * sizeof *row);
        memcpy(row + begin, image + h * k->xw * k->in, (size_t)length * sizeof *row);
        memset(row + begin + length, 0, (size_t)(k->pitch - begin - length) * sizeof *row);
    }
    return scratch;
}

int64_t ls__small_channels_first_tile(const ls__small_channels_kernel *k, int64_t task)
{
    return task * k->n_tiles / k->n_tasks;
}

int64_t ls__small_channels_part_floats(const ls__small_channels_kernel *k)
{
    return (k->kernel_h * k->row_taps + 1) * k->padded_out;
}

void ls__small_channels_plan_memory(ls__small_channels_kernel *k)
{
    int64_t workspace = ls__small_channels_part_floats(k),
            scratch = k->padded ? ls__small_channels_tile_floats(k) + LS__SMALL_CHANNELS_VECTOR : 0;
    if (k->base.kind == LS__OP_CONV2D_BACKWARD_DATA) {
        workspace = k->kernel_h * k->out * k->padded_row_taps;
        scratch = k->pitch + LS__SMALL_CHANNELS_VECTOR;
    } else if (k->base.kind == LS__OP_CONV2D_BACKWARD_WEIGHTS) {
        workspace *= k->n_tasks;
        scratch += k->rows_per_tile * k->yw * k->padded_out;
    }
    k->base.kernel.workspace_bytes = (size_t)workspace * sizeof(float);
    k->base.scratch_bytes = (size_t)scratch * sizeof(float);
}
