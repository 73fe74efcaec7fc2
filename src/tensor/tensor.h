/* tensor.h: the struct of a tensor, for other folders. */
#ifndef LS_TENSOR_TENSOR_H
#define LS_TENSOR_TENSOR_H

#include "base/context.h"
#include "backend/backend.h"

struct ls_tensor {
    ls__owned owned; /* owned.ctx is set for views too */
    ls_dtype dtype;
    ls_shape shape;
    int64_t count;
    size_t bytes;
    void *data; /* device memory */
    /* Labels on a device have a copy in host memory, or NULL, and a number of classes that exceeds
     * all labels; 0 = unknown. Each write of the elements sets it to 0. */
    const int32_t *host_copy;
    int64_t checked_classes;
    bool view; /* data is borrowed, and ls_tensor_close does nothing */
};

/* The device's table of operations: ls__table(tensor)->read(...). */
static inline const ls__backend *ls__table(const ls_tensor *tensor)
{
    return tensor->owned.ctx->device->backend;
}

/* Makes `out` a view of `data`, which must outlive it. shape must be valid. */
void ls__tensor_view(ls_context *ctx, ls_tensor *out, ls_dtype dtype, ls_shape shape, void *data);

/* The two halves of ls_tensor_digest. The first queues the addition of the elements to *sum, in
 * device memory. The second makes the digest of that sum and the tensor's dtype, shape and size. */
ls_status ls__tensor_digest_queue(const ls_tensor *tensor, ls__digest_sum *sum);
/* Queues the addition of the bytes [begin, end) of the elements, where begin is a multiple of 8,
 * and so is end unless it is the end of all. */
ls_status ls__tensor_digest_queue_bytes(const ls_tensor *tensor, size_t begin, size_t end,
                                        ls__digest_sum *sum);
ls_digest ls__tensor_digest_finish(const ls_tensor *tensor, const ls__digest_sum *elements);

/* Fails on a kept error and on tensors of different contexts, shapes or types. */
ls_status ls__tensor_check_pair(const char *call, const ls_tensor *a, const ls_tensor *b,
                                bool same_type);

typedef union ls__element {
    float f32;
    uint16_t u16;
    int64_t i64;
    int32_t i32;
    uint8_t u8;
} ls__element;

/* One element in host memory as a number. */
double ls__element_value(ls_dtype dtype, const void *element);

#endif
