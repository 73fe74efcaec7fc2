/* compile.h: from a graph to a program, in passes of a file each:
 *
 *   compile.c           shapes of all nodes for these inputs; then the passes in this order
 *   fuse_layers.c       nodes -> fused ops: batch norm + add + ReLU and the like
 *   lower.c             fused ops -> instructions over values: the forward part
 *   lower_backward.c    the same for the backward part, in an order that frees memory early
 *   fuse_batch_norm.c   batch norms move into the convolutions around them, where the backend can
 *                       and where that is faster (select/select_fusion.c)
 *   choose_layout.c     which block each activation has; reorders where an instruction has another
 *   select_kernels.c    which kernel runs each instruction (select/)
 *   overlap.c           which gradients of weights run in a second stream
 *   recompute.c         which values backward recomputes, so that they need not be kept
 *   plan_memory.c       which values share memory; offsets in the arena
 *
 * A pass sees the program, the graph and the environment. Each keeps its error in the context. */
#ifndef LS_NN_COMPILE_COMPILE_H
#define LS_NN_COMPILE_COMPILE_H

#include "nn/plan/builder.h"

typedef struct ls__compile_request {
    ls_mode mode;
    bool gradients; /* with a backward part */
    bool timed;     /* kernels and fusions may be selected by time, if the policy says so */
    bool overlaps;  /* weight gradients run in a second stream, whatever was selected */
    const ls_spec *input_specs; /* one per graph input; copied */
} ls__compile_request;

/* The environment must outlive the program. */
ls_status ls__compile(const ls__environment *env, ls_graph *graph,
                      const ls__compile_request *request, ls__program **out);

/* Fused ops of all nodes that the graph's outputs, losses and metrics need, in order. NULL without
 * memory. */
ls__fused_op *ls__fuse_layers(const ls_graph *graph, ls__bump *bump, int *n_fused_ops);
ls_status ls__lower(ls__program *program);
/* Whose gradient is needed: a wanted input's, a trained parameter's, and that of all that depends
 * on one. */
void ls__find_wants(ls__builder *b);
/* Lowers all that the losses' gradients need, after the forward part. */
void ls__lower_backward(ls__builder *b);
ls_status ls__fuse_batch_norms(ls__builder *b);
ls_status ls__choose_layout(ls__program *program);
ls_status ls__select_kernels(ls__program *program);
/* Which instructions run beside others, if the program overlaps; before memory is planned. */
void ls__mark_overlap(ls__program *program);
/* Plans memory, with as much recomputation as the environment says. */
ls_status ls__plan_memory_with_recomputation(ls__program *program);
ls_status ls__plan_memory(ls__program *program);

/* ---- For describing a program ---- */

/* What is recomputed and why, as lines of ls_net_describe without the last end; as snprintf. */
int ls__recompute_text(const ls__program *program, char *out, size_t size);

/* ---- The second stream as a selection ---- */

/* Whether some instructions could run there; what was selected, NULL when nothing was. */
bool ls__can_overlap(const ls__program *program);
const ls__selection *ls__find_overlap_selection(const ls__program *program);
/* Puts a selection into the algorithm cache; adds what was selected to the net's list. */
ls_status ls__select_overlap(const ls__program *program, bool taken, const char *reason);
ls_status ls__note_overlap(const ls__program *program);

#endif
