/* tensor_file.h: an open file of named tensors: safetensors, or a PyTorch file. A format parses the
 * file into a list of tensors, and reads ranges of their bytes. */
#ifndef LS_IO_TENSOR_FILE_H
#define LS_IO_TENSOR_FILE_H

#include "base/bump.h"
#include "base/context.h"
#include <lockstep/tensor.h>

typedef struct ls__tensor_header {
    const char *name, *dtype; /* "F32"; also types that ls_dtype lacks. Borrowed from the format */
    ls_spec spec;
    const char *obstacle;         /* what is not supported, or NULL */
    size_t element_bytes;         /* 0 = unknown */
    int64_t storage;              /* the format's number for the memory that holds the elements */
    int64_t begin, end;           /* its bytes in the storage */
    bool strided;                 /* not contiguous: element i, j, ... is at i * strides[0] + ... */
    int64_t strides[LS_MAX_DIMS]; /* in elements, none below 0 */
} ls__tensor_header;

typedef struct ls__tensor_format {
    const char *name; /* "safetensors file" */
    /* Reads `bytes` bytes from byte t->begin + offset of t's storage. */
    ls_status (*read)(const ls_tensor_file *file, const ls__tensor_header *t, void *out,
                      size_t bytes, int64_t offset);
    /* Releases what `data` holds beside memory of the file's bump, also after a parse that failed;
     * data may be NULL. (optional) */
    void (*close)(ls_tensor_file *file);
} ls__tensor_format;

struct ls_tensor_file {
    ls__owned owned;
    ls__bump bump; /* of all members */
    char *path;
    int fd;
    int64_t file_bytes;
    const ls__tensor_format *format;
    void *data;                 /* the format's */
    char *key;                  /* of the dict of these tensors in a PyTorch file, or NULL */
    ls__tensor_header *tensors; /* by name */
    int64_t n_tensors;
};

/* Opens the file; with `key`, which may be NULL, the dict there (torch_pickle.h). */
ls_tensor_file *ls__tensor_file_open(ls_context *ctx, const char *path, const char *key);

/* Set file->format, file->data, the key and the tensors in any order, in the file's bump.
 * `pickles` is for memory that is not kept. */
ls_status ls__safetensors_parse(ls_tensor_file *file);
ls_status ls__torch_zip_parse(ls_tensor_file *file, ls__bump *pickles, const char *key);
ls_status ls__torch_legacy_parse(ls_tensor_file *file, ls__bump *pickles, const char *key);

/* Errors about a malformed file begin with "'PATH' is no FORMAT: ". */
ls_status ls__tensor_file_fail(const ls_tensor_file *file, const char *format, ...) LS_PRINTF(2, 3);
ls_status ls__tensor_file_fail_read(const ls_tensor_file *file, ls_status status,
                                    const char *reason);
/* Reads from the file, not from a tensor. */
ls_status ls__tensor_file_read_at(const ls_tensor_file *file, void *out, size_t bytes,
                                  int64_t offset);

/* For qsort and bsearch: by name. */
int ls__tensor_header_compare(const void *a, const void *b);
/* The tensor of that name, or NULL. */
const ls__tensor_header *ls__tensor_file_get(const ls_tensor_file *file, const char *name);
/* Sets `bytes` of one element; an unknown type leaves 0. Types of ls_dtype set spec.dtype, others
 * the obstacle. */
void ls__tensor_header_set_type(ls__tensor_header *t);

/* All elements in the file's type, in the order of indices, to host memory. */
ls_status ls__tensor_file_read_host(const ls_tensor_file *file, const ls__tensor_header *t,
                                    void *out);
/* True for F64, F32, F16 and BF16, which ls__tensor_file_read_f32 reads. */
bool ls__tensor_header_is_float(const ls__tensor_header *t);
/* All elements as f32, rounded to nearest even, to host memory. The tensor must be of such a type.
 */
ls_status ls__tensor_file_read_f32(const ls_tensor_file *file, const ls__tensor_header *t,
                                   float *out);

#endif
