/* pieces.c: the pieces that images are cut into, and what memory they take. */
#include "cpu/conv/small_channels/kernel.h"

#include <string.h>

ls__narrow_piece ls__narrow_piece_at(const ls__narrow_kernel *k, int64_t i)
{
    const int64_t first = i % k->pieces_per_image * k->rows_per_piece;
    return (ls__narrow_piece){ i / k->pieces_per_image, first,
                               ls__min(k->rows_per_piece, k->yh - first) };
}

int64_t ls__narrow_input_rows(const ls__narrow_kernel *k, int64_t rows)
{
    return (rows - 1) * k->stride_h + k->kernel_h;
}

int64_t ls__narrow_piece_floats(const ls__narrow_kernel *k)
{
    return ls__narrow_input_rows(k, k->rows_per_piece) * k->pitch;
}

int64_t ls__narrow_inside(const ls__narrow_kernel *k, int64_t *length)
{
    *length = ls__min(k->xw, k->columns - k->padding[1]);
    return k->padding[1];
}

const float *ls__narrow_read_piece(const ls__narrow_kernel *k, const float *x,
                                   const ls__narrow_piece *p, float *scratch)
{
    const int64_t top = p->first * k->stride_h - k->padding[0];
    const float *image = x + p->image * k->xh * k->xw * k->in;
    if (!k->padded) return image + top * k->pitch;
    int64_t length;
    const int64_t begin = ls__narrow_inside(k, &length) * k->in;
    length *= k->in;
    for (int64_t r = 0; r < ls__narrow_input_rows(k, p->rows); r++) {
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

int64_t ls__narrow_first_piece(const ls__narrow_kernel *k, int64_t task)
{
    return task * k->n_pieces / k->n_tasks;
}

int64_t ls__narrow_part_floats(const ls__narrow_kernel *k)
{
    return (k->kernel_h * k->stretch + 1) * k->wide_out;
}

size_t ls__narrow_plan_memory(ls__narrow_kernel *k)
{
    int64_t workspace = ls__narrow_part_floats(k),
            scratch = k->padded ? ls__narrow_piece_floats(k) + LS__NARROW_VECTOR : 0;
    if (k->kind == LS__OP_CONV2D_BACKWARD_DATA) {
        workspace = k->kernel_h * k->out * k->wide_stretch;
        scratch = k->pitch + LS__NARROW_VECTOR;
    } else if (k->kind == LS__OP_CONV2D_BACKWARD_WEIGHTS) {
        workspace *= k->n_tasks;
        scratch += k->rows_per_piece * k->yw * k->wide_out;
    }
    k->kernel.workspace_bytes = (size_t)workspace * sizeof(float);
    return (size_t)scratch * sizeof(float);
}
