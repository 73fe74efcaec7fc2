/* torch_pickle.h: the tensors of a PyTorch state dict, from the pickles that torch.save writes
 * (torch/serialization.py). Nothing is executed: see pickle.h. */
#ifndef LS_IO_TORCH_PICKLE_H
#define LS_IO_TORCH_PICKLE_H

#include "io/pickle_value.h"

/* A pickle has at most this many bytes: 100 times those of a ResNet-152 with its optimizer. */
enum { LS__PICKLE_MAX_BYTES = 1 << 22 };

/* The memory of tensors. */
typedef struct ls__torch_storage {
    const char *key;   /* names it in the file */
    const char *dtype; /* "F32" */
    int64_t count;     /* elements */
    const struct ls__torch_storage *next;
} ls__torch_storage;

typedef struct ls__torch_tensor {
    const char *name; /* in the state dict */
    const ls__torch_storage *storage;
    int64_t offset; /* elements from the start of the storage */
    int n_dims;
    const int64_t *sizes, *strides; /* n_dims each, none below 0; strides in elements */
} ls__torch_tensor;

/* All memory lies in the machine's `bump`; no text points into the pickle. */
typedef struct ls__torch_state_dict {
    const char *key; /* of the dict, such as "model" or "ema.state_dict"; "" = the pickle's value */
    int64_t n;
    ls__torch_tensor *tensors;
} ls__torch_state_dict;

/* Unpickles PyTorch's tensors. `p` is the first member, so that functions of the machine can cast
 * their argument. */
typedef struct ls__torch_pickle {
    ls__pickle p;
    const char *path;                  /* of the file */
    const ls__torch_storage *storages; /* each time that the pickles name one, the last one first */
} ls__torch_pickle;

void ls__torch_pickle_open(ls__torch_pickle *t, ls_context *ctx, ls__bump *bump, const char *path,
                           const void *bytes, size_t size);

/* Reads the state dict of the pickle at t->p.at. It is
 * - with `key`, the dict there: "a.b" is the item "b" of the dict "a", or the dict "a" if names in
 *   it begin with "b.";
 * - else the dict of a usual key, averaged weights first: "model_ema", "state_dict", "model", ...;
 * - else the only dict that holds tensors, apart from an optimizer's state.
 * Items that are no tensors are skipped. LS_ERR_FORMAT names the byte and the opcode that is
 * malformed; LS_ERR_UNSUPPORTED what the file holds instead of a state dict; LS_ERR_MISMATCH the
 * keys to choose from. */
ls_status ls__torch_read_state_dict(ls__torch_pickle *t, const char *key,
                                    ls__torch_state_dict *out);

#endif
