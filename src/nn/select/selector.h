/* selector.h: the kernel selections of one net, under its context's policy. In this order:
 *
 *   the kernel that the net has used for an equal op; it never changes for this net
 *   the algorithm cache as it was when the net was built: from a file, from a checkpoint, or timed
 *   (autotune.c); for a resumed run, the selections of its checkpoint
 *   the cheapest candidate by the backend's estimates
 *
 * Times vary, so selections made by timing are part of a run's identity, and stored in its
 * checkpoints. Nothing is timed after the build: ops that are planned later use the estimate. */
#ifndef LS_NN_SELECT_SELECTOR_H
#define LS_NN_SELECT_SELECTOR_H

#include "nn/plan/program.h"

enum { LS__FALLBACK_SIZE = 512 };

struct ls__selector {
    ls_context *ctx;
    ls__selections *used;  /* by programs and optimizers; these never change */
    ls__selections *tried; /* the kernels that have run for an op */
    ls__selections *cache; /* for other ops: the algorithm cache as it was after the build, because
                              later changes must not affect this net; or that of the resumed
                              run; NULL during the build */
    int n_fallbacks;       /* ops whose library kernels all fail when they are run */
    char fallback[LS__FALLBACK_SIZE]; /* the first of these, until a warning has named it */
    bool never_runs; /* programs are compiled for their size alone: kernels are not tried */
};

ls_status ls__selector_open(ls__selector *selector, ls_context *ctx);
void ls__selector_close(ls__selector *selector);

/* ---- Finding ---- */

/* The selection for an op's text, from `used` or else `cache`; NULL if there is none. */
const ls__selection *ls__selector_find(const ls__selector *selector, const char *text);
/* True if the text of a selection begins with LS__WEIGHT_GRADIENTS. */
bool ls__is_weight_gradients(const char *text);

/* ---- Noting used selections ---- */

/* Adds a selection to `used`, unless there is one for the same text, and logs it. */
ls_status ls__selector_note(ls__selector *selector, const char *who,
                            const ls__selection *selection);
ls_status ls__selector_note_kernel(ls__selector *selector, const ls__op *op, const char *who,
                                   const ls__kernel *kernel, const ls__why *why);
/* Notes all kernels and fusions of a program. */
ls_status ls__selector_note_program(ls__selector *selector, const ls__program *program);

/* ---- Resuming ---- */

/* Adds the selections that the resumed run has used, which are marked in the algorithm cache. */
ls_status ls__selector_inherit(ls__selector *selector);
/* The end of the build: later changes of the algorithm cache have no effect on this net. */
ls_status ls__selector_freeze(ls__selector *selector);
/* Replaces `cache` by the table of a resumed run, read from the file `path`, as if the net had been
 * built with it; *table becomes NULL. LS_ERR_MISMATCH, with nothing changed, if the net has already
 * used another kernel for an op. */
ls_status ls__selector_replace(ls__selector *selector, const char *path, ls__selections **table);

/* ---- Opening kernels ---- */

/* The candidates that the policy allows; out has the capacity LS__MAX_CANDIDATES. Returns their
 * number; *n_found counts all candidates. Sets no error if there is none. */
int ls__list_candidates(ls_context *ctx, const ls__op *op, ls__candidate *out, int *n_found);
/* The index of the cheapest by the estimates; -1 if n is 0. */
int ls__cheapest(const ls__candidate *candidates, int n);
/* The estimated cost of the cheapest allowed candidate. */
#define LS__IMPOSSIBLE_MS 1e30 /* there is none; sums of it are finite */
double ls__cheapest_ms(ls_context *ctx, const ls__op *op);
/* Opens the cheapest candidate that can be opened and run, because a library may fail to make a
 * kernel that it listed. Failed candidates are removed from the list; the error is that of the last
 * one. */
ls_status ls__selector_open_best(ls__selector *selector, const ls__op *op, const char *who,
                                 ls__candidate *candidates, int *n, ls__kernel **kernel,
                                 int *chosen);
/* Selects and opens the kernel for an op; `who` begins the errors. */
ls_status ls__selector_open_kernel(ls__selector *selector, const ls__op *op, const char *who,
                                   ls__kernel **kernel, ls__why *why);
/* An operand of a call: a block of f32; absent if memory is NULL. */
typedef struct ls__block {
    ls_shape shape;
    void *memory;
    ls_shape whole; /* n_dims 1: the operand is this rank's part of one of this shape, for which the
                       kernel is selected, so that the ranks have one list of kernels */
} ls__block;
/* Opens the kernel for an op over these blocks and makes its call, which ls__call_close closes,
 * also after a failure. The op's settings are set; the rest is filled in. The call has no kernel if
 * the first block is an empty part. */
ls_status ls__selector_open_call(ls__selector *selector, ls__op *op, const char *who,
                                 const char *name, int n_blocks, const ls__block *blocks,
                                 ls__call *call);
void ls__call_close(ls_context *ctx, ls__call *call);
/* True if a failure to open a kernel concerns this kernel alone; its error is then dropped. */
bool ls__forgive_missing_kernel(ls_context *ctx, ls_status status);
/* Drops the error of a failed run, but not ctx->message, unless the device is lost. */
bool ls__forgive_failed_run(ls_context *ctx);

/* ---- autotune.c: times kernels within a program's time budget ---- */

/* A later candidate replaces the best one if it needs less than this share of its time, because
 * smaller differences are noise. */
#define LS__CLEARLY_FASTER 0.97

/* Times kernels for these instructions' ops without a selection and puts the fastest into the
 * algorithm cache. The instructions are filled. */
ls_status ls__autotune(ls__program *program, const ls__instruction *list, int n);
/* The rest of the program's time budget; the caller subtracts the time that it takes. */
double *ls__autotune_left_ms(ls__program *program);
/* The estimated time to time an op of estimated cost `cost_ms`. */
double ls__autotune_price_ms(const ls__program *program, double cost_ms);
/* Puts a selection into the algorithm cache, unless it has no kernel. */
ls_status ls__autotune_put(ls_context *ctx, const ls__selection *selection, bool timed);

/* ---- select_fusion.c ---- */

typedef struct ls__fusion_side {
    int n;
    ls__instruction list[LS__MAX_FUSION_OPS]; /* may be unfilled */
} ls__fusion_side;

/* The instructions of a fusion and those that it replaces. The first fused op, a convolution, names
 * the fusion in selections. */
typedef struct ls__fusion_sides {
    ls__fusion_side apart, fused;
} ls__fusion_sides;

/* True if the fusion is used. Fills the instructions; errors stay in the context. */
bool ls__select_fusion(ls__program *program, ls__fusion_sides *sides);

#endif
