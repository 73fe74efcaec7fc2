/* cudnn_engines.c: the emulated cuDNN's engines, what its heuristics answer, and plans. Engines
 * differ in their notes, their knobs and the order in which they add:
 *
 *    1  is offered first, and no plan can be made of it
 *   41  has so many knobs that its name is long
 *   10  is the best one for tensor cores
 *    3  adds in an order that changes from run to run
 *    4  rounds f32 factors to f16
 *    7  is compiled when a plan is made, which needs a handle
 *    8  needs more working memory than the backend allows
 *    6  a Winograd engine, for f32
 *    0  the fallback
 *
 * With LOCKSTEP_EMULATED_LIBRARY=broken, heuristics fail. Plans whose kernel's name begins with
 * LOCKSTEP_EMULATED_FAILING, "cudnn" or "cudnn 41", fail when they are executed. */
#include "cudnn_support.h"
#include "graphs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* WINOGRAD_BITS: an error of about 1e-5, as of transforms in f32. */
enum { MAX_KNOBS = 16, N_NOTES = 3, F16_BITS = 10, WINOGRAD_BITS = 15, F32_BITS = 23 };

typedef struct engine {
    int64_t index;
    int n_notes;
    cudnnBackendNumericalNote_t notes[N_NOTES];
    bool compiled, refused, huge, f32_only;
    int f32_bits; /* of f32 factors; 0: all */
    int n_knobs;
    struct {
        int type;
        int64_t max;
    } knobs[MAX_KNOBS];
} engine;

#define TENSOR_CORE CUDNN_NUMERICAL_NOTE_TENSOR_CORE
static const engine engines[] = {
    { .index = 0, .n_knobs = 0 },
    { .index = 1, .refused = true, .n_knobs = 1, .knobs = { { CUDNN_KNOB_TYPE_TILE_SIZE, 8 } } },
    { .index = 3,
      .n_notes = 1,
      .notes = { CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC },
      .n_knobs = 1,
      .knobs = { { CUDNN_KNOB_TYPE_TILE_SIZE, 8 } } },
    { .index = 4,
      .n_notes = 2,
      .notes = { TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS },
      .f32_bits = F16_BITS },
    { .index = 6,
      .n_notes = 2,
      .notes = { CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 },
      .f32_only = true,
      .f32_bits = WINOGRAD_BITS,
      .n_knobs = 1,
      .knobs = { { CUDNN_KNOB_TYPE_TILE_SIZE, 8 } } },
    { .index = 7, .compiled = true, .n_knobs = 1, .knobs = { { CUDNN_KNOB_TYPE_TILE_SIZE, 8 } } },
    { .index = 8, .huge = true },
    { .index = 10,
      .n_notes = 1,
      .notes = { TENSOR_CORE },
      .f32_bits = F16_BITS, /* tf32 has as many */
      .n_knobs = 3,
      .knobs = { { CUDNN_KNOB_TYPE_TILE_SIZE, 8 },
                 { CUDNN_KNOB_TYPE_TILEK, 1 },
                 { CUDNN_KNOB_TYPE_STAGES, 4 } } },
    { .index = 41,
      .n_knobs = 15,
      .knobs = { { CUDNN_KNOB_TYPE_SWIZZLE, 9 },
                 { CUDNN_KNOB_TYPE_TILE_SIZE, 18 },
                 { CUDNN_KNOB_TYPE_EDGE, 9 },
                 { CUDNN_KNOB_TYPE_MULTIPLY, 9 },
                 { CUDNN_KNOB_TYPE_SPLIT_K_BUF, 9 },
                 { CUDNN_KNOB_TYPE_TILEK, 9 },
                 { CUDNN_KNOB_TYPE_STAGES, 9 },
                 { CUDNN_KNOB_TYPE_REDUCTION_MODE, 9 },
                 { CUDNN_KNOB_TYPE_SPLIT_K_SLC, 9 },
                 { CUDNN_KNOB_TYPE_IDX_MODE, 9 },
                 { CUDNN_KNOB_TYPE_SPECFILT, 9 },
                 { CUDNN_KNOB_TYPE_KERNEL_CFG, 99 },
                 { CUDNN_KNOB_TYPE_WORKSPACE, 9 },
                 { CUDNN_KNOB_TYPE_TILE_CGA_M, 9 },
                 { CUDNN_KNOB_TYPE_TILE_CGA_N, 9 } } },
};

/* The results of the heuristics, best first. */
static const struct {
    cudnnBackendHeurMode_t mode;
    int64_t index, values[MAX_KNOBS];
} results[] = {
    { CUDNN_HEUR_MODE_A, 1, { 5 } },
    { CUDNN_HEUR_MODE_A, 41, { 0, 18, 1, 1, 0, 1, 4, 2, 5, 0, 2, 37, 1, 7, 1 } },
    { CUDNN_HEUR_MODE_A, 10, { 5, 1, 3 } },
    { CUDNN_HEUR_MODE_A, 10, { 8, 0, 4 } },
    { CUDNN_HEUR_MODE_A, 8, { 0 } },
    { CUDNN_HEUR_MODE_A, 4, { 0 } },
    { CUDNN_HEUR_MODE_A, 3, { 2 } },
    { CUDNN_HEUR_MODE_A, 6, { 4 } },
    { CUDNN_HEUR_MODE_A, 7, { 3 } },
    { CUDNN_HEUR_MODE_FALLBACK, 41, { 0, 4, 1, 1, 0, 1, 4, 2, 5, 0, 2, 12, 1, 7, 1 } },
    { CUDNN_HEUR_MODE_FALLBACK, 0, { 0 } },
};

static bool is_mode(const char *mode)
{
    const char *set = getenv("LOCKSTEP_EMULATED_LIBRARY");
    return set && strcmp(set, mode) == 0;
}

static bool is_failing(const engine *e)
{
    char name[32];
    const char *set = getenv("LOCKSTEP_EMULATED_FAILING");
    snprintf(name, sizeof name, "cudnn %d", (int)e->index);
    return set && (strcmp(set, "cudnn") == 0 || strcmp(set, name) == 0);
}

static const engine *engine_of(int64_t index)
{
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (engines[i].index == index) return &engines[i];
    return NULL;
}

/* ---- Devices ---- */

/* A body's `made` is its device's version, 900 for compute capability 9.0. */
cudnnStatus_t cudnn_finalize_device(cudnn_body *body)
{
    int *version = body->made = calloc(1, sizeof *version);
    const char *json = cudnn_data(body, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    const int64_t n = cudnn_count(body, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    if (!version) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    *version = 900;
    if (cudnn_count(body, CUDNN_ATTR_DEVICEPROP_HANDLE) > 0) return CUDNN_STATUS_SUCCESS;
    const char *at = n > 0 && json[n - 1] == '\0' ? strstr(json, "\"deviceVer\":") : NULL;
    if (!at || sscanf(at, "\"deviceVer\":%d", version) != 1)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "neither a handle nor a device's description");
    return CUDNN_STATUS_SUCCESS;
}

/* The version of the device that a graph, or a descriptor made for one, is for; 0: none is known.
 */
static int device_of(const cudnn_body *graph, const cudnn_body *device)
{
    if (device) return *(const int *)device->made;
    return graph && cudnn_count(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE) > 0 ? 900 : 0;
}

/* ---- Engines and configurations ---- */

static bool offers(const engine *e, const cudnn_program *p)
{
    if (p->pattern[0] == 'N') return e->index == 0 || e->refused;
    if (e->f32_only && cudnn_factor_type(p) != CUDNN_DATA_FLOAT) return false;
    return cudnn_check_support(p, e->compiled) == CUDNN_STATUS_SUCCESS;
}

static bool put_notes(cudnn_body *body, const engine *e)
{
    const cudnnBackendBehaviorNote_t behaviour = CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    return cudnn_put(body, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, e->n_notes, e->notes) &&
           cudnn_put(body, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, e->compiled, &behaviour);
}

cudnnStatus_t cudnn_finalize_engine(cudnn_body *body)
{
    const cudnn_body *graph = cudnn_part(body, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0);
    const engine *e = engine_of(cudnn_int(body, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1));
    if (device_of(graph, cudnn_part(body, CUDNN_ATTR_ENGINE_DEVICEPROP, 0)) == 0)
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "an engine for no device");
    if (!e) return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "no engine of that index");
    const cudnnStatus_t status = cudnn_check_support(graph->made, e->compiled);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (!offers(e, graph->made))
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "engine %d is not for this graph",
                          (int)e->index);
    return put_notes(body, e) ? CUDNN_STATUS_SUCCESS
                              : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

/* An engine writes all of the working memory that it asks for. */
static int64_t workspace_of(const engine *e)
{
    enum { SMALL = 1000 };
    return e->huge ? (int64_t)2 << 30 : e->n_knobs > 0 ? SMALL * e->n_knobs : 0;
}

static const engine *engine_of_configuration(const cudnn_body *configuration)
{
    return engine_of(cudnn_int(cudnn_part(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, 0),
                               CUDNN_ATTR_ENGINE_GLOBAL_INDEX, -1));
}

static int knob_type(const cudnn_body *configuration, int64_t i)
{
    return cudnn_enum(cudnn_part(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, i),
                      CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, -1);
}

static int64_t knob_value(const cudnn_body *configuration, int64_t i)
{
    return cudnn_int(cudnn_part(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, i),
                     CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, -1);
}

cudnnStatus_t cudnn_finalize_configuration(cudnn_body *body)
{
    const engine *e = engine_of_configuration(body);
    const int64_t bytes = workspace_of(e);
    const int64_t n = cudnn_count(body, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    for (int64_t i = 0; i < n; i++) {
        int k = 0;
        while (k < e->n_knobs && e->knobs[k].type != knob_type(body, i)) k++;
        if (k == e->n_knobs)
            return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "engine %d has no knob %d", (int)e->index,
                              knob_type(body, i));
        if (knob_value(body, i) < 0 || knob_value(body, i) > e->knobs[k].max)
            return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "knob %d: %lld", knob_type(body, i),
                              (long long)knob_value(body, i));
        for (int64_t j = 0; j < i; j++)
            if (knob_type(body, j) == knob_type(body, i))
                return cudnn_fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "knob %d",
                                  knob_type(body, i));
    }
    return cudnn_put(body, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, 1, &bytes)
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

static bool put_knobs(cudnn_body *configuration, const engine *e, const int64_t *values)
{
    cudnn_body *knobs[MAX_KNOBS];
    for (int i = 0; i < e->n_knobs; i++) {
        knobs[i] = cudnn_body_open(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        if (!knobs[i] ||
            !cudnn_put(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1, &e->knobs[i].type) ||
            !cudnn_put(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1, &values[i])) {
            for (int j = 0; j <= i; j++) cudnn_body_release(knobs[j]);
            return false;
        }
        knobs[i]->finalized = true;
    }
    return cudnn_put(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, e->n_knobs, knobs);
}

/* A finalized configuration of an engine; NULL without memory. graph NULL: it is not known. */
static cudnn_body *make_configuration(const engine *e, const int64_t *values, cudnn_body *graph)
{
    cudnn_body *made = cudnn_body_open(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnn_body *of = cudnn_body_open(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (graph) graph->n_users++;
    if (made && of && put_notes(of, e) &&
        cudnn_put(of, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1, &e->index) &&
        cudnn_put(of, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph != NULL, &graph)) {
        of->finalized = true;
        if (cudnn_put(made, CUDNN_ATTR_ENGINECFG_ENGINE, 1, &of) && put_knobs(made, e, values) &&
            cudnn_finalize_configuration(made) == CUDNN_STATUS_SUCCESS) {
            made->finalized = true;
            return made;
        }
    } else {
        cudnn_body_release(of);
    }
    cudnn_body_release(made);
    return NULL;
}

cudnnStatus_t cudnn_finalize_heuristics(cudnn_body *body)
{
    enum { N_RESULTS = sizeof results / sizeof *results };
    cudnn_body *graph = cudnn_part(body, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    const cudnnBackendHeurMode_t mode =
        (cudnnBackendHeurMode_t)cudnn_enum(body, CUDNN_ATTR_ENGINEHEUR_MODE, 0);
    cudnn_body *made[N_RESULTS];
    int n = 0;
    if (is_mode("broken")) return cudnn_fail(CUDNN_STATUS_INTERNAL_ERROR, "emulated: it is broken");
    if (device_of(graph, cudnn_part(body, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, 0)) == 0)
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH, "heuristics for no device");
    for (int i = 0; i < N_RESULTS; i++) {
        const engine *e = engine_of(results[i].index);
        if (results[i].mode != mode || !offers(e, graph->made)) continue;
        made[n] = make_configuration(e, results[i].values, graph);
        if (!made[n++]) {
            while (n > 0) cudnn_body_release(made[--n]);
            return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
        }
    }
    if (n == 0) return cudnn_check_support(graph->made, true);
    return cudnn_put(body, CUDNN_ATTR_ENGINEHEUR_RESULTS, n, made)
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

/* ---- Plans ---- */

/* The configuration's way to multiply and add. */
static cudnn_arithmetic arithmetic_of(const engine *e, const cudnn_body *configuration,
                                      const cudnn_program *p)
{
    int64_t tile = 0;
    for (int64_t i = 0; i < cudnn_count(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES); i++)
        if (knob_type(configuration, i) == CUDNN_KNOB_TYPE_TILE_SIZE)
            tile = knob_value(configuration, i);
    const bool rounds = e->f32_bits != 0 && cudnn_factor_type(p) == CUDNN_DATA_FLOAT;
    return (cudnn_arithmetic){
        .n_parts = 4 + (int)tile,
        .mantissa_bits = rounds ? e->f32_bits : F32_BITS,
        .repeats = e->n_notes == 0 || e->notes[0] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
        .fails = is_failing(e),
    };
}

static const char begin[] = "{\"emulated\":1,\"device\":%d,\"engine\":%d,\"knobs\":[",
                  end[] = "\"}";

/* All that a plan is, as JSON: its numbers, then the program's bytes. */
static bool put_text(cudnn_body *plan, const cudnn_body *configuration, int device)
{
    const unsigned char *bytes = plan->made;
    const engine *e = engine_of_configuration(configuration);
    const int64_t n = cudnn_count(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
    const size_t size = 256 + 24 * (size_t)n + 2 * sizeof(cudnn_program);
    char *text = malloc(size);
    if (!text) return false;
    size_t length = (size_t)snprintf(text, size, begin, device, (int)e->index);
    for (int k = 0; k < e->n_knobs; k++) {
        long long value = -1;
        for (int64_t i = 0; i < n; i++)
            if (knob_type(configuration, i) == e->knobs[k].type)
                value = knob_value(configuration, i);
        length += (size_t)snprintf(text + length, size - length, "%s%lld", k ? "," : "", value);
    }
    length += (size_t)snprintf(text + length, size - length, "],\"program\":\"");
    for (size_t i = 0; i < sizeof(cudnn_program); i++)
        length += (size_t)snprintf(text + length, size - length, "%02x", bytes[i]);
    length += (size_t)snprintf(text + length, size - length, "%s", end);
    const bool put =
        cudnn_put(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, (int64_t)length, text);
    free(text);
    return put;
}

/* The other way. Sets the plan's configuration; false when the text is no plan. */
static bool read_text(cudnn_body *plan, int device)
{
    int64_t values[MAX_KNOBS], n = cudnn_count(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
    char *text = calloc(1, (size_t)n + 1);
    int of = 0, index = 0, used = 0;
    cudnn_body *configuration = NULL;
    if (!text) return false;
    memcpy(text, cudnn_data(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION), (size_t)n);
    const char *at = text;
    const engine *e = sscanf(at, begin, &of, &index) == 2 ? engine_of(index) : NULL;
    if (e && of == device) {
        at = strchr(at, '[') + 1;
        for (int k = 0; k < e->n_knobs; k++, at += used)
            if (sscanf(at, k ? ",%lld%n" : "%lld%n", (long long *)&values[k], &used) != 1) break;
        const char *program = strstr(at, "\"program\":\"");
        if (program && strlen(program) == strlen("\"program\":\"") + 2 * sizeof(cudnn_program) + 2)
            configuration = make_configuration(e, values, NULL);
        for (size_t i = 0; configuration && i < sizeof(cudnn_program); i++) {
            unsigned byte = 0;
            (void)sscanf(program + strlen("\"program\":\"") + 2 * i, "%2x", &byte);
            ((unsigned char *)plan->made)[i] = (unsigned char)byte;
        }
    }
    free(text);
    return configuration &&
           cudnn_put(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 1, &configuration);
}

static cudnnStatus_t check_engine(const cudnn_body *plan, const engine *e)
{
    if (e->refused) return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "emulated: engine 1 is refused");
    if (!e->compiled) return CUDNN_STATUS_SUCCESS;
    if (cudnn_count(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE) == 0)
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
                          "compiling needs a driver");
    /* This call loads a module. */
    return emulated_forbids() == 0 ? CUDNN_STATUS_SUCCESS
                                   : cudnn_fail(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER,
                                                "compiling while a stream is captured");
}

/* A body's `made` is its program. */
cudnnStatus_t cudnn_finalize_plan(cudnn_body *body)
{
    cudnn_program *p = body->made = calloc(1, sizeof *p);
    if (!p) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    const cudnn_body *device = cudnn_part(body, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, 0);
    const int version = device ? *(const int *)device->made : 900;
    const cudnn_body *configuration = cudnn_part(body, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    const cudnn_body *graph = NULL;
    if (configuration)
        graph = cudnn_part(cudnn_part(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, 0),
                           CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0);
    else if (cudnn_count(body, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) == 0)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan of no configuration");
    else if (!read_text(body, version))
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
                          "no plan's text, or one for another device");
    configuration = cudnn_part(body, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0);
    const engine *e = engine_of_configuration(configuration);
    const cudnnStatus_t status = check_engine(body, e);
    if (status != CUDNN_STATUS_SUCCESS) return status;
    if (graph) memcpy(p, graph->made, sizeof *p);
    p->arithmetic = arithmetic_of(e, configuration, p);
    p->workspace_bytes = workspace_of(e);
    return cudnn_put(body, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1, &p->workspace_bytes) &&
                   put_text(body, configuration, version)
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}
