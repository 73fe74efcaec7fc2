/* safetensors.h: digests of safetensors files; reads and writes tensors without an ls_tensor. */
#ifndef LS_IO_SAFETENSORS_H
#define LS_IO_SAFETENSORS_H

#include "base/file.h"
#include "base/hash.h"
#include <lockstep/tensor.h>

/* Numbers in the file are little-endian, as in this machine's memory. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files need a little-endian machine"
#endif

#define LS__SAFETENSORS_METADATA "__metadata__"

enum {
    LS__SAFETENSORS_MAX_HEADER = 100000000, /* the format's limit */
    LS__SAFETENSORS_CHUNK = 1 << 16         /* bytes per copy from a device */
};

/* Writes all elements of tensor i to file, in order: as many bytes as its spec says. */
typedef ls_status (*ls__put_elements_fn)(void *user, int64_t i, ls__atomic_file *file);

/* As ls_tensors_save, but `put` writes each tensor's elements. `open` is
 * ls__atomic_file_open or ls__atomic_file_replace. */
typedef ls_status (*ls__open_file_fn)(ls_context *ctx, const char *path, ls__atomic_file **out);
ls_status ls__tensors_write(ls_context *ctx, const char *path, ls__open_file_fn open, int64_t n,
                            const char *const *names, const ls_spec *specs, ls__put_elements_fn put,
                            void *user, const char *const *metadata);

/* Add a text or a tensor to the digest of a file, in any order; ls__digest_finish with size 0
 * finishes it. */
void ls__tensors_digest_text(ls__digest_sum *sum, const char *key, const char *value);
void ls__tensors_digest_elements(ls__digest_sum *sum, const char *name, const ls_spec *spec,
                                 const void *elements, size_t bytes);
/* The digest of a whole file except one text of its metadata. */
ls_status ls__tensor_file_digest(const ls_tensor_file *file, const char *but, ls_digest *out);

/* Type and shape of a tensor; an error if the name is unknown or the type is not supported. */
ls_status ls__tensor_file_spec(const ls_tensor_file *file, const char *name, ls_spec *out);

#endif
