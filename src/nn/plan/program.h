/* program.h: a program is a flat list of kernel calls over planned memory, made for one mode and
 * one set of input shapes. Making one takes these steps, each in a file of its own:
 *
 *   fuse.c    nodes -> stages: batch norm + add + ReLU and the like become one stage
 *   infer     shapes of all nodes for these inputs (the node kinds' `infer`)
 *   lower.c   stages -> instructions over values: the forward part
 *   backward.c  the same for the backward part, in an order that frees memory early
 *   fuse_norm.c  batch norms go into the convolutions around them, where the backend can and where
 *             that is faster (choose_fusion.c)
 *   layout.c  which block each activation has; reorders where an instruction wants another
 *   tune.c    which kernels are fastest, when asked to time them (timing.c)
 *   choose.c  which kernel runs each instruction, under the context's policy
 *   recompute.c  which values backward computes again, so that they need not be kept
 *   overlap.c which gradients of weights are computed beside what follows them
 *   memory.c  which values share memory; offsets in the arena
 *   program.c pointers, running
 */
#ifndef LS_NN_PLAN_PROGRAM_H
#define LS_NN_PLAN_PROGRAM_H

#include "nn/graph/graph.h"
#include "backend/algorithm_cache.h"

/* ---- Stages ---- */

/* One or more nodes that run as one op. `head` gives the op, `tail` the output; addend is the other
 * operand of an absorbed add. */
typedef struct ls__fused_op {
    const ls_node *head, *tail, *addend;
    bool relu;
} ls__fused_op;

/* Stages of all nodes that the graph's outputs, losses and metrics need, in order. NULL without
 * memory. */
ls__fused_op *ls__fuse(const ls_graph *graph, ls__bump *bump, int *n_fused_ops);

/* ---- Values and instructions ---- */

typedef enum ls__place {
    LS__PLACE_ARENA,
    LS__PLACE_VALUES,          /* the net's block of parameters and buffers */
    LS__PLACE_GRADIENTS,       /* the net's block of gradients */
    LS__PLACE_COMPUTE_WEIGHTS, /* the net's 16-bit copy of the parameters */
    LS__PLACE_LOSS_SCALE,      /* the net's loss scale */
    LS__PLACE_CONSTANTS        /* the program's own constants */
} ls__place;

typedef struct ls__value {
    ls_dtype dtype;
    ls_shape shape;
    ls__place place;
    int group; /* values of one layout: a union-find forest, roots name themselves; -1 where rank is
                  not 4 */
    bool dense;    /* in a root: the group must be N,H,W,C */
    bool pinned;   /* read after the program has run */
    int64_t block; /* decided by layout.c; 0 where rank is not 4 */
    size_t bytes;
    size_t offset; /* bytes from the start of its place */
    int first,
        last; /* instructions between which the memory is needed; first -1 = before the program */
    int storage; /* value whose memory this one shares; itself otherwise */
} ls__value;

/* Why an instruction's kernel was taken. */
typedef struct ls__why {
    char reason[LS__SELECTION_REASON_SIZE]; /* "only", or as in ls__selection */
    bool listed; /* there were others: the choice belongs to the net's list */
    bool derived;
} ls__why;

typedef struct ls__instruction {
    ls__op op;             /* op.operands are filled from the values after layout */
    const ls_node *node;   /* what it was made for */
    const ls_node *custom; /* a user's op: runs callbacks instead of a kernel */
    bool backward;
    bool again;                     /* computes a value of the forward part once more */
    int n_inputs;                   /* operands before the outputs */
    int operands[LS__MAX_OPERANDS]; /* values, -1 absent */
    ls__kernel *kernel;
    ls__why why;
    bool skipped;  /* a reorder that layout or memory made unnecessary */
    bool side;     /* runs in LS__STREAM_SIDE (overlap.c) */
    bool joins;    /* COMPUTE waits for SIDE before it */
    int joined;    /* of a side one: the first after it that joins, or n_instructions */
    int workspace; /* value, -1 none */
    void *buffers[LS__MAX_OPERANDS];
    void *workspace_memory;
} ls__instruction;

/* Whether a fusion that the backend offers was taken: of all that has this op in it. */
typedef struct ls__fusion {
    ls__op op; /* as at block C */
    bool taken;
} ls__fusion;
/* What it replaces, and by what: instructions that may be unfilled. fused[0] is the convolution
 * that stands for it among the choices. */
enum { LS__MAX_FUSION_OPS = 5 };
typedef struct ls__fusion_sides {
    int n_apart, n_fused;
    ls__instruction apart[LS__MAX_FUSION_OPS], fused[LS__MAX_FUSION_OPS];
} ls__fusion_sides;
/* The two "kernels" of such a choice. */
#define LS__FUSED   "fused"
#define LS__UNFUSED "unfused"
/* Its text among the choices: the op's, and a word. */
enum { LS__FUSION_TEXT_SIZE = LS__OP_TEXT_SIZE + 8 };
void ls__fusion_text(const ls__op *op, char *out);

/* A part of a step from one position to another (net_walk.c), see record.c. */
typedef struct ls__part {
    uint64_t optimizer; /* its serial number; 0 = none */
    int begin, end;
    bool was_run, refused;
    ls__captured *recording; /* NULL: none yet */
    int64_t last_used;
} ls__part;

/* Which values backward recomputes, in the order of what that costs for a byte. */
typedef enum ls__recomputed {
    LS__RECOMPUTED_NOTHING,
    LS__RECOMPUTED_PASSES, /* results of ops that do little more than pass over memory */
    LS__RECOMPUTED_CONVS   /* and of convolutions of few products */
} ls__recomputed;

enum { LS__MAX_PARTS = 4 }; /* a whole step, forward, backward; steps of another optimizer */

typedef struct ls__program {
    ls_context *ctx;
    ls_net *net;
    ls_graph *graph;
    ls__bump bump;
    ls_mode mode;
    bool gradients;        /* has a backward part */
    bool timed;            /* kernels and fusions may be chosen by time */
    double tuning_left_ms; /* what timing may still take, once has_tuning_budget */
    bool has_tuning_budget;

    const ls_spec *specs; /* per node, for these inputs */
    int n_fused_ops;
    const ls__fused_op *fused_ops;
    ls__value *values;
    int n_values;
    size_t value_room;
    ls__instruction *instructions;
    int n_instructions;
    size_t instruction_room;
    int n_forward; /* instructions of the forward part */
    ls__fusion *fusions;
    int n_fusions;

    int *node_values;     /* per node: value of its output, -1 */
    int *full_values;     /* per node: the same as f32, where it has a name or is used so; or -1 */
    int *output_values;   /* per graph output: dense value */
    int *input_gradients; /* per graph input: dense value, -1 */
    float *constants;     /* host copy */
    int64_t n_constants;
    size_t constant_room;
    void *constant_memory; /* device */

    bool overlaps;     /* weight gradients are `side` */
    bool joins_at_end; /* COMPUTE waits for SIDE after the last instruction */
    size_t arena_bytes, unshared_bytes;
    ls__recomputed recomputed;
    size_t kept_bytes;         /* the arena with everything kept; 0 unless recomputation is AUTO */
    size_t available_bytes;    /* of memory, when AUTO decided */
    unsigned char *arena;      /* what `buffers` point into */
    uint64_t arena_generation; /* of the net's arena; 0 = not bound */
    double *seconds;           /* per instruction, when profiled */
    ls__part parts[LS__MAX_PARTS];
    bool uncapturable; /* a user's op is in it that has not promised to bear it */

    ls_spec *input_specs; /* key in the net's cache: per graph input */
    int64_t last_used;
} ls__program;

/* Makes the program for these input specs (one per graph input, copied). timed: the policy may
 * choose by timing. */
ls_status ls__program_open(ls_net *net, ls_graph *graph, ls_mode mode, bool gradients,
                           const ls_spec *input_specs, bool timed, ls__program **out);
void ls__program_close(ls__program **program);

/* Forgets what was recorded: it has old addresses. */
void ls__program_drop_recordings(ls__program *program);
/* Points the instructions' buffers into the arena. */
void ls__program_bind(ls__program *program, unsigned char *arena, uint64_t generation);
/* Runs one instruction, which may be skipped; begin and end of the backend are the caller's.
 * beside: in the stream that overlap.c chose; otherwise all run in COMPUTE. */
ls_status ls__program_run(ls__program *program, int instruction, const ls__step *step, bool beside);
/* After a failure: nothing that is queued from now on runs beside what has been queued. */
void ls__program_join(ls__program *program);
/* Where a value lies, after binding. */
void *ls__program_address(const ls__program *program, int value);

/* The steps of making one. Each keeps its error in the context. */
ls_status ls__program_lower(ls__program *program);
ls_status ls__program_layout(ls__program *program);
ls_status ls__program_choose(ls__program *program);
/* Times kernels for ops that the tables do not have, and puts the fastest into the context's. */
ls_status ls__program_tune(ls__program *program);
/* Is this fusion taken? Fills its instructions; keeps errors in the context. */
bool ls__program_choose_fusion(ls__program *program, ls__fusion_sides *sides);
/* Which instructions run beside others, if the program overlaps; before memory is planned. */
void ls__program_overlap(ls__program *program);
/* Whether some could, and what was settled about it; NULL when nothing was. */
bool ls__program_can_overlap(const ls__program *program);
const ls__selection *ls__program_settled_overlap(const ls__program *program);
/* Puts that choice into the context's table; removes it there; puts it into the net's list. */
ls_status ls__program_settle_overlap(ls__program *program, bool taken, const char *reason);
void ls__program_forget_overlap(ls__program *program);
ls_status ls__program_note_overlap(ls_net *net, const ls__program *program);
/* Times the backward part of a bound program that overlaps, in order and not; both negative when
 * that takes more than left_ms, or failed, which is logged. */
ls_status ls__program_time_overlap(ls__program *program, double left_ms, double *main_ms,
                                   double *side_ms);
/* After kernels are chosen: plans memory, and recomputes as much as the net's config says. */
ls_status ls__program_fit_memory(ls__program *program);
ls_status ls__program_plan_memory(ls__program *program);
/* What is recomputed and why, as lines of ls_net_describe without the last end; as snprintf. */
int ls__recompute_text(const ls__program *program, char *out, size_t size);

/* Another value of these fields, with memory of its own; -1 without memory for the record. */
int ls__value_add(ls__program *program, const ls__value *fields);
/* One like v, not pinned. */
int ls__value_copy(ls__program *program, int v);
/* "conv2d 'layer1.0.conv1'" */
enum { LS__INSTRUCTION_NAME_SIZE = LS__MAX_NAME + 64 };
void ls__instruction_name(const ls__instruction *instruction, char out[LS__INSTRUCTION_NAME_SIZE]);
/* Fills instruction->op.operands from its values' types, shapes and blocks. */
void ls__instruction_fill(const ls__program *program, ls__instruction *instruction);
/* The candidate that the policy prefers by cost: its index in out (room for LS__MAX_CANDIDATES), or
 * -1 when none is allowed; *n_found counts those that exist at all, and all allowed ones come first
 * in out. Keeps no error. */
int ls__choose_candidate(ls_context *ctx, const ls__op *op, ls__candidate *out, int *n_found);
/* Makes the best of the candidates that can be made and run: libraries may refuse what they have
 * named. The last one's error is kept. Those that failed leave the list. */
ls_status ls__open_best(ls_net *net, const ls__op *op, const char *who, ls__candidate *candidates,
                        int *n, ls__kernel **kernel, int *chosen);
/* Does a failure to make a kernel only say that this one can't be had? Then its error is dropped.
 */
bool ls__forgive_missing_kernel(ls_context *ctx, ls_status status);

/* Chooses and opens the kernel for an op of the net's, or of its optimizer's; `who` begins the
 * errors. */
ls_status ls__net_open_kernel(ls_net *net, const ls__op *op, const char *who, ls__kernel **kernel,
                              ls__why *why);
/* What was settled for an op, by the net's past or by the context's table as the net knows it; NULL
 * when nothing was. */
const ls__selection *ls__net_find_kernel_selection(const ls_net *net, const ls__op *op);
/* The same by the choice's text. */
const ls__selection *ls__net_find_selection(const ls_net *net, const char *text);
/* The same for the fusion that an op stands for. */
const ls__selection *ls__net_find_fusion_selection(const ls_net *net, const ls__op *op);
/* Puts a choice that is going to be used into the net's list, and into the log when it is new. */
ls_status ls__net_note_selection(ls_net *net, const ls__op *op, const char *who,
                                 const ls__kernel *kernel, const ls__why *why);
/* Puts it there, unless there is one for the same text. */
ls_status ls__net_note(ls_net *net, const char *who, const ls__selection *selection);
/* The same for all of a program. */
ls_status ls__net_note_selections(ls_net *net, const ls__program *program);
/* What a run that goes on has used already. */
ls_status ls__net_inherit_selections(ls_net *net);
/* The end of the build: the net keeps what the context's table says now. */
ls_status ls__net_keep_known(ls_net *net);

/* Ops between values of different channels, and so of different layouts: they may run in other
 * layouts than their operands have, with reorders around them. */
bool ls__changes_channels(ls__op_kind kind);
/* A reorder that moves nothing: both sides lie alike. */
bool ls__reorder_is_identity(const ls__program *program, const ls__instruction *instruction);

#endif
