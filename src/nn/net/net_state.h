/* net_state.h: the struct of a net, for the files of this folder and of shards. */
#ifndef LS_NN_NET_NET_STATE_H
#define LS_NN_NET_NET_STATE_H

#include "backend/pool.h"
#include "backend/readback.h"
#include "comm/plan.h"
#include "nn/net/net.h"
#include <pthread.h>
#include <stdatomic.h>

/* Memory of one batch's targets. Two are used alternately, so that one is filled while the device
 * reads the other. */
typedef struct ls__one_hot_slot {
    void *memory; /* of the device */
    /* The rest only where the host can't write it: what is uploaded to it, */
    float *block;
    ls__event *uploaded; /* after which the block may be written again, */
    ls__event *read;     /* and after which the memory may be */
    bool uploading;
} ls__one_hot_slot;
enum { LS__N_ONE_HOT_SLOTS = 2 };

/* Targets made of a batch's labels, for losses of targets. Begins with all zero. */
typedef struct ls__one_hot {
    ls_tensor targets; /* f32 [n,classes]: those of the last batch */
    ls__one_hot_slot slots[LS__N_ONE_HOT_SLOTS];
    int64_t max_n;   /* rows: the capacity of the slots */
    int32_t *labels; /* [max_n]: of labels that the host can't read */
    int64_t n_filled;
} ls__one_hot;

/* Programs by mode and input shapes over one arena; the least recently used is dropped first. */
typedef struct ls__plan_cache {
    ls__program **programs;
    int n_programs, max_programs;
    uint64_t n_compiled; /* numbers the programs */
    int64_t clock;       /* counts uses */
    unsigned char *arena;
    uint64_t arena_generation;
} ls__plan_cache;

/* The results of a batch during their readback, which is one batch behind the last
 * step on a GPU. */
typedef struct ls__results {
    ls__readback readback;
    bool unlabelled, has_weight, has_norm;
    int64_t epoch, step, n;
} ls__results;
enum { LS__N_RESULTS = 2 };

/* How the ranks' partial sums of a range are added: see net_ranks.c. */
typedef struct ls__rank_sum {
    ls__sum_plan plan;
    float *rows[LS__MAX_LEVELS]; /* device memory: what each level receives */
    ls__exchange *exchanges[2 * LS__MAX_LEVELS];
    ls__op ops[LS__MAX_LEVELS];
    int n_exchanges;
} ls__rank_sum;

/* The ranges of the block of a shard's results, each of which is added by calls of its own: those
 * that are not weighted, the losses, then the gradients in buckets, from the end of the block,
 * which is computed first. */
enum { LS__SHARD_SUMS, LS__SHARD_LOSSES, LS__SHARD_GRADIENTS };
typedef struct ls__shard_range {
    char name[24];
    int64_t begin, count;        /* elements, in the block */
    float *partial;              /* device memory: rows of partial sums */
    float *sum;                  /* over all shards */
    const float *weight, *total; /* of the shard, of all shards; NULL: not weighted */
    ls__op op;                   /* SHARD_SUM */
    ls__rank_sum ranks;          /* with several ranks */
} ls__shard_range;

/* The shards of training batches: see plan/shard.h and net_shards.c. */
typedef struct ls__net_shards {
    int64_t n;          /* 1: a training step is one part, like others, and only `list` is used */
    int64_t first, end; /* this rank has the shards [first, end) */
    bool is_synced;     /* batch norms are synchronised */
    int64_t n_rows;     /* of partial sums */
    ls__shard *list;    /* capacity n */
    ls__shard_range *ranges;
    ls__shard_sum *sums;      /* per range */
    int n_ranges;             /* without empty ones, but for those of LS__SHARD_LOSSES */
    ls__parts parts;          /* of the last step */
    ls__op running_op;        /* of the running statistics */
    ls__call running_call;    /* without a kernel if there are none */
    float *partial;           /* device memory: rows of partial sums, per range */
    float *results;           /* device memory: the sums over all shards, but those of gradients */
    float *norm_sums;         /* device memory: the sums of synchronised batch norms, else NULL */
    ls__call *synced_sums;    /* as in ls__parts */
    ls__call *norm_exchanges; /* of norm_sums, at buffers[0], in the order of the graph */
    int n_norm_exchanges;
    size_t bytes; /* all device memory of this struct */
} ls__net_shards;

struct ls_net {
    ls__owned owned;
    ls_graph graph;
    ls_net_config config;
    ls__net_blocks blocks;
    ls_tensor *value_views; /* one per parameter and buffer */
    ls_tensor *gradient_views;

    ls__selector selector;
    ls__environment env; /* of the programs */
    ls__plan_cache cache;
    ls__executor executor;
    ls__net_shards shards;
    uint64_t n_updates; /* numbered so far */

    const ls_tensor **feeds; /* per graph input: the source of the next forward's copy */
    ls_spec *fed_specs;      /* buffer for a program's key */
    char weights_digest[LS_DIGEST_TEXT_SIZE]; /* see ls__net_set_weights_digest */
    ls_tensor no_labels;           /* labels of -1 for batches without labels, or empty */
    ls_tensor no_targets;          /* zeros for batches without targets, or empty */
    ls__one_hot one_hot;           /* targets made of labels */
    bool unlabelled;               /* the last forward read no_labels or no_targets */
    ls_tensor *output_views;       /* per graph output */
    ls_tensor *gradient_of_inputs; /* per graph input */
    ls__program *current;          /* the last program that ran; of several shards the last one's */
    int64_t n_samples;             /* of the batch that it ran on, with all shards */
    bool forward_done;             /* current is a train program whose backward may run */
    bool has_gradients;            /* the memory holds those of the last backward pass */
    atomic_bool busy;              /* a call is running on the net */
    bool has_begun; /* to train: the first backward pass, or a checkpoint was loaded */
    bool has_run;
    pthread_t last_thread; /* of the last run; valid if has_run */

    ls__results results[LS__N_RESULTS]; /* used alternately */
    int64_t n_sent, n_taken;
    const float **scalars; /* buffer for a list of addresses */
};

/* Returns NULL for NULL, which LS__ENTER treats as an earlier error. */
static inline ls_context *ls__net_context(const ls_net *net)
{
    return net ? net->owned.ctx : NULL;
}

/* Returns the communicator of the ranks; NULL for one rank. */
static inline ls__comm *ls__net_comm(const ls_net *net)
{
    return net->config.inference ? NULL : net->owned.ctx->comm;
}

/* ---- net_blocks.c, initial_values.c ---- */

/* Allocates the blocks, sets offsets, draws initial values, makes the views. */
ls_status ls__net_open_blocks(ls_net *net);
void ls__net_close_blocks(ls_net *net);
/* Allocates device memory, filled with zeros, and counts it in shards.bytes. */
ls_status ls__net_shard_memory(ls_net *net, const char *what, int64_t elements, float **out);
/* Draws initial values into a block of zeros. */
ls_status ls__net_set_initial_values(ls_net *net);

/* ---- precision.c ---- */

/* Fails on an invalid precision or loss scale. */
ls_status ls__precision_check(ls_context *ctx, const ls_net_config *config);
/* Sets the defaults of the loss scale. Warns if the precision is emulated. */
void ls__precision_fill(ls_net *net);
/* True if the device emulates the net's precision through f32. */
bool ls__emulates_precision(const ls_net *net);

/* ---- arena.c ---- */

/* Makes the arena at least as large as the program's. */
ls_status ls__fit_arena(ls_net *net, const ls__program *program);
void ls__drop_arena(ls_net *net);
/* True if `bytes` can be allocated now. */
bool ls__would_fit(ls__pool *pool, size_t bytes);
void ls__bind_to_arena(ls_net *net, ls__program *program);

/* ---- plan_cache.c, autotune_overlap.c ---- */

ls_status ls__plan_cache_open(ls_net *net);
void ls__plan_cache_close(ls_net *net);
/* The program for these inputs (NULL: with the shapes of the model function), cached or compiled
 * now, bound to the arena. */
ls_status ls__net_program(ls_net *net, ls_mode mode, const ls_spec *input_specs, bool timed,
                          ls__program **out);
/* Closes training programs, which depend on frozen parameters and required input gradients. */
void ls__net_drop_training_programs(ls_net *net);
/* Replaces the program by one that computes weight gradients in a second stream, if timing is
 * on and shows that it is faster. */
ls_status ls__autotune_overlap(ls_net *net, ls__program **program);

/* Times the backward pass of a bound program that overlaps, with and without overlap. Both times
 * are negative on failure and if that takes more than left_ms. */
ls_status ls__time_overlap(const ls_net *net, ls__program *program, double left_ms, double *main_ms,
                           double *side_ms);

/* ---- net_run.c ---- */

/* Prepares a step like ls_net_step, but runs nothing. */
ls_status ls__net_take_step(ls_net *net, const char *call, ls__update *update,
                            const ls_batch *batch, double lr);
/* Runs the prepared step up to position `end`. */
ls_status ls__net_run_to(ls_net *net, int end);

/* ---- net_shards.c ---- */

/* Sets which shards there are, and which of them this rank has. Fails on what can't be cut. */
ls_status ls__net_count_shards(ls_net *net);
/* Fails if the net has more than one shard. */
ls_status ls__net_refuse_shards(ls_net *net, const char *call);
ls_status ls__net_open_shards(ls_net *net);
void ls__net_close_shards(ls_net *net);
/* Finds the shards of a training batch of the shapes net->fed_specs, which it changes, and their
 * programs. */
ls_status ls__net_find_shards(ls_net *net);
/* The program of a shard with this number of samples, after ls__net_find_shards. */
ls_status ls__net_find_shard_program(ls_net *net, int64_t n_samples, ls__program **out);
/* A scalar of the last step, in device memory; i as in plan/shard.h. */
const float *ls__net_shard_scalar(const ls_net *net, int i);

/* ---- net_ranks.c ---- */

/* Opens the plans of the ranges, and sets n_rows. */
ls_status ls__net_open_rank_plans(ls_net *net);
/* Makes a call of an exchange; name lives as long as the net. */
ls_status ls__net_open_exchange(ls_net *net, const char *name, const ls__message *messages,
                                int n_sends, int n_receives, ls__call *out);
/* Appends the calls that add the ranks' partial sums of the range. */
ls_status ls__net_open_rank_calls(ls_net *net, int range);
void ls__net_close_rank_sum(ls_net *net, ls__rank_sum *sum);

/* ---- net_sync.c ---- */

/* Opens what synchronised batch norms require, if they are. */
ls_status ls__net_open_sync(ls_net *net);
void ls__net_close_sync(ls_net *net);
/* Finds the sync points of a program. */
ls_status ls__net_place_sync_points(const ls_net *net, ls__program *program);

/* ---- net_audit.c ---- */

/* True for a step of which ranks compute a shard twice: see ls_context_config.audit_every. */
bool ls__net_is_audited(const ls_net *net);
/* Runs the step that ls__net_take_step has prepared, up to the end of the audited shard. */
ls_status ls__net_audit(ls_net *net, ls__update *update, double lr);

/* ---- net_labels.c ---- */

/* Fails if a fed label is not a class of the cross-entropy that reads it. Waits for labels that are
 * only in device memory. */
ls_status ls__net_check_labels(ls_net *net);
/* Makes net->no_labels labels of -1, which cross-entropy and top-k ignore, or net->no_targets
 * zeros, whose losses are not reported. */
ls_status ls__net_fill_constant(ls_net *net, ls_tensor *tensor, ls_dtype dtype, ls_shape shape,
                                double value);
void ls__net_drop_constant(ls_net *net, ls_tensor *tensor);
/* Makes one_hot->targets of the labels i32 [n]; rows of other labels than 0 to classes - 1 are 0.
 * Waits for the device only if labels are in its memory alone. */
ls_status ls__one_hot_fill(ls_context *ctx, ls__one_hot *one_hot, const ls_tensor *labels,
                           int64_t classes);
void ls__one_hot_close(ls_context *ctx, ls__one_hot *one_hot);

/* ---- net_results.c ---- */

ls_status ls__net_open_results(ls_net *net);
void ls__net_close_results(ls_net *net);
/* Queues the readback of the batch's results. */
ls_status ls__net_send_results(ls_net *net, const ls_batch *batch, const ls__update *update);

#endif
