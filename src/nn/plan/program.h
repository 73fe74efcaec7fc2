/* program.h: a program is the execution plan for one mode and one set of input shapes: a flat list
 * of instructions over planned memory. The passes of compile/ make it. */
#ifndef LS_NN_PLAN_PROGRAM_H
#define LS_NN_PLAN_PROGRAM_H

#include "backend/algorithm_cache.h"
#include "comm/comm.h"
#include "nn/graph/graph.h"
#include <lockstep/net.h>

typedef struct ls__selector ls__selector; /* select/selector.h */

/* The passes' view of the net that they compile for. */
typedef struct ls__environment {
    ls_context *ctx;        /* device and policy */
    ls__selector *selector; /* kernel selections */
    ls_dtype activations;   /* F32, BF16 or F16 */
    bool tf32, scales_loss;
    ls_recompute recompute;
    int64_t expected_steps;     /* 0 = unknown */
    int64_t parameter_elements; /* of the block, gaps included */
    int64_t block_elements;     /* of the block with buffers */
    int64_t n_shards;           /* of a training batch: see plan/shard.h */
    bool sync_batch_norm;       /* batch norms of shards are synchronised */
    int64_t n_own_shards;       /* of this rank */
    size_t arena_bytes;         /* size of the arena that the net's programs share now */
} ls__environment;

/* ---- Fused ops ---- */

/* One or more nodes that run as one op: the op of `head`, with the output of `tail`. addend: the
 * other operand of a fused add. activation: that of `tail`. */
struct ls__fused_op {
    const ls_node *head, *tail, *addend;
    ls__activation activation;
};

/* ---- Values and instructions ---- */

typedef enum ls__memory {
    LS__PLACE_ARENA,
    LS__PLACE_VALUES,          /* the net's block of parameters and buffers */
    LS__PLACE_GRADIENTS,       /* the net's block of gradients, or the shard's */
    LS__PLACE_COMPUTE_WEIGHTS, /* the net's 16-bit copy of the parameters */
    LS__PLACE_LOSS_SCALE,      /* the net's loss scale */
    LS__PLACE_NORM_SUMS,       /* the net's sums of synchronised batch norms: see shard.h */
    LS__PLACE_SHARD_RESULTS,   /* the net's sums over shards: see shard.h */
    LS__PLACE_CONSTANTS,       /* the program's own constants */
    LS__N_PLACES
} ls__memory;

/* The addresses at which places start. A synchronised program runs once per shard of the rank, each
 * in a copy of ARENA and GRADIENTS: copy i is i strides, of bytes, behind the start. */
typedef struct ls__places {
    void *starts[LS__N_PLACES];
    size_t strides[LS__N_PLACES];
} ls__places;

typedef struct ls__value {
    ls_dtype dtype;
    ls_shape shape;
    ls__memory place;
    bool pinned; /* read after the program has run */
    size_t bytes;
    size_t offset;   /* bytes from the start of its place */
    int first, last; /* the instructions between which the memory is used; first -1: before all */
    int storage;     /* the value with the same memory; itself if not shared */
} ls__value;

/* The reason of an instruction's kernel selection. */
typedef struct ls__why {
    char reason[LS__SELECTION_REASON_SIZE]; /* "only", or as in ls__selection */
    bool listed; /* the op has several candidates, so the net's table contains the selection */
    bool derived;
} ls__why;

typedef struct ls__instruction {
    ls__op op;             /* op.operands are filled from the values before kernel selection */
    const ls_node *node;   /* the node that it belongs to */
    const ls_node *custom; /* a user's op: runs callbacks instead of a kernel */
    bool backward;
    bool again;                     /* recomputes a value of the forward pass */
    int n_inputs;                   /* operands before the outputs */
    int operands[LS__MAX_OPERANDS]; /* values, -1 absent */
    ls__kernel *kernel;
    ls__why why;
    bool skipped;  /* a copy whose operands share memory */
    bool side;     /* runs in LS__STREAM_SIDE (overlap.c) */
    bool joins;    /* COMPUTE waits for SIDE before it */
    int joined;    /* if side: the first later instruction that joins, or n_instructions */
    int workspace; /* value, -1 none */
} ls__instruction;

/* The selection of a fusion that contains this op. */
typedef struct ls__fusion {
    ls__op op;
    bool taken;
} ls__fusion;
enum { LS__MAX_FUSION_OPS = 5 }; /* of the fused or the unfused instructions */
/* The two "kernels" that such a selection may name. */
#define LS__FUSED   "fused"
#define LS__UNFUSED "unfused"
/* The text of such a selection: that of the op, and a word. */
enum { LS__FUSION_TEXT_SIZE = LS__OP_TEXT_SIZE + 8 };
void ls__fusion_text(const ls__op *op, char *out);

/* ---- Calls ---- */

/* A call of a step: the copy of an input, an instruction of the program, an operation of the
 * optimizer. A step is one list of them, which the executor runs (exec/executor.h). */
typedef struct ls__call {
    const char *kind, *name; /* "conv2d" "layer1.0.conv1"; "copy" "input"; "sgd" "optimizer" */
    const ls__op *op;        /* its operands; the kind and settings are those of the kernel */
    int n_inputs;            /* operands before the outputs */
    void *buffers[LS__MAX_OPERANDS]; /* device memory; NULL where an operand is absent */
    /* A call is one of four kinds: a kernel; a user's callback; an exchange between ranks, which
     * the host waits for or which is queued; else a copy of copy_bytes from operand 0 to 1. */
    ls__kernel *kernel;
    void *workspace;
    ls_status (*callback)(const ls_custom_op_call *call);
    ls_custom_op_call *callback_call;
    ls__exchange *exchange;
    size_t copy_bytes;
    bool adds_ranks;  /* an exchange, or the addition of what it received: see shard.h */
    bool feeds_input; /* operand 0 is the caller's tensor, which differs in each step */
    bool updates;     /* an operation of the optimizer, over the block of parameters */
    bool backward;
    bool recomputes;  /* a value of the forward pass */
    bool skipped;     /* not run: an unused input, or a copy whose operands share memory */
    bool side;        /* runs in LS__STREAM_SIDE (compile/overlap.c) */
    bool joins;       /* COMPUTE waits for SIDE before it */
    bool joins_after; /* COMPUTE waits for SIDE after it */
    double seconds;   /* since profiling began */
} ls__call;

/* A range of a step's call list that a device has captured as a graph. */
typedef struct ls__capture {
    uint64_t update; /* the optimizer's serial number; 0 = none */
    int begin, end;  /* positions in the list */
    bool was_run, refused;
    ls__captured *graph; /* NULL: not captured yet */
    int64_t number;      /* of a capture that all ranks have made at the same time */
    int64_t last_used;
} ls__capture;

/* The captures are those of a whole step, forward alone, backward alone, and the steps of another
 * optimizer. */
enum { LS__MAX_CAPTURES = 4 };
typedef struct ls__captures {
    ls__capture items[LS__MAX_CAPTURES];
} ls__captures;

/* The end of calls that run for all shards of a batch before any later call does. */
typedef struct ls__sync_point {
    int position;
    ls__call *exchange; /* runs once, at this position; NULL: none */
} ls__sync_point;

/* ---- Programs ---- */

/* The values that the backward pass recomputes, in the order of cost per byte. */
typedef enum ls__recomputed {
    LS__RECOMPUTED_NOTHING,
    LS__RECOMPUTED_PASSES, /* results of memory-bound ops */
    LS__RECOMPUTED_CONVS   /* and of convolutions with few multiplications */
} ls__recomputed;

typedef struct ls__program {
    ls_context *ctx;
    const ls__environment *env;
    ls_graph *graph;
    ls__bump bump;
    ls_mode mode;
    bool gradients;        /* has a backward pass */
    bool is_shard;         /* computes the results of a shard: see plan/shard.h */
    bool is_synced;        /* and its batch norms are synchronised */
    bool timed;            /* kernels and fusions may be selected by timing */
    double tuning_left_ms; /* the remaining time for timing; valid if has_tuning_budget */
    bool has_tuning_budget;

    const ls_spec *specs; /* per node, for these inputs */
    int n_fused_ops;
    const ls__fused_op *fused_ops;
    ls__value *values;
    int n_values;
    size_t value_capacity;
    ls__instruction *instructions;
    int n_instructions;
    size_t instruction_capacity;
    int n_forward; /* instructions of the forward pass */
    ls__fusion *fusions;
    int n_fusions;

    int *node_values;      /* per node: value of its output, -1 */
    int *full_values;      /* per node: the same as f32, if it is named or read as f32; else -1 */
    int *output_values;    /* per graph output */
    int *input_gradients;  /* per graph input, -1 */
    int *output_gradients; /* per graph output, with LS_LOSS_EXTERNAL: f32, written before the
                              backward pass; else -1 */
    int loss_weight;       /* the divisor of the mean loss, if that is a sum of class weights; -1 =
                              the number of samples */
    float *constants;      /* host copy */
    int64_t n_constants;
    size_t constant_capacity;
    void *constant_memory; /* device */
    int momentum;          /* of a shard: constant, per element of the buffers; -1 */
    int *sum_positions;    /* of a shard: per sum of its results, a position after the calls that
                              write them; ascending */
    ls__sync_point *sync_points; /* of a synchronised program; the last one is its end */
    int n_sync_points;

    bool overlaps;     /* weight gradients are `side` */
    bool joins_at_end; /* COMPUTE waits for SIDE after the last instruction */
    size_t arena_bytes, unshared_bytes;
    ls__recomputed recomputed;
    size_t kept_bytes;      /* size of the arena without recomputation; 0 unless that is AUTO */
    size_t available_bytes; /* available memory when AUTO decided */
    ls__places places;
    uint64_t arena_generation; /* of the net's arena; 0 = not bound */
    int64_t n_copies;          /* of the calls: one per shard of the rank if is_synced, else 1 */
    ls__call *calls;           /* [n_copies][n_calls]: copies of the inputs, then instructions: in
                                  the order of both */
    int n_calls;
    ls__captures captures; /* of its calls */
    bool uncapturable;     /* contains a user's op that is not capturable */

    uint64_t serial;      /* in the net's cache, from 1; never reused */
    ls_spec *input_specs; /* key in the net's cache: per graph input */
    int64_t last_used;
} ls__program;

void ls__program_close(ls__program **program);

/* Makes the calls after all passes. */
ls_status ls__program_make_calls(ls__program *program);

/* The bytes that all copies of the arena take. */
size_t ls__program_arena_bytes(const ls__program *program);
/* Sets the places except CONSTANTS, which the program owns. */
void ls__program_bind(ls__program *program, const ls__places *places, uint64_t generation);
/* The address of a value after binding, for the first copy. */
void *ls__program_address(const ls__program *program, int value);

/* The value whose memory a value has: itself unless they share it. */
static inline int ls__storage_of(const ls__program *program, int value)
{
    while (program->values[value].storage != value) value = program->values[value].storage;
    return value;
}

/* Adds a value with these fields and its own memory; -1 if host memory is short. */
int ls__value_add(ls__program *program, const ls__value *fields);
/* Adds a copy of v, not pinned. */
int ls__value_copy(ls__program *program, int v);
/* "conv2d 'layer1.0.conv1'" */
enum { LS__INSTRUCTION_NAME_SIZE = LS__MAX_NAME + 64 };
void ls__instruction_name(const ls__instruction *instruction, char out[LS__INSTRUCTION_NAME_SIZE]);
/* Fills instruction->op.operands from its values' types and shapes. */
void ls__instruction_fill(const ls__program *program, ls__instruction *instruction);
/* True for LS__OP_COPY, which has no kernel. */
static inline bool ls__is_copy(const ls__instruction *instruction)
{
    return !instruction->custom && instruction->op.kind == LS__OP_COPY;
}

/* The capture of this range. A new one replaces the least recently used. */
ls__capture *ls__captures_find(ls_context *ctx, ls__captures *captures, uint64_t update, int begin,
                               int end);
void ls__capture_drop(ls_context *ctx, ls__capture *capture);
/* Frees all graphs, because they contain old addresses. */
void ls__captures_drop(ls_context *ctx, ls__captures *captures);

/* The first word of the selection of overlap, and its two "kernels": see overlap.c. */
#define LS__WEIGHT_GRADIENTS "weight_gradients"
#define LS__SIDE             "side"
#define LS__MAIN             "main"

#endif
