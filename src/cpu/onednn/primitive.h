/* primitive.h: the only door to oneDNN, 2.x or 3.x.
 *
 * Primitives are created and run by one thread (ls__dnn_one_thread), with an explicit algorithm
 * and scratch memory from us, so their bits are a function of their shapes alone. Between
 * ls__dnn_use_threads and ls__dnn_one_thread oneDNN cuts the work by the number of threads instead.
 */
#ifndef LS_CPU_ONEDNN_PRIMITIVE_H
#define LS_CPU_ONEDNN_PRIMITIVE_H

#include <lockstep/context.h>

typedef struct ls__dnn ls__dnn;                     /* engine and streams */
typedef struct ls__dnn_primitive ls__dnn_primitive; /* a compiled kernel */
typedef struct dnnl_memory ls__dnn_memory;          /* a pointer with a format */

/* One stream for each of n_threads. */
ls_status ls__dnn_open(ls_context *ctx, int n_threads, ls__dnn **out);
void ls__dnn_close(ls__dnn **dnn);
/* Refuses a library that is not the header's version, or whose threads are not OpenMP's. */
ls_status ls__dnn_check(ls_context *ctx);
void ls__dnn_version(char *text, size_t size); /* "2.6.3" */
/* The instruction set that it makes kernels for, which ONEDNN_MAX_CPU_ISA may hold down: "AVX2", or
 * a number where it has no name here. */
void ls__dnn_isa(char *text, size_t size);
/* Whether products of bf16 are among those instructions: AVX512_BF16, or AMX as well. */
bool ls__dnn_has_bf16(void);

/* Tells OpenMP, on which oneDNN runs, to use one thread when called from this one; returns how many
 * it would have used. For the caller's thread, ls__dnn_restore_threads gives them back. */
int ls__dnn_one_thread(void);
void ls__dnn_restore_threads(int n_threads);
/* Tells OpenMP to use n threads when called from this one. False, and nothing changed, where it
 * would not: inside of a parallel region, and where the user lets it take fewer. A primitive made
 * for n threads waits forever for those that do not come. */
bool ls__dnn_use_threads(int n_threads);

typedef enum ls__dnn_direction {
    LS__DNN_FORWARD, /* y from x, w, b */
    LS__DNN_DATA,    /* dx from dy, w */
    LS__DNN_WEIGHTS, /* dw, db from x, dy */
    LS__DNN_N_DIRECTIONS
} ls__dnn_direction;

/* Memory orders of dense activations. */
typedef enum ls__dnn_layout {
    LS__DNN_NHWC,
    LS__DNN_NCHW,
    LS__DNN_NCHW8,  /* [N][C/8][H][W][8] */
    LS__DNN_NCHW16, /* [N][C/16][H][W][16] */
} ls__dnn_layout;

/* A convolution as one task sees it. */
typedef struct ls__dnn_conv {
    ls__dnn_direction direction;
    bool winograd, bias;
    bool bf16; /* x, w, y, b; dw and db are f32 all the same. Else all are f32 */
    int64_t n, groups;
    int64_t x_channels, x_size[2], y_channels, y_size[2]; /* height, width */
    ls__dnn_layout x_layout, y_layout;
    int64_t kernel[2], stride[2], padding[2], dilation[2]; /* dilation 1: none */
} ls__dnn_conv;

/* The operands of a primitive; in backward directions X is dx, and so on. A reorder has X (from)
 * and Y (to). */
typedef enum ls__dnn_argument {
    LS__DNN_X,
    LS__DNN_W,
    LS__DNN_Y,
    LS__DNN_B,
    LS__DNN_SCRATCH,
    LS__DNN_N_ARGUMENTS
} ls__dnn_argument;

size_t ls__dnn_element_bytes(const ls__dnn_conv *conv, ls__dnn_argument argument);

/* The names of the compiled implementations that can run it ("jit:avx2"); oneDNN's slow reference
 * is left out. 0 with the error in the context when there was no memory for a complete list: a
 * shorter one would change which kernel is taken. */
enum { LS__DNN_NAME_SIZE = 38 };
int ls__dnn_conv_list(ls__dnn *dnn, const ls__dnn_conv *conv, char (*names)[LS__DNN_NAME_SIZE],
                      int max);
/* Makes the primitive of that name. */
ls_status ls__dnn_conv_open(ls__dnn *dnn, const ls__dnn_conv *conv, const char *name,
                            ls__dnn_primitive **out);
/* Between dense weights, [out][kh][kw][in/groups] whose rows may belong to a tensor with more input
 * channels (row_channels), and the format that a convolution wants. */
ls_status ls__dnn_pack_open(ls__dnn *dnn, const ls__dnn_primitive *conv, int64_t row_channels,
                            ls__dnn_primitive **out);
ls_status ls__dnn_unpack_open(ls__dnn *dnn, const ls__dnn_primitive *conv, int64_t row_channels,
                              ls__dnn_primitive **out);
void ls__dnn_primitive_close(ls__dnn_primitive **primitive);

/* Bytes of an operand in the format that the primitive wants; 0 when it has none. */
size_t ls__dnn_bytes(const ls__dnn_primitive *primitive, ls__dnn_argument argument);
/* Whether both want w in the same format. */
bool ls__dnn_same_weights(const ls__dnn_primitive *a, const ls__dnn_primitive *b);

/* A memory object for an operand. Setting its pointer writes zeros where the format pads, so a
 * memory that threads share must be set by one of them, before. NULL stays NULL in close. */
ls_status ls__dnn_memory_open(const ls__dnn_primitive *primitive, ls__dnn_argument argument,
                              ls__dnn_memory **out);
void ls__dnn_memory_set(ls__dnn_memory *memory, const void *pointer);
void ls__dnn_memory_close(ls__dnn_memory *memory);

/* Runs in the calling thread, which is number `thread`; absent operands are NULL. False when oneDNN
 * failed. */
bool ls__dnn_run(ls__dnn *dnn, const ls__dnn_primitive *primitive, int thread,
                 ls__dnn_memory *const memories[LS__DNN_N_ARGUMENTS]);

/* C [m,n] = A [m,k] B [k,n] + beta C, rows of ld floats each; transposed operands are stored the
 * other way round. False when oneDNN failed. */
bool ls__dnn_sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                   const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                   int64_t ldc);

#endif
