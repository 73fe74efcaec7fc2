/* selector.h: the kernel selections of one net, under its context's policy. In this order:
 *
 *   what the net has used for an equal op before: that never changes in a net's life
 *   what the algorithm cache said when the net was built: from a file, from a checkpoint, or timed
 *   (autotune.c); in the net of a resumed run, what its checkpoint says
 *   the candidate that the backend estimates to be cheapest
 *
 * Times vary, so selections made by timing are part of a run's identity, and stored in its
 * checkpoints. Nothing is timed after the build: ops that come up later use the estimate. */
#ifndef LS_NN_SELECT_SELECTOR_H
#define LS_NN_SELECT_SELECTOR_H

#include "nn/plan/program.h"

enum { LS__FALLBACK_SIZE = 512 };

struct ls__selector {
    ls_context *ctx;
    ls__selections *used;  /* by programs and optimizers: for these ops it is so for ever */
    ls__selections *tried; /* which kernels have run for which ops, see trial.h */
    ls__selections *known; /* for other ops: the algorithm cache as it was after the build, because
                              what the cache learns later is not for this net; or that of the
                              resumed run; NULL while the net is built */
    int n_fallbacks;       /* ops whose library kernels all fail when they are run */
    char fallback[LS__FALLBACK_SIZE]; /* the first of these, until a warning has named it */
    bool never_runs; /* programs are compiled for their size alone: kernels are not tried */
};

ls_status ls__selector_open(ls__selector *selector, ls_context *ctx);
void ls__selector_close(ls__selector *selector);

/* ---- Finding ---- */

/* What was selected for an op's text, by the net's past or by the algorithm cache as the net knows
 * it; NULL when nothing was. */
const ls__selection *ls__selector_find(const ls__selector *selector, const char *text);
const ls__selection *ls__selector_find_kernel(const ls__selector *selector, const ls__op *op);
/* The same for the fusion that an op stands for. */
const ls__selection *ls__selector_find_fusion(const ls__selector *selector, const ls__op *op);

/* Whether the text of a selection begins with LS__WEIGHT_GRADIENTS. */
bool ls__is_weight_gradients(const char *text);

/* ---- Noting what is used ---- */

/* Adds a selection that is going to be used, unless there is one for the same text, and logs it. */
ls_status ls__selector_note(ls__selector *selector, const char *who,
                            const ls__selection *selection);
ls_status ls__selector_note_kernel(ls__selector *selector, const ls__op *op, const char *who,
                                   const ls__kernel *kernel, const ls__why *why);
/* The same for all kernels and fusions of a program. */
ls_status ls__selector_note_program(ls__selector *selector, const ls__program *program);

/* ---- Resuming ---- */

/* Takes over what a resumed run has used already, which the algorithm cache marks. */
ls_status ls__selector_inherit(ls__selector *selector);
/* The end of the build: later changes of the algorithm cache have no effect on this net. */
ls_status ls__selector_freeze(ls__selector *selector);
/* Makes the table of a resumed run, read from the file `path`, the one that the net knows, as if it
 * had been built with it; *table becomes NULL. LS_ERR_MISMATCH, with nothing changed, when the net
 * has already used another kernel for an op. */
ls_status ls__selector_replace(ls__selector *selector, const char *path, ls__selections **table);

/* ---- Opening kernels ---- */

/* The candidate that the policy prefers by cost: its index in out (room for LS__MAX_CANDIDATES), or
 * -1 when none is allowed; *n_found counts those that exist at all, and all allowed ones come first
 * in out. Keeps no error. */
int ls__choose_candidate(ls_context *ctx, const ls__op *op, ls__candidate *out, int *n_found);
/* Opens the best of the candidates that can be opened and run: libraries may refuse what they have
 * named. The last one's error is kept. Those that failed leave the list. */
ls_status ls__selector_open_best(ls__selector *selector, const ls__op *op, const char *who,
                                 ls__candidate *candidates, int *n, ls__kernel **kernel,
                                 int *chosen);
/* Selects and opens the kernel for an op; `who` begins the errors. */
ls_status ls__selector_open_kernel(ls__selector *selector, const ls__op *op, const char *who,
                                   ls__kernel **kernel, ls__why *why);
/* True when a failure to open a kernel only says that this one can't be had; its error is then
 * dropped. */
bool ls__forgive_missing_kernel(ls_context *ctx, ls_status status);

#endif
