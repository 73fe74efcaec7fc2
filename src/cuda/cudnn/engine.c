/* engine.c: see engine.h. */
#include "cuda/cudnn/engine.h"
#include "base/alloc.h"
#include "base/text.h"
#include "cuda/cudnn/cudnn.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name_begin[] = "cudnn ";
enum { MAX_KNOBS = CUDNN_KNOB_TYPE_COUNTS };

typedef struct knob {
    cudnnBackendKnobType_t type;
    int64_t value;
} knob;

static int compare_knobs(const void *a, const void *b)
{
    const knob *x = a, *y = b;
    return (x->type > y->type) - (x->type < y->type);
}

/* Returns the number of knobs. */
static int read_knobs(ls__cudnn_calls *calls, cudnnBackendDescriptor_t configuration,
                      knob out[MAX_KNOBS])
{
    cudnnBackendDescriptor_t choices[MAX_KNOBS] = { NULL };
    for (int i = 0; i < MAX_KNOBS; i++)
        choices[i] = ls__cudnn_make(calls, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    /* cuDNN reports 0 knobs for count 0, so the arrays have the maximal size. */
    const int64_t n = ls__cudnn_get(calls, configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_KNOBS, choices);
    for (int i = 0; i < n; i++) {
        ls__cudnn_get(calls, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                      &out[i].type);
        ls__cudnn_get(calls, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                      &out[i].value);
    }
    for (int i = 0; i < MAX_KNOBS; i++) ls__cudnn_release(&choices[i]);
    qsort(out, (size_t)n, sizeof *out, compare_knobs);
    return (int)n;
}

static void read_notes(ls__cudnn_calls *calls, cudnnBackendDescriptor_t engine,
                       ls__cudnn_engine *out)
{
    cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    int64_t n =
        ls__cudnn_get(calls, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                      CUDNN_NUMERICAL_NOTE_TYPE_COUNT, numerical);
    out->deterministic = true;
    for (int i = 0; i < n; i++) {
        const cudnnBackendNumericalNote_t note = numerical[i];
        if (note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) out->deterministic = false;
        if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) out->tensor_cores = true;
        out->transforms |= note == CUDNN_NUMERICAL_NOTE_FFT ||
                           note == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
                           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
                           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 ||
                           note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
        if (note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
            note == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
            out->fewer_bits = true;
    }
    n = ls__cudnn_get(calls, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                      CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, behavior);
    for (int i = 0; i < n; i++)
        if (behavior[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) out->compiled = true;
}

void ls__cudnn_engine_read(ls__cudnn_calls *calls, cudnnBackendDescriptor_t configuration,
                           ls__cudnn_engine *out)
{
    int64_t index = -1;
    knob knobs[MAX_KNOBS];
    memset(out, 0, sizeof *out);
    cudnnBackendDescriptor_t engine = ls__cudnn_make(calls, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    ls__cudnn_get(calls, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  1, &engine);
    ls__cudnn_get(calls, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
    read_notes(calls, engine, out);
    ls__cudnn_release(&engine);
    const int n_knobs = read_knobs(calls, configuration, knobs);
    ls__cudnn_get(calls, configuration, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                  &out->workspace_bytes);

    ls__text text = { out->name, sizeof out->name, 0 };
    ls__text_put(&text, "%s%" PRId64, name_begin, index);
    for (int i = 0; i < n_knobs; i++)
        ls__text_put(&text, "%c%d=%" PRId64, i == 0 ? ' ' : ',', (int)knobs[i].type,
                     knobs[i].value);
    if (text.length >= sizeof out->name) out->name[0] = '\0';
}

/* Parses a number at *text and moves *text behind it; false if there is none. */
static bool parse_number(const char **text, int64_t *out)
{
    const char *digits = *text + (**text == '-');
    if (*digits < '0' || *digits > '9') return false;
    char *end;
    *out = strtoll(*text, &end, 10);
    *text = end;
    return true;
}

/* Returns the number of knobs in the name, -1 if it is no name of a configuration. */
static int parse_name(const char *name, int64_t *index, knob knobs[MAX_KNOBS])
{
    int n = 0;
    if (strncmp(name, name_begin, strlen(name_begin)) != 0) return -1;
    name += strlen(name_begin);
    if (!parse_number(&name, index)) return -1;
    for (char before = ' '; *name == before; before = ',') {
        int64_t type;
        name++;
        if (n == MAX_KNOBS || !parse_number(&name, &type) || *name++ != '=' ||
            !parse_number(&name, &knobs[n].value) || type < 0 || type >= CUDNN_KNOB_TYPE_COUNTS)
            return -1;
        knobs[n++].type = (cudnnBackendKnobType_t)type;
    }
    return *name == '\0' ? n : -1;
}

bool ls__cudnn_engine_is_name(const char *name)
{
    int64_t index;
    knob knobs[MAX_KNOBS];
    return parse_name(name, &index, knobs) >= 0;
}

bool ls__cudnn_engine_same(const char *a, const char *b)
{
    enum { UNSET = -1 }; /* cuDNN writes it into the text of a plan for knobs that were not set */
    const char *names[2] = { a, b };
    int64_t indices[2];
    int n[2];
    knob knobs[2][MAX_KNOBS];
    for (int side = 0; side < 2; side++) {
        const int n_all = parse_name(names[side], &indices[side], knobs[side]);
        if (n_all < 0) return false;
        n[side] = 0;
        for (int i = 0; i < n_all; i++)
            if (knobs[side][i].value != UNSET) knobs[side][n[side]++] = knobs[side][i];
    }
    if (indices[0] != indices[1] || n[0] != n[1]) return false;
    for (int i = 0; i < n[0]; i++)
        if (knobs[0][i].type != knobs[1][i].type || knobs[0][i].value != knobs[1][i].value)
            return false;
    return true;
}

cudnnBackendDescriptor_t ls__cudnn_engine_configure(ls__cudnn_calls *calls,
                                                    const ls__cudnn_graph *graph,
                                                    cudnnBackendDescriptor_t device,
                                                    const char *name)
{
    int64_t index = -1;
    knob knobs[MAX_KNOBS];
    cudnnBackendDescriptor_t choices[MAX_KNOBS] = { NULL };
    const int n_knobs = parse_name(name, &index, knobs);
    cudnnBackendDescriptor_t engine = ls__cudnn_make(calls, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t made = ls__cudnn_make(calls, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    ls__cudnn_set_descriptor(calls, engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph->graph);
    ls__cudnn_set_int64(calls, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, index);
    if (device != NULL)
        ls__cudnn_set_descriptor(calls, engine, CUDNN_ATTR_ENGINE_DEVICEPROP, device);
    ls__cudnn_finalize(calls, engine, "an engine");
    for (int i = 0; i < n_knobs; i++) {
        choices[i] = ls__cudnn_make(calls, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        ls__cudnn_set(calls, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                      &knobs[i].type);
        ls__cudnn_set_int64(calls, choices[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, knobs[i].value);
        ls__cudnn_finalize(calls, choices[i], "a knob");
    }
    ls__cudnn_set_descriptor(calls, made, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (n_knobs > 0)
        ls__cudnn_set(calls, made, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                      n_knobs, choices);
    ls__cudnn_finalize(calls, made, "an engine configuration");
    ls__cudnn_input_unsupported(calls);
    for (int i = 0; i < MAX_KNOBS; i++) ls__cudnn_release(&choices[i]);
    ls__cudnn_release(&engine);
    return made;
}

const char *ls__cudnn_engine_rejection(const ls__cudnn_engine *engine,
                                       const ls__cudnn_problem *problem)
{
    if (engine->fewer_bits) return "it rounds inputs or sums to fewer bits";
    if (engine->tensor_cores && problem->f32 && !problem->tf32)
        return "it rounds inputs to tf32, which the op does not allow";
    if (engine->workspace_bytes > (int64_t)LS__CUDNN_WORKSPACE_LIMIT)
        return "its workspace exceeds the limit";
    return NULL;
}

void ls__cudnn_engines_visit(ls__cudnn_calls *calls, ls_context *ctx, const ls__cudnn_graph *graph,
                             cudnnBackendDescriptor_t device, cudnnBackendHeurMode_t mode,
                             ls__cudnn_visit_fn *visit, void *user)
{
    cudnnBackendDescriptor_t *results = NULL;
    int64_t n_made = 0;
    cudnnBackendDescriptor_t heuristics =
        ls__cudnn_make(calls, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    ls__cudnn_set_descriptor(calls, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                             graph->graph);
    ls__cudnn_set(calls, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (device != NULL)
        ls__cudnn_set_descriptor(calls, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    ls__cudnn_finalize(calls, heuristics, "the heuristics");
    int64_t n = ls__cudnn_get(calls, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                              CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, NULL);
    if (n <= 0) goto done;
    results = ls__zalloc(ctx, (size_t)n * sizeof *results);
    if (results == NULL) {
        ls__cudnn_check(calls, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                        "listing engine configurations");
        goto done;
    }
    for (; n_made < n; n_made++)
        results[n_made] = ls__cudnn_make(calls, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    n = ls__cudnn_get(calls, heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, n, results);
    for (int64_t i = 0; i < n; i++) {
        ls__cudnn_engine engine;
        ls__cudnn_engine_read(calls, results[i], &engine);
        if (calls->status != CUDNN_STATUS_SUCCESS || !visit(user, &engine)) break;
    }
done:
    for (int64_t i = 0; i < n_made; i++) ls__cudnn_release(&results[i]);
    ls__free(ctx, results);
    ls__cudnn_release(&heuristics);
}
