/* candidates.c: lists of cuDNN's heuristics for a problem: filtered, ordered, cached. */
#include "base/alloc.h"
#include "base/error.h"
#include "cuda/cudnn/handle.h"

#include <string.h>

/* If mode A lists fewer, the fallback mode is queried too. It lists kernels that run anywhere, most
 * of them slower, and takes 11 ms per op; mode A takes 1 to 2 ms. f32 without tf32 needs it. */
enum { ENOUGH = 8 };

typedef struct listing {
    const ls__cudnn_problem *problem;
    ls__candidate list[LS__CUDNN_MAX_CANDIDATES];
    int n, n_dropped;
    bool compiled; /* lists the engines that cuDNN compiles, not the others */
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
    if (engine->compiled != l->compiled || ls__cudnn_engine_rejection(engine, l->problem) != NULL ||
        is_listed(l, engine->name))
        return true;
    if (l->n == LS__CUDNN_MAX_CANDIDATES || engine->name[0] == '\0') {
        l->n_dropped++;
        return true;
    }
    ls__candidate *c = &l->list[l->n];
    memcpy(c->name, engine->name, sizeof c->name);
    c->deterministic = engine->deterministic;
    c->cost_ms = l->problem->cost_ms * (1 + 0.01 * l->n); /* the heuristics give only an order */
    l->n++;
    return true;
}

/* A full list ends the queries, so more configurations may exist than are counted. */
static void count_dropped(ls__cudnn *cudnn, const listing *l)
{
    if (cudnn->n_dropped == 0 && l->n_dropped > 0)
        ls__inform(cudnn->ctx, LS_LOG_NET,
                   "%s: at least %d engine configurations are left out: %d are listed, %d can be, "
                   "with names of at most %d characters",
                   l->problem->text, l->n_dropped, l->n, LS__CUDNN_MAX_CANDIDATES,
                   LS__KERNEL_NAME_SIZE - 1);
    cudnn->n_dropped += l->n_dropped;
}

/* Queries the heuristics. The list of an unsupported graph is empty. */
static ls_status query(const ls__cudnn *cudnn, listing *l)
{
    static const cudnnBackendHeurMode_t modes[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
    ls__cudnn_graph graph;
    ls_status status = LS_OK;
    ls__cudnn_graph_open(&graph, l->problem, cudnn->handle);
    /* Compiled engines come last, because compiling requires a driver and takes up to seconds. */
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

static void cache_drop(ls__cudnn *cudnn, ls__cudnn_listed *a)
{
    ls__free(cudnn->ctx, a->text);
    ls__free(cudnn->ctx, a->candidates);
    memset(a, 0, sizeof *a);
}

void ls__cudnn_cache_clear(ls__cudnn *cudnn)
{
    for (int i = 0; i < LS__CUDNN_CACHE_SIZE; i++) cache_drop(cudnn, &cudnn->cache[i]);
}

/* Caches a list in a free row or in the least recently used one. Without memory it is not cached.
 */
static void cache_put(ls__cudnn *cudnn, const listing *l)
{
    ls__cudnn_listed *place = &cudnn->cache[0];
    for (int i = 1; i < LS__CUDNN_CACHE_SIZE && place->text != NULL; i++)
        if (cudnn->cache[i].last_use < place->last_use) place = &cudnn->cache[i];
    cache_drop(cudnn, place);
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
    *place = (ls__cudnn_listed){ text, ++cudnn->n_uses, l->n, candidates };
}

int ls__cudnn_candidates(ls__cudnn *cudnn, const ls__op *op, ls__candidate *out, int max)
{
    ls__cudnn_problem problem;
    if (ls__cudnn_problem_of(op, &problem) != NULL) return 0;
    if (problem.max_candidates > 0 && max > problem.max_candidates) max = problem.max_candidates;
    for (int i = 0; i < LS__CUDNN_CACHE_SIZE; i++) {
        ls__cudnn_listed *a = &cudnn->cache[i];
        if (a->text == NULL || strcmp(a->text, problem.text) != 0) continue;
        a->last_use = ++cudnn->n_uses;
        const int n = a->n_candidates < max ? a->n_candidates : max;
        memcpy(out, a->candidates, (size_t)n * sizeof *out);
        return n;
    }
    listing l = { .problem = &problem };
    if (query(cudnn, &l) != LS_OK) return 0;
    count_dropped(cudnn, &l);
    cache_put(cudnn, &l);
    const int n = l.n < max ? l.n : max;
    memcpy(out, l.list, (size_t)n * sizeof *out);
    return n;
}
