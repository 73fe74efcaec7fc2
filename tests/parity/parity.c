/* parity.c: see parity.h. */
#include "parity.h"
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *parity_path(const char *file)
{
    static char path[4096];
    snprintf(path, sizeof(path), "%s/tests/fixtures/%s", LOCKSTEP_SOURCE_DIR, file);
    return path;
}

static uint32_t seed_of(const char *name)
{
    uint32_t seed = 2166136261u; /* FNV-1a */
    for (; *name; name++) seed = (seed ^ (uint8_t)*name) * 16777619u;
    return seed;
}

/* Elements first, first + 1, ... of a name's numbers. Networks have up to 134 million parameters,
 * so the loop is compiled for AVX2, too. */
static inline __attribute__((always_inline)) void hash_range(uint32_t seed, int64_t first,
                                                             int64_t n, float scale, float shift,
                                                             float *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)(first + i) * 0x9E3779B1u + seed;
        x = (x ^ (x >> 16)) * 0x7FEB352Du; /* lowbias32 */
        x = (x ^ (x >> 15)) * 0x846CA68Bu;
        x ^= x >> 16;
        out[i] = ((float)(int32_t)(x >> 8) * 0x1p-23f - 1.0f) * scale + shift;
    }
}

static double dot(const float *a, const float *b, int64_t n)
{
    enum { SUMS = 8 };
    double sums[SUMS] = { 0 }, sum = 0;
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++) sums[k] += (double)a[i + k] * (double)b[i + k];
    for (; i < n; i++) sum += (double)a[i] * (double)b[i];
    for (int k = 0; k < SUMS; k++) sum += sums[k];
    return sum;
}

#if defined(__x86_64__)
#define HAS_AVX2_LOOPS (__builtin_cpu_supports("avx2"))
#define AVX2_LOOPS     __attribute__((target("avx2")))
#else
#define HAS_AVX2_LOOPS 0
#define AVX2_LOOPS
#endif

static void hash_plain(uint32_t seed, int64_t first, int64_t n, float scale, float shift,
                       float *out)
{
    hash_range(seed, first, n, scale, shift, out);
}

AVX2_LOOPS static void hash_avx2(uint32_t seed, int64_t first, int64_t n, float scale, float shift,
                                 float *out)
{
    hash_range(seed, first, n, scale, shift, out);
}

void parity_hashed(const char *name, int64_t n, float scale, float shift, float *out)
{
    (HAS_AVX2_LOOPS ? hash_avx2 : hash_plain)(seed_of(name), 0, n, scale, shift, out);
}

void parity_project(const char *vectors, int64_t n_projections, int64_t n, const float *x,
                    double *products)
{
    enum { CHUNK = 1024 }; /* whose vectors stay in the cache */
    float chunk[CHUNK];
    for (int64_t p = 0; p < n_projections; p++) {
        char draw[256];
        snprintf(draw, sizeof(draw), "%s projection %d", vectors, (int)p);
        const uint32_t seed = seed_of(draw);
        products[p] = 0;
        for (int64_t i = 0; i < n; i += CHUNK) {
            const int64_t count = n - i < CHUNK ? n - i : CHUNK;
            (HAS_AVX2_LOOPS ? hash_avx2 : hash_plain)(seed, i, count, 1, 0, chunk);
            products[p] += dot(x + i, chunk, count);
        }
    }
}

void parity_fill(ls_tensor *tensor, const char *name, float scale, float shift)
{
    ck_assert_msg(tensor != NULL, "no tensor for '%s'", name);
    parity_hashed(name, ls_tensor_element_count(tensor), scale, shift, ls_tensor_data(tensor));
}

double parity_compare(const char *what, int64_t n, const float *a, const float *b, double tolerance)
{
    double apart = 0, norm = 0, worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        ck_assert_msg(isfinite(d), "%s: element %lld is %g, wanted %g", what, (long long)i,
                      (double)a[i], (double)b[i]);
        apart += d * d;
        norm += (double)b[i] * (double)b[i];
        worst = fmax(worst, fabs(d));
        largest = fmax(largest, fabs((double)b[i]));
    }
    const double relative = norm > 0 ? sqrt(apart / norm) : sqrt(apart);
    ck_assert_msg(relative <= tolerance, "%s: %g apart relative to its norm, at most %g", what,
                  relative, tolerance);
    ck_assert_msg(worst <= tolerance * (largest > 0 ? largest : 1),
                  "%s: an element is %g apart, the largest is %g", what, worst, largest);
    return relative;
}

ls_tensor *parity_load(ls_context *ctx, ls_tensor_file *file, const char *name)
{
    ls_tensor *tensor = ls_tensor_file_load(file, name);
    ck_assert_msg(tensor != NULL, "%s", ls_context_message(ctx));
    return tensor;
}

double parity_check(ls_tensor_file *file, const char *name, const ls_tensor *ours, double tolerance)
{
    ls_spec spec;
    ck_assert_msg(ours != NULL, "%s: ours is missing", name);
    ck_assert_msg(ls_tensor_file_find(file, name, &spec), "no '%s' among the fixtures", name);
    char a[LS_SHAPE_TEXT_SIZE], b[LS_SHAPE_TEXT_SIZE];
    ck_assert_msg(ls_shape_equal(&spec.shape, ls_tensor_shape(ours)), "%s: ours is %s, theirs %s",
                  name, ls_shape_text(ls_tensor_shape(ours), a, sizeof(a)),
                  ls_shape_text(&spec.shape, b, sizeof(b)));
    ls_tensor *theirs = ls_tensor_file_load(file, name);
    ck_assert(theirs != NULL);
    const double relative =
        parity_compare(name, ls_tensor_element_count(ours), ls_tensor_data_const(ours),
                       ls_tensor_data_const(theirs), tolerance);
    ls_tensor_close(&theirs);
    return relative;
}

double parity_check_projected(ls_tensor_file *file, const char *name, const char *vectors,
                              const ls_tensor *ours, double tolerance)
{
    ls_spec spec;
    ck_assert_msg(ours != NULL, "%s: ours is missing", name);
    ck_assert_msg(ls_tensor_file_find(file, name, &spec), "no '%s' among the fixtures", name);
    const int64_t n_projections = spec.shape.dims[0] - 1, n = ls_tensor_element_count(ours);
    float *theirs = calloc((size_t)n_projections + 1, sizeof(float));
    double *products = calloc((size_t)n_projections, sizeof(double));
    ls_tensor *loaded = ls_tensor_file_load(file, name);
    ck_assert(theirs && products && loaded);
    ck_assert_int_eq(ls_tensor_read(loaded, theirs, (size_t)(n_projections + 1) * sizeof(float)),
                     LS_OK);
    parity_project(vectors, n_projections, n, ls_tensor_data_const(ours), products);

    double apart = 0;
    for (int64_t p = 0; p < n_projections; p++) {
        const double d = products[p] - (double)theirs[p + 1];
        apart += 3 * d * d / (double)n_projections;
    }
    const double relative = sqrt(apart) / (double)theirs[0];
    ck_assert_msg(relative <= tolerance, "%s: %g apart relative to its norm %g, at most %g", name,
                  relative, (double)theirs[0], tolerance);
    ls_tensor_close(&loaded);
    free(theirs);
    free(products);
    return relative;
}
