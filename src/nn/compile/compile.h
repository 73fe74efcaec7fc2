/* compile.h: from a graph to a program, in passes of a file each:
 *
 *   compile.c           infers the shapes of all nodes for these inputs, then runs the passes in
 *                       this order; after lowering, it selects the kernel of each
 *                       instruction (select/)
 *   fuse_layers.c       nodes -> fused ops: batch norm + add + ReLU and the like
 *   lower.c             fused ops -> instructions over values: the forward pass, and the results
 *                       of a shard other than its gradients
 *   lower_backward.c    the same for the backward pass, in an order that frees memory early
 *   fuse_batch_norm.c   moves batch norms into adjacent convolutions if the backend has kernels for
 *                       that and they are faster (select/select_fusion.c)
 *   recompute.c         the values that the backward pass recomputes
 *   overlap.c           the weight gradients that run in a second stream
 *   plan_memory.c       shared memory of values; offsets in the arena
 *
 * A pass sees the program, the graph and the environment. Errors stay in the context. */
#ifndef LS_NN_COMPILE_COMPILE_H
#define LS_NN_COMPILE_COMPILE_H

#include "nn/plan/builder.h"

typedef struct ls__compile_request {
    ls_mode mode;
    bool gradients; /* with a backward pass */
    bool timed;     /* kernels and fusions may be selected by time, if the policy says so */
    bool overlaps;  /* weight gradients run in a second stream, despite any selection */
    const ls_spec *input_specs; /* one per graph input; copied */
} ls__compile_request;

/* The environment must outlive the program. */
ls_status ls__compile(const ls__environment *env, ls_graph *graph,
                      const ls__compile_request *request, ls__program **out);

/* Fused ops of all nodes that the graph's outputs, losses and metrics need, in order. NULL if
 * memory is short. */
ls__fused_op *ls__fuse_layers(const ls_graph *graph, ls__bump *bump, int *n_fused_ops);
ls_status ls__lower(ls__program *program);
/* Marks the nodes whose gradient is needed: inputs with gradient, trained parameters and all nodes
 * that depend on them. */
void ls__find_required_gradients(ls__builder *b);
/* Lowers the backward pass, after the forward pass. */
void ls__lower_backward(ls__builder *b);
ls_status ls__fuse_batch_norms(ls__builder *b);
/* The norm_apply that computes a batch norm's output from its statistics. */
ls__instruction ls__norm_apply(const ls__instruction *norm);
/* Marks the instructions of the second stream, if the program overlaps. Must precede memory
 * planning. */
void ls__mark_overlap(ls__program *program);
/* Plans memory, with the environment's amount of recomputation. */
ls_status ls__plan_memory_with_recomputation(ls__program *program);
ls_status ls__plan_memory(ls__program *program);

/* ---- For describing a program ---- */

/* Lines of ls_net_describe about recomputation, without the last line end; returns as snprintf. */
int ls__recompute_text(const ls__program *program, char *out, size_t size);

/* ---- The second stream as a selection ---- */

/* True if some instructions can run there. */
bool ls__can_overlap(const ls__program *program);
/* Returns the selection for this program; NULL if there is none. */
const ls__selection *ls__find_overlap_selection(const ls__program *program);
/* Puts a selection into the algorithm cache. */
ls_status ls__select_overlap(const ls__program *program, bool taken, const char *reason);
/* Adds the selection to the net's list. */
ls_status ls__note_overlap(const ls__program *program);

#endif
