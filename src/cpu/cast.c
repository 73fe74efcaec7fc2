/* cast.c: conversion between element types. Every value is converted to a float (f32, bf16, f16) or
 * an int64 (i64, i32, u8) first: one load and one store function per type, not one per pair. */
#include "arith/half.h"
#include "cpu/memory.h"
#include <math.h>
#include <string.h>

enum { CHUNK = 512, TASK_ELEMENTS = 64 * 1024 };

/* A block of values: floats if the source type is a float type, else integers. */
typedef union values {
    float f[CHUNK];
    int64_t i[CHUNK];
} values;

static bool is_float(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16;
}

static int32_t clamp_i32(int64_t x)
{
    return (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
}

static uint8_t clamp_u8(int64_t x)
{
    return (uint8_t)(x < 0 ? 0 : x > UINT8_MAX ? UINT8_MAX : x);
}

/* load_NAME and store_NAME between memory of TYPE and MEMBER of values. */
#define TYPE_FUNCTIONS(name, type, member, after_load, before_store)                               \
    static void load_##name(values *v, const void *src, int64_t n)                                 \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) v->member[i] = after_load(((const type *)src)[i]);         \
    }                                                                                              \
    static void store_##name(void *dst, const values *v, int64_t n)                                \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) ((type *)dst)[i] = before_store(v->member[i]);             \
    }
TYPE_FUNCTIONS(f32, float, f, , )
TYPE_FUNCTIONS(bf16, uint16_t, f, ls__bf16_to_f32, ls__f32_to_bf16)
TYPE_FUNCTIONS(f16, uint16_t, f, ls__f16_to_f32, ls__f32_to_f16)
TYPE_FUNCTIONS(i64, int64_t, i, , )
TYPE_FUNCTIONS(i32, int32_t, i, , clamp_i32)
TYPE_FUNCTIONS(u8, uint8_t, i, , clamp_u8)

static void float_to_integer(values *v, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) { /* backwards: i[k] covers f[2k] and f[2k+1] */
        const float x = v->f[i];
        int64_t y = 0;
        if (x >= 0x1p63f)
            y = INT64_MAX;
        else if (x < -0x1p63f)
            y = INT64_MIN;
        else if (!isnan(x))
            y = (int64_t)x;
        v->i[i] = y;
    }
}

static void integer_to_float(values *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float y = (float)v->i[i]; /* read before f[i], which overlaps it, is written */
        v->f[i] = y;
    }
}

static const struct {
    void (*load)(values *v, const void *src, int64_t n);
    void (*store)(void *dst, const values *v, int64_t n);
} types[LS_N_DTYPES] = {
    [LS_F32] = { load_f32, store_f32 }, [LS_BF16] = { load_bf16, store_bf16 },
    [LS_F16] = { load_f16, store_f16 }, [LS_I64] = { load_i64, store_i64 },
    [LS_I32] = { load_i32, store_i32 }, [LS_U8] = { load_u8, store_u8 },
};

typedef struct cast_job {
    ls_dtype to, from;
    unsigned char *dst;
    const unsigned char *src;
    int64_t count;
} cast_job;

static void cast_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const cast_job *job = arg;
    const int64_t begin = task * TASK_ELEMENTS;
    const int64_t end = ls__min_i64(begin + TASK_ELEMENTS, job->count);
    values v;
    for (int64_t i = begin; i < end; i += CHUNK) {
        const int64_t n = ls__min_i64(end - i, CHUNK);
        types[job->from].load(&v, job->src + (size_t)i * ls_dtype_bytes(job->from), n);
        if (is_float(job->from) && !is_float(job->to)) float_to_integer(&v, n);
        if (!is_float(job->from) && is_float(job->to)) integer_to_float(&v, n);
        types[job->to].store(job->dst + (size_t)i * ls_dtype_bytes(job->to), &v, n);
    }
}

ls_status ls__cpu_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from, const void *src,
                       int64_t count)
{
    cast_job job = { .to = to, .from = from, .dst = dst, .src = src, .count = count };
    ls__threads_run(((ls__cpu *)device)->threads, ls__divide_up(count, TASK_ELEMENTS), cast_task,
                    &job);
    return LS_OK;
}
