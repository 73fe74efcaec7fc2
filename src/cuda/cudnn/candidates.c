/* candidates.c: what cuDNN's heuristics offer for a problem, filtered, in order, and remembered. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/cudnn/handle.h"

#include <string.h>

/* When the first heuristics give fewer, the fallback's are asked as well. They name what runs
 * anywhere, mostly slower kernels, and take 11 ms for every op, against 1 to 2 ms. It is f32
 * without tf32 that needs them. */
enum { ENOUGH = 8 };

typedef struct listing {
    const ls__cudnn_problem *problem;
    ls__candidate list[LS__CUDNN_MAX_CANDIDATES];
    int n, n_dropped;
    bool compiled; /* is this round for those that cuDNN compiles? */
} listing;

static bool is_listed(const listing *l, const char *name)
{
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->list[i].name, name) == 0) return true;
    return false;
}

static bool take_engine(void *user, const ls__cudnn_engine *engine)
{
    listing *l = user;
    if (engine->compiled != l->compiled || ls__cudnn_engine_objection(engine, l->problem) != NULL ||
        is_listed(l, engine->name))
        return true;
    if (l->n == LS__CUDNN_MAX_CANDIDATES || engine->name[0] == '\0') {
        l->n_dropped++;
        return true;
    }
    ls__candidate *c = &l->list[l->n];
    memcpy(c->name, engine->name, sizeof c->name);
    c->deterministic = engine->deterministic;
    c->cost_ms = l->problem->cost_ms * (1 + 0.01 * l->n); /* the heuristics give an order only */
    l->n++;
    return true;
}

/* Once a list is full, cuDNN is asked for no more: there may be others that nothing counts. */
static void count_dropped(ls__cudnn *cudnn, const listing *l)
{
    if (cudnn->n_dropped == 0 && l->n_dropped > 0)
        ls__inform(cudnn->ctx,
                   "%s: at least %d engine configurations are left out: %d are listed, %d can be, "
                   "with names of at most %d characters",
                   l->problem->text, l->n_dropped, l->n, LS__CUDNN_MAX_CANDIDATES,
                   LS__KERNEL_NAME_SIZE - 1);
    cudnn->n_dropped += l->n_dropped;
}

/* Asks the heuristics. A graph that cuDNN has nothing for gives an empty list. */
static ls_status ask(const ls__cudnn *cudnn, listing *l)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
    ls__cudnn_graph graph;
    ls_status status = LS_OK;
    ls__cudnn_graph_open(&graph, l->problem, cudnn->handle);
    /* Compiling takes a driver, and up to seconds: those come last. */
    for (int compiled = 0; compiled <= (cudnn->handle != NULL); compiled++)
        for (int m = 0; m < (int)(sizeof modes / sizeof *modes); m++) {
            ls__cudnn_calls calls = graph.calls;
            if (status != LS_OK || l->n == LS__CUDNN_MAX_CANDIDATES || (m > 0 && l->n >= ENOUGH))
                break;
            l->compiled = compiled;
            ls__cudnn_engines_visit(&calls, cudnn->ctx, &graph, ls__cudnn_described(cudnn),
                                    modes[m], take_engine, l);
            if (!ls__cudnn_is_unsupported(&calls))
                status = ls__cudnn_report(cudnn->ctx, &calls, l->problem->text);
        }
    ls__cudnn_graph_close(&graph);
    return status;
}

static void forget(ls__cudnn *cudnn, ls__cudnn_answer *a)
{
    ls__free(cudnn->ctx, a->text);
    ls__free(cudnn->ctx, a->candidates);
    memset(a, 0, sizeof *a);
}

void ls__cudnn_forget_answers(ls__cudnn *cudnn)
{
    for (int i = 0; i < LS__CUDNN_MAX_ANSWERS; i++) forget(cudnn, &cudnn->answers[i]);
}

/* Keeps a list in a free place, or in the oldest one's. Without memory it is not kept. */
static void remember(ls__cudnn *cudnn, const listing *l)
{
    ls__cudnn_answer *place = &cudnn->answers[0];
    for (int i = 1; i < LS__CUDNN_MAX_ANSWERS && place->text != NULL; i++)
        if (cudnn->answers[i].asked < place->asked) place = &cudnn->answers[i];
    forget(cudnn, place);
    const size_t text_bytes = strlen(l->problem->text) + 1;
    const size_t list_bytes = (size_t)l->n * sizeof *l->list;
    char *text = ls__alloc(cudnn->ctx, text_bytes);
    ls__candidate *candidates = ls__alloc(cudnn->ctx, list_bytes);
    if (text == NULL || candidates == NULL) {
        ls__free(cudnn->ctx, text);
        ls__free(cudnn->ctx, candidates);
        return;
    }
    memcpy(text, l->problem->text, text_bytes);
    memcpy(candidates, l->list, list_bytes);
    *place = (ls__cudnn_answer){ text, ++cudnn->n_asked, l->n, candidates };
}

int ls__cudnn_candidates(ls__cudnn *cudnn, const ls__cudnn_problem *problem, ls__candidate *out,
                         int max)
{
    for (int i = 0; i < LS__CUDNN_MAX_ANSWERS; i++) {
        ls__cudnn_answer *a = &cudnn->answers[i];
        if (a->text == NULL || strcmp(a->text, problem->text) != 0) continue;
        a->asked = ++cudnn->n_asked;
        const int n = a->n_candidates < max ? a->n_candidates : max;
        memcpy(out, a->candidates, (size_t)n * sizeof *out);
        return n;
    }
    listing l = { .problem = problem };
    if (ask(cudnn, &l) != LS_OK) return 0;
    count_dropped(cudnn, &l);
    remember(cudnn, &l);
    const int n = l.n < max ? l.n : max;
    memcpy(out, l.list, (size_t)n * sizeof *out);
    return n;
}
