/* tensor.h: dense tensors for data and inspection. There are no strides, no non-contiguous views
 * and no autograd: networks are built with nn.h. Shapes are written in memory order, images as
 * [N,H,W,C] (PyTorch's channels_last). */
#ifndef LOCKSTEP_TENSOR_H
#define LOCKSTEP_TENSOR_H

#include <lockstep/context.h>

LS_BEGIN_DECLARATIONS

/* X(name, text, bytes) */
#define LS_DTYPE_LIST(X)                                                                           \
    X(F32, "F32", 4)                                                                               \
    X(BF16, "BF16", 2)                                                                             \
    X(F16, "F16", 2)                                                                               \
    X(I64, "I64", 8)                                                                               \
    X(I32, "I32", 4)                                                                               \
    X(U8, "U8", 1)

typedef enum ls_dtype {
#define LS_DTYPE_ENUM(name, text, bytes) LS_##name,
    LS_DTYPE_LIST(LS_DTYPE_ENUM)
#undef LS_DTYPE_ENUM
} ls_dtype;

enum { LS_MAX_DIMS = 6, LS_N_DTYPES = LS_U8 + 1 };

/* n_dims 0 = a scalar, one element. */
typedef struct ls_shape {
    int n_dims;
    int64_t dims[LS_MAX_DIMS];
} ls_shape;

/* LS_SHAPE(32, 28, 28, 1) */
#if defined(__cplusplus)
LS_END_DECLARATIONS
template <typename... Dims> inline ls_shape ls_make_shape(Dims... dims)
{
    return ls_shape{ static_cast<int>(sizeof...(Dims)), { static_cast<int64_t>(dims)... } };
}
LS_BEGIN_DECLARATIONS
#define LS_SHAPE(...) ls_make_shape(__VA_ARGS__)
#else
#define LS_SHAPE(...)                                                                              \
    ((ls_shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
#endif

/* Type and shape of a tensor. */
typedef struct ls_spec {
    ls_dtype dtype;
    ls_shape shape;
} ls_spec;

typedef struct ls_tensor ls_tensor;

LS_API const char *ls_dtype_name(ls_dtype dtype);
LS_API size_t ls_dtype_bytes(ls_dtype dtype);
/* The number of elements of a shape; -1 if a dimension is negative or the product overflows. */
LS_API int64_t ls_shape_element_count(const ls_shape *shape);
LS_API bool ls_shape_equal(const ls_shape *a, const ls_shape *b);
/* Writes "[32,28,28,1]" into buffer (cut to size, always terminated) and returns buffer. */
LS_API const char *ls_shape_text(const ls_shape *shape, char *buffer, size_t size);
enum { LS_SHAPE_TEXT_SIZE = 160 };

/* A tensor of zeros in device memory. The caller owns it; if it is not closed, ls_context_close
 * closes it. */
LS_API ls_tensor *ls_tensor_open(ls_context *ctx, ls_dtype dtype, ls_shape shape);
/* Opens a tensor with a copy of host data of this type and shape. */
LS_API ls_tensor *ls_tensor_from_data(ls_context *ctx, ls_dtype dtype, ls_shape shape,
                                      const void *data);
LS_API void ls_tensor_close(ls_tensor **tensor);

LS_API ls_dtype ls_tensor_dtype(const ls_tensor *tensor);
LS_API const ls_shape *ls_tensor_shape(const ls_tensor *tensor); /* borrowed from the tensor */
LS_API int64_t ls_tensor_element_count(const ls_tensor *tensor);
LS_API size_t ls_tensor_bytes(const ls_tensor *tensor);
/* A pointer to the elements on the CPU; NULL on other devices. Borrowed from the tensor. */
LS_API void *ls_tensor_data(ls_tensor *tensor);
LS_API const void *ls_tensor_data_const(const ls_tensor *tensor);

/* Copies a tensor to host memory (read), or host memory to a tensor (write). `bytes` must equal
 * ls_tensor_bytes. */
LS_API ls_status ls_tensor_read(const ls_tensor *tensor, void *out, size_t bytes);
LS_API ls_status ls_tensor_write(ls_tensor *tensor, const void *data, size_t bytes);

/* dst = src; same type and shape. */
LS_API ls_status ls_tensor_copy(ls_tensor *dst, const ls_tensor *src);
/* dst = src converted to dst's type; same shape. Floats round to nearest even; float to integer
 * truncates towards zero and saturates, NaN gives 0. */
LS_API ls_status ls_tensor_cast(ls_tensor *dst, const ls_tensor *src);
/* Every element = value, converted as in ls_tensor_cast. */
LS_API ls_status ls_tensor_fill(ls_tensor *tensor, double value);
/* f32 tensors: uniform in [low, high) or normal, a function of the context's seed, draw_number and
 * the element's index. Calls with different draw_number give independent values. */
LS_API ls_status ls_tensor_random_uniform(ls_tensor *tensor, uint64_t draw_number, float low,
                                          float high);
LS_API ls_status ls_tensor_random_normal(ls_tensor *tensor, uint64_t draw_number, float mean,
                                         float std);

/* The difference between two tensors of one type and shape. */
typedef struct ls_difference {
    int64_t n_different; /* elements whose bits differ */
    int64_t first;       /* index of the first of them, -1 if none */
    double max_absolute;
    double relative_l2; /* |a-b| / |b|, 0 when both are zero */
    LS_RESERVED(4);
} ls_difference;
LS_API ls_status ls_tensor_compare(const ls_tensor *a, const ls_tensor *b, ls_difference *out);

/* A 128-bit hash of the elements in the order of their indices, whatever the memory layout. Tensors
 * with equal bits, type and shape have equal digests. A digest depends on the positions of the
 * elements, and not on the number of threads. All NaN count as one, because their signs and
 * payloads differ between processors. */
typedef struct ls_digest {
    uint64_t words[2];
} ls_digest;
LS_API ls_status ls_tensor_digest(const ls_tensor *tensor, ls_digest *out);
LS_API bool ls_digest_equal(ls_digest a, ls_digest b);
enum { LS_DIGEST_TEXT_SIZE = 33 };
/* 32 hex digits and a terminator; returns buffer. */
LS_API const char *ls_digest_text(ls_digest digest, char buffer[LS_DIGEST_TEXT_SIZE]);

/* Writes type, shape and the first and last elements of each dimension as text into buffer (cut to
 * size, always terminated); returns the length of the whole text, as snprintf does, or -1 on
 * error. */
LS_API int ls_tensor_format(const ls_tensor *tensor, char *buffer, size_t size);

/* safetensors files. names[i] is the name of tensors[i]; metadata is a list of key, value, key,
 * value, ... ended by NULL, or NULL for none. The file is written atomically (temporary
 * file, then rename). */
LS_API ls_status ls_tensors_save(ls_context *ctx, const char *path, int64_t n,
                                 const char *const *names, const ls_tensor *const *tensors,
                                 const char *const *metadata);

/* A safetensors file, or a PyTorch file (.pt, .pth): a state dict that torch.save wrote, or a value
 * that has one, which is found as ls_net_load_weights does without a key. Opening checks a
 * safetensors file as a whole: header, types, contiguous offsets, file size. For a PyTorch file it
 * checks the zip archive and the pickle, of which nothing is executed: LS_ERR_FORMAT names the byte
 * and the opcode that is malformed, LS_ERR_UNSUPPORTED the class of an object in place of a state
 * dict, and LS_ERR_INVALID several keys with tensors. Tensors that are not contiguous are read in
 * the order of their indices. Tensors may share storages (tied weights), but if all of them
 * together have more than 16 times the bytes of the file, that is LS_ERR_FORMAT, too. PyTorch files
 * have no metadata. */
typedef struct ls_tensor_file ls_tensor_file;
LS_API ls_tensor_file *ls_tensor_file_open(ls_context *ctx, const char *path);
LS_API void ls_tensor_file_close(ls_tensor_file **file);
LS_API int64_t ls_tensor_file_tensor_count(const ls_tensor_file *file);
/* In the order of names; borrowed from the file. */
LS_API const char *ls_tensor_file_name(const ls_tensor_file *file, int64_t i);
/* True if the file has a tensor of that name and of a known type. If spec is not NULL, it receives
 * type and shape. */
LS_API bool ls_tensor_file_find(const ls_tensor_file *file, const char *name, ls_spec *spec);
LS_API const char *ls_tensor_file_metadata(const ls_tensor_file *file,
                                           const char *key); /* NULL when absent */
/* Reads one tensor: _load returns a new one, _read reads into `out`, which must have the same type
 * and shape. LS_ERR_UNSUPPORTED for other types (F64, I16, ...) and for more than LS_MAX_DIMS
 * dimensions, and for expanded tensors of PyTorch files. */
LS_API ls_tensor *ls_tensor_file_load(ls_tensor_file *file, const char *name);
LS_API ls_status ls_tensor_file_read(ls_tensor_file *file, const char *name, ls_tensor *out);

LS_END_DECLARATIONS

#endif
