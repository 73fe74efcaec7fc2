/* evaluate.c: a net's loss and accuracy over a data set; see evaluate.h. */
#include "evaluate.h"
#include <math.h>
#include <stdio.h>

enum { MAX_TOLD = 8 };

static void tell_nonfinite(const ls_dataset *dataset, const ls_batch *batch, double loss)
{
    fprintf(stderr, "lockstep: the loss is %g at epoch %lld, step %lld; the batch's pictures:\n",
            loss, (long long)batch->epoch + 1, (long long)batch->step);
    for (int64_t i = 0; i < batch->n && i < MAX_TOLD; i++)
        fprintf(stderr, "  %s\n", ls_dataset_sample_path(dataset, batch->samples[i]));
    if (batch->n > MAX_TOLD) fprintf(stderr, "  and %lld more\n", (long long)batch->n - MAX_TOLD);
    fprintf(stderr, "a smaller --lr or --clip-grad-norm may help\n");
}

outcome sums_add(sums *s, ls_net *net, const ls_dataset *dataset, const ls_batch *batch)
{
    double loss, top1, top5 = 0;
    ls_status status = ls_net_loss(net, &loss);
    if (status == LS_OK) status = ls_net_metric(net, "top1", &top1);
    if (status == LS_OK && ls_dataset_classes(dataset) > 5)
        status = ls_net_metric(net, "top5", &top5);
    if (status != LS_OK) return OUTCOME_ERROR;
    if (!isfinite(loss)) {
        tell_nonfinite(dataset, batch, loss);
        return OUTCOME_NONFINITE;
    }
    s->loss += loss * (double)batch->n;
    s->top1 += top1 * (double)batch->n;
    s->top5 += top5 * (double)batch->n;
    s->n_images += batch->n;
    return OUTCOME_DONE;
}

outcome evaluate(const evaluation *e, sums *out)
{
    *out = (sums){ 0 };
    if (ls_loader_start(e->loader, 0) != LS_OK) return OUTCOME_ERROR;
    progress_begin(e->progress, e->title, e->is_work, 0, ls_loader_steps(e->loader));
    const double waited = ls_loader_statistics(e->loader).wait_seconds;
    outcome end = OUTCOME_DONE;
    ls_batch batch;
    while (end == OUTCOME_DONE && !*e->signal && ls_loader_next(e->loader, &batch)) {
        if (ls_net_evaluate(e->net, &batch) != LS_OK) end = OUTCOME_ERROR;
        if (end == OUTCOME_DONE) end = sums_add(out, e->net, e->dataset, &batch);
        if (end == OUTCOME_DONE && e->each && e->each(e->user, e->net, &batch) != LS_OK)
            end = OUTCOME_ERROR;
        const double n = out->n_images > 0 ? (double)out->n_images : 1;
        progress_step(e->progress, batch.n, ls_loader_statistics(e->loader).wait_seconds - waited,
                      out->loss / n, out->top1 / n);
    }
    if (end == OUTCOME_DONE && ls_loader_status(e->loader) != LS_OK) end = OUTCOME_DATA;
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
    case OUTCOME_DATA: return print_error(verb, ctx, EXIT_DATA);
    case OUTCOME_ERROR: return print_error(verb, ctx, EXIT_RUNTIME);
    }
    return EXIT_RUNTIME;
}
