/* test_cudnn_calls.c: what is said to cuDNN and what is taken from its cache. Functions of
 * cuDNN's names stand in this file: they remember which attributes are set, and list engines as a
 * test wants them. */
#include "../suite.h"
#include "base/alloc.h"
#include "conv_ops.h"
#include "cuda/cudnn/handle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTRIBUTES = 4096, NO_NOTE = -1 };

/* A descriptor: an engine, or what has one in it, knows the engine's index. */
typedef struct descriptor {
    cudnnBackendDescriptorType_t type;
    int64_t index;
} descriptor;

static bool was_set[MAX_ATTRIBUTES];
static int n_engines, note, long_named; /* the engine whose knobs make a long name; -1: none */

static void expect_engines(int n, int with_note, int with_long_name)
{
    memset(was_set, 0, sizeof was_set);
    n_engines = n;
    note = with_note;
    long_named = with_long_name;
}

size_t cudnnGetVersion(void)
{
    return 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    (void)status;
    return "an error";
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    if (size > 0) message[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = (cudnnHandle_t)(void *)&n_engines;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    (void)handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    (void)stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    descriptor *d = calloc(1, sizeof *d);
    d->type = type;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    free(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    (void)d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t to,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    descriptor *d = to;
    (void)type;
    (void)count;
    ck_assert_int_lt(name, MAX_ATTRIBUTES);
    was_set[name] = true;
    if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) d->index = *(const int64_t *)values;
    if (name == CUDNN_ATTR_ENGINECFG_ENGINE || name == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
        d->index = (*(descriptor *const *)values)->index;
    return CUDNN_STATUS_SUCCESS;
}

/* How many values there are; those asked for are written. */
static int64_t get_attribute(const descriptor *d, cudnnBackendAttributeName_t name,
                             int64_t capacity, void *values)
{
    enum { LONG_KNOBS = 20 };
    descriptor *const *made = values;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        for (int i = 0; i < n_engines && i < capacity; i++) made[i]->index = i;
        return n_engines;
    case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES:
        for (int i = 0; i < LONG_KNOBS && i < capacity; i++) made[i]->index = i;
        return d->index == long_named ? LONG_KNOBS : 0;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE:
        *(cudnnBackendKnobType_t *)values = (cudnnBackendKnobType_t)d->index;
        return 1;
    case CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE: *(int64_t *)values = 1000000; return 1;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
    case CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG: made[0]->index = d->index; return 1;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX: *(int64_t *)values = d->index; return 1;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        if (note == NO_NOTE) return 0;
        *(cudnnBackendNumericalNote_t *)values = (cudnnBackendNumericalNote_t)note;
        return 1;
    default: return 0;
    }
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const from,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t capacity,
                                       int64_t *count, void *values)
{
    (void)type;
    *count = get_attribute(from, name, capacity, values);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    (void)handle;
    (void)plan;
    (void)pack;
    return CUDNN_STATUS_SUCCESS;
}

static int n_logged;
static char logged[1024];
static void keep_log(void *user, ls_log_level level, ls_log_category category, const char *message)
{
    (void)category;
    (void)user;
    (void)level;
    n_logged++;
    snprintf(logged, sizeof logged, "%s", message);
}

static ls__cudnn *open_cudnn(ls_context **ctx, const char *device_json)
{
    ls__cudnn *cudnn;
    *ctx = ls_context_open(&(ls_context_config){ .threads = 1, .log = keep_log });
    ck_assert_int_eq(ls__cudnn_open(*ctx, device_json, &cudnn), LS_OK);
    n_logged = 0;
    return cudnn;
}

static void close_cudnn(ls_context **ctx, ls__cudnn *cudnn)
{
    ck_assert_msg(ls_context_status(*ctx) == LS_OK, "%s", ls_context_message(*ctx));
    ls__cudnn_close(&cudnn);
    ls_context_close(ctx);
}

static ls__op conv(ls_dtype dtype, int64_t batch)
{
    const conv_shape shape = { batch, 14, 14, 64, 64, 3, 1, 1, 1 };
    const ls__op op = conv_op(LS__OP_CONV2D, &shape, false);
    return conv_op_in(&op, dtype, false);
}

/* On a GPU graphs and plans have the handle, as all users of cuDNN give it; a description of the
 * device takes its place where there is none. */
START_TEST(handle_or_description)
{
    for (int described = 0; described < 2; described++) {
        const ls__op op = conv(LS_F16, 8);
        ls_context *ctx;
        ls__cudnn *cudnn = open_cudnn(&ctx, described ? "{}" : NULL);
        ls__candidate list[LS__MAX_CANDIDATES];
        ls__kernel *kernel;
        expect_engines(3, NO_NOTE, -1);
        ck_assert_int_eq(ls__cudnn_candidates(cudnn, &op, list, LS__MAX_CANDIDATES), 3);
        ck_assert_int_eq(was_set[CUDNN_ATTR_OPERATIONGRAPH_HANDLE], !described);
        ck_assert_int_eq(was_set[CUDNN_ATTR_ENGINEHEUR_DEVICEPROP], described);
        ck_assert_int_eq(ls__cudnn_kernel_open(cudnn, &op, list[1].name, &kernel), LS_OK);
        ck_assert_int_eq(was_set[CUDNN_ATTR_EXECUTION_PLAN_HANDLE], !described);
        ck_assert_int_eq(was_set[CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP], described);
        ck_assert_int_eq(was_set[CUDNN_ATTR_ENGINE_DEVICEPROP], described);
        ck_assert(kernel->unproven);
        kernel->close(kernel);
        close_cudnn(&ctx, cudnn);
    }
}
END_TEST

/* Transforms cost f32 some bits; those of 16-bit results hide it. */
START_TEST(transforms_have_a_bound)
{
    static const struct {
        int note;
        ls_dtype dtype;
        float bound;
    } cases[] = { { NO_NOTE, LS_F32, 0 },
                  { CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, LS_F32, 0 },
                  { CUDNN_NUMERICAL_NOTE_FFT, LS_F32, 5e-5f },
                  { CUDNN_NUMERICAL_NOTE_WINOGRAD, LS_F32, 5e-5f },
                  { CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, LS_F32, 5e-5f },
                  { CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6, LS_F32, 5e-5f },
                  { CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13, LS_F32, 5e-5f },
                  { CUDNN_NUMERICAL_NOTE_WINOGRAD, LS_F16, 0 } };
    ls_context *ctx;
    ls__cudnn *cudnn = open_cudnn(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls__op op = conv(cases[i].dtype, 8);
        ls__kernel *kernel;
        expect_engines(1, cases[i].note, -1);
        ck_assert_int_eq(ls__cudnn_kernel_open(cudnn, &op, "cudnn 0", &kernel), LS_OK);
        ck_assert_float_eq(kernel->error_bound, cases[i].bound);
        kernel->close(kernel);
    }
    close_cudnn(&ctx, cudnn);
}
END_TEST

/* What finds no place in a list is counted, and the first list that was too short is logged. */
START_TEST(dropped_engines_are_counted)
{
    ls_context *ctx;
    ls__cudnn *cudnn = open_cudnn(&ctx, NULL);
    ls__candidate list[LS__MAX_CANDIDATES];
    for (int i = 0; i < 2; i++) {
        const ls__op op = conv(LS_F16, 8 + i);
        expect_engines(70, NO_NOTE, 3);
        ck_assert_int_eq(ls__cudnn_candidates(cudnn, &op, list, LS__MAX_CANDIDATES), 64);
        ck_assert_int_eq(ls__cudnn_dropped(cudnn), 6 * (i + 1));
    }
    ck_assert_int_eq(n_logged, 1);
    ck_assert_msg(strstr(logged, "at least 6 engine configurations are left out: 64 are listed") !=
                      NULL,
                  "%s", logged);
    close_cudnn(&ctx, cudnn);
}
END_TEST

TEST_PROGRAM(cudnn_calls)
{
    return RUN_SUITE("cudnn_calls", handle_or_description, transforms_have_a_bound,
                     dropped_engines_are_counted);
}
