/* tensor.h: what a tensor is made of, for the folders above. */
#ifndef LS_TENSOR_TENSOR_H
#define LS_TENSOR_TENSOR_H

#include "base/context.h"
#include "tensor/backend.h"

struct ls_tensor {
    ls__owned owned; /* owned.ctx is set for views too */
    ls_dtype dtype;
    ls_shape shape;
    int64_t count;
    size_t bytes;
    void *data; /* device memory */
    bool view; /* data is somebody else's; the tensor lies inside another object and is never closed
                  alone */
};

/* Makes `out` a view of `data`, which must outlive it. shape must be valid. */
void ls__tensor_view(ls_context *ctx, ls_tensor *out, ls_dtype dtype, ls_shape shape, void *data);

#endif
