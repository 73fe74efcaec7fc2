/* algorithm_cache.h: which kernel runs which op, kept in a file.
 *
 * A context has a table of kernel choices. Nets ask it while they are built; with benchmark on,
 * what they time goes into it. A plan file carries the table to other processes, which then time
 * nothing and have the same bits:
 *
 *   ls_context_open with .benchmark = LS_BENCHMARK_ON
 *   ls_algorithm_cache_load     if there is a file: before nets are built
 *   ls_net_build     ops that are not in the table are timed
 *   ls_algorithm_cache_save     if ls_algorithm_cache_timed_count says that there is news
 *
 * The file is JSON and may be edited: naming another of an op's kernels forces that one, whether
 * benchmark is on or off. Ops and the names of their kernels are in the log (LS_LOG_INFO) and, the
 * names, in ls_net_describe. One entry is not a kernel selection: "weight_gradients", followed by
 * the activations' type, the inputs of a step and the number of parameters, is "main" or "side":
 * whether CUDA devices compute weight gradients in a second stream (docs/cuda.md). Bits do not
 * depend on it:
 *
 *   "weight_gradients BF16 U8:256x224x224x3 I32:256, 25557032 parameters": "side"
 *
 *   {
 *     "format": "lockstep plan 1",
 *     "lockstep": "0.1.0",
 *     "device": "cpu",
 *     "libraries": "oneDNN 2.6.3",
 *     "processor": "AVX2, ...",
 *     "choices": {
 *       "conv2d x=8x32x32x3 w=16x3x3x3 b=- y=8x32x32x16 padding=1x1": "onednn jit:avx2"
 *     }
 *   }
 *
 * A checkpoint has all that the table had when its run's net was built. A run that goes on takes it
 * from there, by ls_checkpoint_load_algorithms (checkpoint.h), and needs no plan file. */
#ifndef LOCKSTEP_ALGORITHM_CACHE_H
#define LOCKSTEP_ALGORITHM_CACHE_H

#include <lockstep/context.h>

LS_BEGIN_DECLARATIONS

/* Puts a file's choices into the context's table, where they replace others for the same ops. Nets
 * that were built before keep what they have. The table holds 4096; beyond, the least recently used
 * go. Errors, with nothing changed: LS_ERR_NOT_FOUND and LS_ERR_IO; LS_ERR_FORMAT when the file is
 * no plan; LS_ERR_MISMATCH when "lockstep", "device", "libraries" or "processor" is not what it is
 * here, with both values.
 *
 * Whether the kernels exist is found out when a net first plans the op, and is then an error of
 * that call: LS_ERR_NOT_FOUND names the kernels that there are, LS_ERR_NONDETERMINISTIC is for one
 * that `deterministic` forbids. Choices for ops that no net has are without effect. */
LS_API ls_status ls_algorithm_cache_load(ls_context *ctx, const char *path);

/* Writes all that was loaded or timed, sorted, whole or not at all. What the file has for other ops
 * stays, so processes may share one: each waits for the other's save, by a lock of the file's
 * folder. Beyond 4096 ops those go of which this context knows nothing. Errors, with nothing
 * changed: LS_ERR_IO and LS_ERR_NOT_FOUND; LS_ERR_FORMAT and LS_ERR_MISMATCH when a file is there
 * that ls_algorithm_cache_load would refuse; an empty one counts as none. */
LS_API ls_status ls_algorithm_cache_save(ls_context *ctx, const char *path);

/* How many ops and fusions were timed in this context. */
LS_API int64_t ls_algorithm_cache_timed_count(const ls_context *ctx);

LS_END_DECLARATIONS

#endif
