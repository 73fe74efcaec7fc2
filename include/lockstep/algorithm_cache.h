/* algorithm_cache.h: the kernel selected for each op, kept in a file.
 *
 * A context has an algorithm cache: a table of kernel selections. ls_net_build reads it, and with
 * benchmark on adds a kernel for each op: the fastest, or, if no time is left for timing, the one
 * with the lowest estimated cost. Other processes that load the table from a file time nothing, and
 * their results are bit-identical:
 *
 *   ls_context_open with .benchmark = LS_BENCHMARK_ON (on a CPU with native arithmetic)
 *   ls_algorithm_cache_load   if the file exists: before nets are built
 *   ls_net_build              ops that are not in the table are timed
 *   ls_algorithm_cache_save   if ls_algorithm_cache_timed_count is not 0
 *
 * The file is JSON and may be edited: a net uses the kernel that the file names, with benchmark on
 * or off. The log (LS_LOG_INFO) gives the text of each op and its kernel; ls_net_describe gives the
 * kernels.
 *
 * Two kinds of keys are not ops. A key that ends with "fusion" selects "fused" or "unfused" for a
 * batch norm and its convolutions. A key that begins with "weight_gradients" gives the activations'
 * dtype, the inputs of a step and the number of parameters. Its value is "main" or "side": "side"
 * makes CUDA devices compute weight gradients in a second stream, which does not change results
 * (docs/cuda.md). An example of such a key, then of a whole file:
 *
 *   "weight_gradients BF16 U8:256x224x224x3 I32:256, 25557032 parameters": "side"
 *
 *   {
 *     "format": "lockstep algorithm cache 1",
 *     "lockstep": "0.1.0",
 *     "device": "cpu",
 *     "libraries": "oneDNN 2.6.3, own kernels 5.2",
 *     "processor": "oneDNN AVX-512 AMX, ...",
 *     "kernels": {
 *       "conv2d x=8x32x32x3 w=16x3x3x3 b=- y=8x32x32x16 padding=1x1": "implicit gemm"
 *     }
 *   }
 *
 * A checkpoint holds the table too. A resumed run loads it from there with
 * ls_checkpoint_load_algorithms (checkpoint.h) and needs no file. */
#ifndef LOCKSTEP_ALGORITHM_CACHE_H
#define LOCKSTEP_ALGORITHM_CACHE_H

#include <lockstep/context.h>

LS_BEGIN_DECLARATIONS

/* Loads a file's selections into the context's algorithm cache. They replace existing selections
 * for the same ops. Nets that were built before keep their kernels. The table holds 4096 selections
 * and drops the least recently used. Errors, with nothing changed: LS_ERR_NOT_FOUND and LS_ERR_IO;
 * LS_ERR_FORMAT when the file is not an algorithm cache; LS_ERR_MISMATCH if the file's "lockstep",
 * "device", "libraries" or "processor" differs from that of the context; the message gives both
 * values.
 *
 * The kernels are checked when a net first selects a kernel for the op. If a kernel is unknown, the
 * call that selects it (such as ls_net_build) fails with LS_ERR_NOT_FOUND, and the message lists
 * the op's kernels; LS_ERR_NONDETERMINISTIC for a kernel that `deterministic` forbids. Selections
 * for ops that no net has are ignored. */
LS_API ls_status ls_algorithm_cache_load(ls_context *ctx, const char *path);

/* Writes all selections that were loaded or added with benchmark on, sorted; the file is written
 * atomically. The selections for other ops in an existing file are kept, so processes may share one
 * file: a lock on the file's folder makes one save wait for another. If there are more than 4096
 * ops, selections that only the file has are dropped. Errors, with nothing changed: LS_ERR_IO and
 * LS_ERR_NOT_FOUND; LS_ERR_FORMAT and LS_ERR_MISMATCH when ls_algorithm_cache_load rejects the
 * existing file. An empty file is treated as missing. */
LS_API ls_status ls_algorithm_cache_save(ls_context *ctx, const char *path);

/* The number of ops and fusions that this context has timed. */
LS_API int64_t ls_algorithm_cache_timed_count(const ls_context *ctx);

LS_END_DECLARATIONS

#endif
