/* torch_pickle.h: the tensors of a PyTorch state dict, from the pickle that torch.save writes
 * (torch/serialization.py). Nothing is executed: see pickle.h. */
#ifndef LS_IO_TORCH_PICKLE_H
#define LS_IO_TORCH_PICKLE_H

#include "base/bump.h"
#include <lockstep/status.h>

/* A pickle has at most this many bytes. */
enum { LS__PICKLE_MAX_BYTES = 1 << 22 };

/* The memory of tensors: the entry "data/KEY" of the file. */
typedef struct ls__torch_storage {
    const char *key;
    const char *dtype; /* "F32" */
    int64_t count;     /* elements */
} ls__torch_storage;

typedef struct ls__torch_tensor {
    const char *name; /* in the state dict */
    const ls__torch_storage *storage;
    int64_t offset; /* elements from the start of the storage */
    int n_dims;
    const int64_t *sizes, *strides; /* n_dims each, none below 0; strides in elements */
} ls__torch_tensor;

typedef struct ls__torch_state_dict {
    int64_t n;
    ls__torch_tensor *tensors;
} ls__torch_state_dict;

/* Reads the state dict: the pickle's value, or the dict in its item "state_dict" or "model". Items
 * that are no tensors are skipped. The result lies in `bump`; no text points into `bytes`.
 * LS_ERR_FORMAT names the byte and the opcode or global that is malformed or not allowed. */
ls_status ls__torch_unpickle(ls_context *ctx, ls__bump *bump, const void *bytes, size_t size,
                             ls__torch_state_dict *out);

#endif
