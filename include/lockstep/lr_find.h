/* lr_find.h: a learning rate range test (Smith 2015, "Cyclical Learning Rates for Training Neural
 * Networks", arXiv 1506.01186): some hundred steps with a growing learning rate, before a run.
 *
 *   ls_lr_curve *curve = ls_lr_find(net, optimizer, loader, NULL);
 *   const ls_lr_suggestion s = ls_lr_curve_suggestion(curve);
 *   ls_lr_curve_save(curve, "lr-find");
 *
 * Like a run, the curve depends on the identity alone, not on threads and workers. */
#ifndef LOCKSTEP_LR_FIND_H
#define LOCKSTEP_LR_FIND_H

#include <lockstep/trainer.h>

LS_BEGIN_DECLARATIONS

typedef struct ls_lr_find_config {
    double min_lr, max_lr; /* of the first and the last update; 0 = 1e-6 and 10. In between the
                              learning rate grows by the same factor in each update */
    int64_t steps;         /* updates, 10 to 2^20; 0 = 100 */
    double smoothing;      /* beta of the exponential moving average of the loss, in [0,1); 0 = 0.9;
                              LS_ZERO = 0 */

    const volatile sig_atomic_t *stop; /* the test ends if *stop is not 0; may be NULL */
    ls_event_fn on_event; /* PASS_BEGIN, STEP for each batch with the averages over all batches so
                             far, PASS_END; may be NULL */
    void *user;
    LS_RESERVED(8);
} ls_lr_find_config;

/* An update. */
typedef struct ls_lr_point {
    double lr;
    double loss;          /* before the update; with `accumulate` the mean over its batches */
    double smoothed_loss; /* the moving average with bias correction, m_t / (1 - beta^t), where
                             m_t = beta m_{t-1} + (1 - beta) loss_t and m_0 = 0 */
    LS_RESERVED(2);
} ls_lr_point;

typedef enum ls_lr_find_end {
    LS_LR_FIND_DONE,       /* all updates are done */
    LS_LR_FIND_DIVERGED,   /* the smoothed loss exceeded 4 times its minimum */
    LS_LR_FIND_NONFINITE,  /* a loss was infinite or not a number; it has no point */
    LS_LR_FIND_INTERRUPTED /* *stop was not 0 */
} ls_lr_find_end;

/* The points of a test, in order. It belongs to the context. */
typedef struct ls_lr_curve ls_lr_curve;

/* Runs the test. It trains the net from its present weights, from the loader's epoch 0 on, so the
 * net and the optimizer are not those of a new run afterwards. The optimizer's groups, clipping and
 * accumulation act as in training; a schedule is not used. Errors: LS_ERR_INVALID names the member
 * of config; LS_ERR_UNSUPPORTED with several ranks; those of the loader, of ls_net_step, and of
 * on_event. A loss that is not finite is no error. */
LS_API ls_lr_curve *ls_lr_find(ls_net *net, ls_optimizer *optimizer, ls_loader *loader,
                               const ls_lr_find_config *config);
LS_API void ls_lr_curve_close(ls_lr_curve **curve);
LS_API int64_t ls_lr_curve_point_count(const ls_lr_curve *curve);
LS_API ls_lr_point ls_lr_curve_point_at(const ls_lr_curve *curve, int64_t i); /* 0 out of range */
LS_API ls_lr_find_end ls_lr_curve_end(const ls_lr_curve *curve);

/* Two learning rates to train with; 0 where the loss does not fall by more than its noise. */
typedef struct ls_lr_suggestion {
    double steepest;     /* where the smoothed loss falls fastest over the logarithm of the learning
                            rate, by central differences, at or before its minimum, among the points
                            at which the loss falls by LS_LR_FIND_MIN_FALL standard errors */
    double tenth_of_min; /* a tenth of the learning rate of the minimum */
    double fall; /* the largest fall of the loss up to the minimum, in standard errors, among
                    the points at which the smoothed loss falls; 0 without a fall. At a
                    point: the mean loss of the tenth of the points that ends there, below
                    that of the tenth before it */
    LS_RESERVED(4);
} ls_lr_suggestion;
/* In standard errors. The loss of random steps, which has no trend, falls by so much in fewer than
 * 1 of 100 tests of 100 steps. */
enum { LS_LR_FIND_MIN_FALL = 4 };
/* The first tenth of the points is not considered, because few losses are averaged there. The
 * standard error is that of independent losses, whose variance is a sixth of the mean square of the
 * second differences of `loss`, to which a steady trend does not contribute. */
LS_API ls_lr_suggestion ls_lr_suggest(const ls_lr_point *points, int64_t n);
LS_API ls_lr_suggestion ls_lr_curve_suggestion(const ls_lr_curve *curve);

#ifndef LOCKSTEP_MINIMAL
/* Writes dir/lr_find.csv (columns lr, loss, smoothed_loss) and dir/lr_find.svg, and makes the
 * folder if it is missing. LS_ERR_INVALID if the folder holds a run, or there are no points;
 * LS_ERR_IO. */
LS_API ls_status ls_lr_curve_save(ls_lr_curve *curve, const char *dir);
#endif

LS_END_DECLARATIONS

#endif
