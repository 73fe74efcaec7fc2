/* safetensors.h: what the writer and the reader of safetensors files share, and both for elements
 * that are not those of a tensor. */
#ifndef LS_IO_SAFETENSORS_H
#define LS_IO_SAFETENSORS_H

#include "base/file.h"
#include "base/hash.h"
#include <lockstep/tensor.h>

/* Numbers in the file are little-endian; they are read and written as they lie in memory. */
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files need a little-endian machine"
#endif

#define LS__SAFETENSORS_METADATA "__metadata__"

enum {
    LS__SAFETENSORS_MAX_HEADER = 100000000, /* the format's limit */
    LS__SAFETENSORS_PIECE = 1 << 16         /* bytes per copy where the device is not the host */
};

/* Writes all elements of tensor i to file, in order: as many bytes as its spec says. */
typedef ls_status (*ls__put_elements_fn)(void *user, int64_t i, ls__atomic_file *file);

/* As ls_tensors_save, with elements that `put` makes when the file has come to them. `open` is
 * ls__atomic_file_open or ls__atomic_file_replace. */
typedef ls_status (*ls__open_file_fn)(ls_context *ctx, const char *path, ls__atomic_file **out);
ls_status ls__tensors_write(ls_context *ctx, const char *path, ls__open_file_fn open, int64_t n,
                            const char *const *names, const ls_spec *specs, ls__put_elements_fn put,
                            void *user, const char *const *metadata);

/* A file's contents as a sum of its parts, in any order, to be finished by
 * ls__tensors_digest_finish: what is in a file is what was to be in it. */
void ls__tensors_digest_text(ls__digest_sum *sum, const char *key, const char *value);
void ls__tensors_digest_elements(ls__digest_sum *sum, const char *name, const ls_spec *spec,
                                 const void *elements, size_t bytes);
ls_digest ls__tensors_digest_finish(ls__digest_sum *sum);
/* The same of a whole file but for one text of its metadata. */
ls_status ls__tensor_file_digest(const ls_tensor_file *file, const char *but, ls_digest *out);

/* Type and shape of a tensor; an error when there is none of that name, or none that we can read.
 */
ls_status ls__tensor_file_spec(const ls_tensor_file *file, const char *name, ls_spec *out);
/* All elements of a tensor, to host memory of that many bytes. */
ls_status ls__tensor_file_read_host(const ls_tensor_file *file, const char *name, void *out,
                                    size_t bytes);

#endif
