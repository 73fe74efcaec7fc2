/* cudnn.h: convolutions through cuDNN 9's graph API.
 *
 * An op is described to cuDNN as a graph of operations. cuDNN's heuristics list engine
 * configurations: an engine and the values of its knobs. Each configuration is a candidate. Its
 * name holds all of it, "cudnn 62 2=4,13=0,27=8", so a name makes the same plan in any process.
 *
 * Activations are N,H,W,C, weights [O,kh,kw,I/groups], operands f32, f16 or bf16, sums
 * f32. Buffers are aligned to LS__CUDNN_ALIGNMENT. */
#ifndef LS_CUDA_CUDNN_CUDNN_H
#define LS_CUDA_CUDNN_CUDNN_H

#include "backend/backend.h"

typedef struct ls__cudnn ls__cudnn;

/* A configuration with a larger workspace is no candidate. The fallback kernels of large f32
 * convolutions copy their operands into another layout and have the largest: 0.96 GiB for a batch
 * of 256 in the stem of resnet50. The ops of a net share workspace memory. */
#define LS__CUDNN_WORKSPACE_LIMIT ((size_t)1 << 30)
/* Candidates of one op. Other providers get the rest of LS__MAX_CANDIDATES. */
enum { LS__CUDNN_ALIGNMENT = 16, LS__CUDNN_MAX_CANDIDATES = 64 };
/* Most kernels for 16-bit operands read pixels in units of 16 bytes. With other numbers of channels
 * they first copy x, padded, into the workspace: 206 MB for a batch of 256 in the stem of resnet50
 * (cuDNN 9.19). */
enum { LS__CUDNN_CHANNEL_MULTIPLE = 8 };

/* device_json NULL: for the CUDA device that is current in this thread. Otherwise for the device
 * that the text describes, in the format of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION. Then no
 * driver is required, and kernels can be listed, made, written and restored, except those that
 * cuDNN compiles. Running one is LS_ERR_UNSUPPORTED. Kernels must be closed before the ls__cudnn.
 */
ls_status ls__cudnn_open(ls_context *ctx, const char *device_json, ls__cudnn **out);
void ls__cudnn_close(ls__cudnn **cudnn);
/* A kernel is launched in the cudaStream_t *stream; *stream is read at each launch. */
ls_status ls__cudnn_set_stream(ls__cudnn *cudnn, void *const *stream);
/* The least number of engine configurations that are missing in lists of candidates, because their
 * names are too long or a list is full. The first such list is logged. */
int64_t ls__cudnn_dropped(const ls__cudnn *cudnn);
/* "cuDNN 9.19.0". Valid until cudnn is closed. */
const char *ls__cudnn_version(const ls__cudnn *cudnn);

/* The indices of x, w and y, or of their gradients, among the operands of a convolution. */
typedef struct ls__cudnn_roles {
    int x, w, y, b; /* b -1: the op has none */
} ls__cudnn_roles;
ls__cudnn_roles ls__cudnn_roles_of(ls__op_kind kind);

static inline bool ls__cudnn_is_present(const ls__op *op, int operand)
{
    return operand >= 0 && operand < op->n_operands && !ls__is_absent(&op->operands[operand]);
}

/* Does the op compute the gradient of a convolution's weights? */
static inline bool ls__cudnn_is_weight_gradient(const ls__op *op)
{
    return ls__op_is_convolution(op->kind) && ls__op_traits_of(op->kind)->weight_gradient;
}

/* The op that cuDNN computes in place of an LS__OP_*CONV2D*. cuDNN has no kernels for the bias's
 * gradient, nor for an f32 dw of 16-bit inputs. So db is absent, and dw has x's type. The caller
 * computes the rest. */
ls__op ls__cudnn_conv_of(const ls__op *op);

/* Candidates for an op in the order of the heuristics, compiled ones last: of LS__OP_CONV2D* with
 * operands of one type, or of an optional op (fusion.c). None rounds inputs or sums to fewer bits
 * than theirs and f32's, except to tf32 if op->tf32 is set. 0 for several types, a present db, or
 * if every workspace exceeds the limit. 0 also after a failure, which is kept in the context. */
int ls__cudnn_candidates(ls__cudnn *cudnn, const ls__op *op, ls__candidate *out, int max);
/* Makes the kernel of that name. LS_ERR_NOT_FOUND: no configuration can have that name.
 * LS_ERR_UNSUPPORTED: cuDNN can't run op so, or the rules above exclude it. */
ls_status ls__cudnn_kernel_open(ls__cudnn *cudnn, const ls__op *op, const char *name,
                                ls__kernel **out);

/* A kernel of kernel_open as JSON text, about 2 KiB, more if cuDNN compiled it. The caller frees it
 * by ls__free. */
ls_status ls__cudnn_plan_text(const ls__kernel *kernel, char **out);
/* Makes a kernel from its text, without compiling. LS_ERR_MISMATCH: the text is of another op.
 * LS_ERR_UNSUPPORTED: cuDNN refuses it, for example on another device or version. */
ls_status ls__cudnn_kernel_restore(ls__cudnn *cudnn, const ls__op *op, const char *text,
                                   ls__kernel **out);

#endif
