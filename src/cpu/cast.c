/* cast.c: conversion between element types. Every value goes through a float (f32, bf16, f16) or an
 * int64 (i64, i32, u8): one loader and one storer per type instead of one function per pair. */
#include "base/half.h"
#include "cpu/memory.h"
#include <math.h>
#include <string.h>

enum { CHUNK = 512, TASK_ELEMENTS = 64 * 1024 };

/* A stretch of values on their way; which member holds them follows from the source's type. */
typedef union values {
    float f[CHUNK];
    int64_t i[CHUNK];
} values;

static bool is_float(ls_dtype dtype)
{
    return dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16;
}

static void load_f32(values *v, const void *src, int64_t n)
{
    memcpy(v->f, src, (size_t)n * sizeof(float));
}

static void load_bf16(values *v, const void *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) v->f[i] = ls__bf16_to_f32(((const uint16_t *)src)[i]);
}

static void load_f16(values *v, const void *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) v->f[i] = ls__f16_to_f32(((const uint16_t *)src)[i]);
}

static void load_i64(values *v, const void *src, int64_t n)
{
    memcpy(v->i, src, (size_t)n * sizeof(int64_t));
}

static void load_i32(values *v, const void *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) v->i[i] = ((const int32_t *)src)[i];
}

static void load_u8(values *v, const void *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) v->i[i] = ((const uint8_t *)src)[i];
}

static void store_f32(void *dst, const values *v, int64_t n)
{
    memcpy(dst, v->f, (size_t)n * sizeof(float));
}

static void store_bf16(void *dst, const values *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = ls__f32_to_bf16(v->f[i]);
}

static void store_f16(void *dst, const values *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = ls__f32_to_f16(v->f[i]);
}

static void store_i64(void *dst, const values *v, int64_t n)
{
    memcpy(dst, v->i, (size_t)n * sizeof(int64_t));
}

static void store_i32(void *dst, const values *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t x = v->i[i];
        ((int32_t *)dst)[i] = (int32_t)(x < INT32_MIN ? INT32_MIN : x > INT32_MAX ? INT32_MAX : x);
    }
}

static void store_u8(void *dst, const values *v, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t x = v->i[i];
        ((uint8_t *)dst)[i] = (uint8_t)(x < 0 ? 0 : x > UINT8_MAX ? UINT8_MAX : x);
    }
}

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
        const float y = (float)v->i[i];
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
    size_t to_bytes, from_bytes;
    unsigned char *dst;
    const unsigned char *src;
    int64_t count;
} cast_job;

static void cast_task(void *arg, int64_t task, int thread)
{
    (void)thread;
    const cast_job *job = arg;
    const int64_t begin = task * TASK_ELEMENTS;
    const int64_t end = begin + TASK_ELEMENTS < job->count ? begin + TASK_ELEMENTS : job->count;
    values v;
    for (int64_t i = begin; i < end; i += CHUNK) {
        const int64_t n = end - i < CHUNK ? end - i : CHUNK;
        types[job->from].load(&v, job->src + (size_t)i * job->from_bytes, n);
        if (is_float(job->from) && !is_float(job->to)) float_to_integer(&v, n);
        if (!is_float(job->from) && is_float(job->to)) integer_to_float(&v, n);
        types[job->to].store(job->dst + (size_t)i * job->to_bytes, &v, n);
    }
}

ls_status ls__cpu_cast(ls__device *device, ls_dtype to, void *dst, ls_dtype from, const void *src,
                       int64_t count)
{
    cast_job job = { .to = to,
                     .from = from,
                     .to_bytes = ls_dtype_bytes(to),
                     .from_bytes = ls_dtype_bytes(from),
                     .dst = dst,
                     .src = src,
                     .count = count };
    const int64_t n_tasks = (count + TASK_ELEMENTS - 1) / TASK_ELEMENTS;
    ls__threads_run(((ls__cpu *)device)->threads, n_tasks, cast_task, &job);
    return LS_OK;
}
