/* cudnn.h: convolutions through cuDNN 9's graph API.
 *
 * An op is described to cuDNN as a graph of its operations. cuDNN's heuristics answer with engine
 * configurations, an engine and the settings of its knobs; each of them is a candidate and its name
 * says all of it, "cudnn 62 2=4,13=0,27=8": a name makes the same plan again, in any process.
 *
 * Activations are N,H,W,C (block C), weights [O,kh,kw,I/groups], operands f32, f16 or bf16, sums
 * f32. Buffers are aligned to LS__CUDNN_ALIGNMENT. */
#ifndef LS_CUDA_CUDNN_CUDNN_H
#define LS_CUDA_CUDNN_CUDNN_H

#include "backend/backend.h"

typedef struct ls__cudnn ls__cudnn;

/* A configuration that wants more working memory is no candidate. The fallback kernels of large f32
 * convolutions copy their operands into another layout and take most: 0.96 GiB for a batch of 256
 * in the stem of resnet50. A net's ops share what they take, as its planner sees fit. */
#define LS__CUDNN_WORKSPACE_LIMIT ((size_t)1 << 30)
/* Of one op there are at most so many candidates, which leaves places in a list of
 * LS__MAX_CANDIDATES to others. */
enum { LS__CUDNN_ALIGNMENT = 16, LS__CUDNN_MAX_CANDIDATES = 64 };
/* Most kernels for 16-bit operands read pixels in units of 16 bytes. With other numbers of channels
 * they first copy x, padded, into working memory: 206 MB for a batch of 256 in the stem of resnet50
 * (cuDNN 9.19). */
enum { LS__CUDNN_CHANNEL_MULTIPLE = 8 };

/* device_json NULL: for the CUDA device that is current in this thread. Otherwise for the device
 * that the text describes, as cuDNN writes them (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION):
 * without a driver, kernels can be listed, made, written and restored, all but those that cuDNN
 * would compile; running one is LS_ERR_UNSUPPORTED. Kernels must be closed before what they come
 * from. */
ls_status ls__cudnn_open(ls_context *ctx, const char *device_json, ls__cudnn **out);
void ls__cudnn_close(ls__cudnn **cudnn);
/* Kernels run in the cudaStream_t that *stream is when they are run. */
ls_status ls__cudnn_set_stream(ls__cudnn *cudnn, void *const *stream);
/* At least so many engine configurations are left out of lists of candidates: their names are too
 * long, or the list was full. The first list that left one out is logged. */
int64_t ls__cudnn_dropped(const ls__cudnn *cudnn);
/* "cuDNN 9.19.0". Valid as long as cudnn. */
const char *ls__cudnn_version(const ls__cudnn *cudnn);

/* What cuDNN is to be asked for in an op's place, LS__OP_*CONV2D*: it has no kernels for the bias's
 * gradient, nor any that make a dw of f32 from 16-bit factors, so db is left out, and dw is of x's
 * type. The caller does the rest. */
ls__op ls__cudnn_conv_of(const ls__op *op);

/* LS__OP_CONV2D*, with operands of one type. The configurations in the order of the heuristics,
 * those that cuDNN would compile after those that it has; never one that sums or converts to fewer
 * bits than f32's, or that uses tf32 unless op->tf32 allows it. 0 when there is none: another
 * layout, several types, db wanted, or more working memory than the limit. 0 as well after a
 * failure, which is kept in the context. */
int ls__cudnn_conv_candidates(ls__cudnn *cudnn, const ls__op *op, ls__candidate *out, int max);
/* Makes the kernel of that name. LS_ERR_NOT_FOUND when that is no name of a configuration;
 * LS_ERR_UNSUPPORTED when cuDNN can't run op so, or when what op demands (see above) rules it out.
 */
ls_status ls__cudnn_conv_open(ls__cudnn *cudnn, const ls__op *op, const char *name,
                              ls__kernel **out);

/* A kernel that was made here, as JSON text, about 2 KiB and more when cuDNN compiled it; the
 * caller frees it by ls__free. */
ls_status ls__cudnn_plan_text(const ls__kernel *kernel, char **out);
/* Makes it from its text again, without compiling. LS_ERR_MISMATCH when the text is not of this op;
 * LS_ERR_UNSUPPORTED when cuDNN refuses it, such as for another device or version. */
ls_status ls__cudnn_conv_restore(ls__cudnn *cudnn, const ls__op *op, const char *text,
                                 ls__kernel **out);

#endif
