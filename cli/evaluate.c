/* evaluate.c: a net's loss and accuracy over a data set; see evaluate.h. */
#include "evaluate.h"
#include <math.h>
#include <stdio.h>

static void tell_nonfinite(const tally *t, const ls_results *r)
{
    const int64_t batch = t->n_added % TALLY_BATCHES, n = t->n_samples[batch];
    const char *loss = isnan(r->loss) ? "nan" : r->loss > 0 ? "inf" : "-inf"; /* no "-nan" */
    if (t->trains)
        print_text(stderr,
                   "lockstep: the loss is %s at epoch %lld, step %lld; the batch's images:\n", loss,
                   (long long)r->epoch + 1, (long long)r->step + 1);
    else
        print_text(stderr, "lockstep: the loss is %s in validation, batch %lld; its images:\n",
                   loss, (long long)t->n_added + 1);
    for (int64_t i = 0; i < n && i < TALLY_SAMPLES; i++)
        print_text(stderr, "  %s\n", ls_dataset_sample_path(t->dataset, t->samples[batch][i]));
    if (n > TALLY_SAMPLES) print_text(stderr, "  and %lld more\n", (long long)n - TALLY_SAMPLES);
    print_text(stderr, "a smaller --lr or --clip-grad-norm may help\n");
}

static outcome add(tally *t, const ls_results *r)
{
    if (!isfinite(r->loss)) {
        tell_nonfinite(t, r);
        return OUTCOME_NONFINITE;
    }
    t->sums->loss += r->loss * (double)r->n;
    t->sums->top1 += r->top1 * (double)r->n;
    t->sums->top5 += r->top5 * (double)r->n;
    t->sums->n_images += r->n;
    t->n_added++;
    return OUTCOME_DONE;
}

static outcome add_all(tally *t, ls_status (*give)(ls_net *net, ls_results *out))
{
    for (;;) {
        ls_results results;
        if (give(t->net, &results) != LS_OK) return OUTCOME_ERROR;
        if (results.n == 0) return OUTCOME_DONE;
        const outcome end = add(t, &results);
        if (end != OUTCOME_DONE) return end;
    }
}

outcome tally_add(tally *t, const ls_batch *batch)
{
    const int64_t at = t->n_begun++ % TALLY_BATCHES;
    t->n_samples[at] = batch->n;
    for (int64_t i = 0; i < batch->n && i < TALLY_SAMPLES; i++)
        t->samples[at][i] = batch->samples[i];
    return add_all(t, ls_net_results);
}

outcome tally_finish(tally *t)
{
    return add_all(t, ls_net_last_results);
}

outcome evaluate(const evaluation *e, sums *out)
{
    *out = (sums){ 0 };
    if (ls_loader_start(e->loader, 0) != LS_OK) return OUTCOME_ERROR;
    progress_begin(e->progress, e->title, WORK_EVALUATE, 0, ls_loader_step_count(e->loader));
    const double waited = ls_loader_statistics(e->loader).wait_seconds;
    tally results = { .net = e->net, .dataset = e->dataset, .sums = out };
    outcome end = OUTCOME_DONE;
    ls_batch batch;
    while (end == OUTCOME_DONE && !*e->signal && ls_loader_next(e->loader, &batch)) {
        if (ls_net_evaluate(e->net, &batch) != LS_OK) end = OUTCOME_ERROR;
        if (end == OUTCOME_DONE) end = tally_add(&results, &batch);
        if (end == OUTCOME_DONE && e->each && e->each(e->user, e->net, &batch) != LS_OK)
            end = OUTCOME_ERROR;
        const double n = out->n_images > 0 ? (double)out->n_images : 1;
        progress_step(e->progress, batch.n, ls_loader_statistics(e->loader).wait_seconds - waited,
                      out->loss / n, out->top1 / n);
    }
    if (end == OUTCOME_DONE && ls_loader_status(e->loader) != LS_OK) end = OUTCOME_DATA;
    if (end == OUTCOME_DONE) end = tally_finish(&results);
    if (end == OUTCOME_DONE && *e->signal) end = OUTCOME_STOPPED;
    progress_end(e->progress);
    return end;
}

int outcome_answer(const cli_verb *verb, ls_context *ctx, outcome end, int signal)
{
    switch (end) {
    case OUTCOME_DONE:
    case OUTCOME_HALTED: return EXIT_DONE;
    case OUTCOME_STOPPED: return EXIT_SIGNAL + signal;
    case OUTCOME_NONFINITE: return EXIT_NONFINITE;
    case OUTCOME_DATA: return print_loader_error(verb, ctx, "batch");
    case OUTCOME_ERROR: return print_error(verb, ctx, EXIT_RUNTIME);
    }
    return EXIT_RUNTIME;
}
