/* primitive.h: the only calls of oneDNN, 2.x or 3.x.
 *
 * Primitives are created and run by one thread (ls__dnn_one_thread), with an explicit algorithm
 * and scratch memory from us, so their bits are a function of their shapes alone. */
#ifndef LS_CPU_ONEDNN_PRIMITIVE_H
#define LS_CPU_ONEDNN_PRIMITIVE_H

#include <lockstep/context.h>

typedef struct ls__dnn ls__dnn;                     /* engine and streams */
typedef struct ls__dnn_primitive ls__dnn_primitive; /* a compiled kernel */
typedef struct dnnl_memory ls__dnn_memory;          /* a pointer with a format */

/* One stream for each of n_threads. */
ls_status ls__dnn_open(ls_context *ctx, int n_threads, ls__dnn **out);
void ls__dnn_close(ls__dnn **dnn);
/* Fails if the library is not of the header's version, or if its threads are not OpenMP's. */
ls_status ls__dnn_check(ls_context *ctx);
void ls__dnn_version(char *text, size_t size); /* "2.6.3" */
/* The instruction set of its kernels, which ONEDNN_MAX_CPU_ISA may limit: "AVX-512 AMX", or a
 * number if it has no name here. */
void ls__dnn_isa(char *text, size_t size);
/* Whether it includes products of bf16: AVX512_BF16, or AMX as well. */
bool ls__dnn_has_bf16(void);

/* Makes OpenMP, on which oneDNN runs, use one thread when called from this thread. Returns the
 * number that it used before, which ls__dnn_restore_threads sets again. */
int ls__dnn_one_thread(void);
void ls__dnn_restore_threads(int n_threads);

typedef enum ls__dnn_direction {
    LS__DNN_FORWARD, /* y from x, w, b */
    LS__DNN_DATA,    /* dx from dy, w */
    LS__DNN_WEIGHTS, /* dw, db from x, dy */
    LS__DNN_N_DIRECTIONS
} ls__dnn_direction;

/* The convolution of one task in bf16, with dw and db in f32; x and y are N,H,W,C. */
typedef struct ls__dnn_conv {
    ls__dnn_direction direction;
    bool bias;
    int64_t n, groups;
    int64_t x_channels, x_size[2], y_channels, y_size[2];  /* height, width */
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

/* Sets the name of the implementation that oneDNN prefers ("jit:avx512_core_amx_bf16"); an empty
 * one if it has only its slow reference. */
enum { LS__DNN_NAME_SIZE = 38 };
ls_status ls__dnn_conv_name(ls__dnn *dnn, const ls__dnn_conv *conv, char name[LS__DNN_NAME_SIZE]);
/* Makes the primitive of the implementation that oneDNN prefers. LS_ERR_NOT_FOUND if it has
 * another name. */
ls_status ls__dnn_conv_open(ls__dnn *dnn, const ls__dnn_conv *conv, const char *name,
                            ls__dnn_primitive **out);
/* A reorder from dense weights, [out][kh][kw][in/groups] whose rows may belong to a tensor with
 * more input channels (row_channels), to the format of a convolution; for backward weights, back.
 */
ls_status ls__dnn_reorder_open(const ls__dnn_primitive *conv, int64_t row_channels,
                               ls__dnn_primitive **out);
void ls__dnn_primitive_close(ls__dnn_primitive **primitive);

/* Bytes of an operand in the primitive's format; 0 if it has no such operand. */
size_t ls__dnn_bytes(const ls__dnn_primitive *primitive, ls__dnn_argument argument);
/* Whether w has the same format in both. */
bool ls__dnn_same_weights(const ls__dnn_primitive *a, const ls__dnn_primitive *b);

/* A memory object for an operand; NULL if the primitive has no such operand. Setting its pointer
 * writes zeros to the format's padding, so one thread sets a memory that several use, before they
 * do. */
ls_status ls__dnn_memory_open(const ls__dnn_primitive *primitive, ls__dnn_argument argument,
                              ls__dnn_memory **out);
void ls__dnn_memory_set(ls__dnn_memory *memory, const void *pointer);
void ls__dnn_memory_close(ls__dnn_memory *memory);

/* Runs in the calling thread, which is number `thread`; absent operands are NULL. False if oneDNN
 * failed. */
bool ls__dnn_run(const ls__dnn_primitive *primitive, int thread,
                 ls__dnn_memory *const memories[LS__DNN_N_ARGUMENTS]);

#endif
