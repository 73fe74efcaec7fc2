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

void parity_hashed(const char *name, int64_t n, float scale, float shift, float *out)
{
    uint32_t seed = 2166136261u; /* FNV-1a */
    for (; *name; name++) seed = (seed ^ (uint8_t)*name) * 16777619u;
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = (uint32_t)i * 0x9E3779B1u + seed;
        x = (x ^ (x >> 16)) * 0x7FEB352Du; /* lowbias32 */
        x = (x ^ (x >> 15)) * 0x846CA68Bu;
        x ^= x >> 16;
        out[i] = ((float)(x >> 8) * 0x1p-23f - 1.0f) * scale + shift;
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
    float *vector = calloc((size_t)n, sizeof(float));
    const float *x = ls_tensor_data_const(ours);
    ls_tensor *loaded = ls_tensor_file_load(file, name);
    ck_assert(theirs && vector && loaded);
    ck_assert_int_eq(ls_tensor_read(loaded, theirs, (size_t)(n_projections + 1) * sizeof(float)),
                     LS_OK);

    double apart = 0;
    for (int64_t p = 0; p < n_projections; p++) {
        char draw[256];
        snprintf(draw, sizeof(draw), "%s projection %d", vectors, (int)p);
        parity_hashed(draw, n, 1, 0, vector);
        double product = 0;
        for (int64_t i = 0; i < n; i++) product += (double)x[i] * (double)vector[i];
        const double d = product - (double)theirs[p + 1];
        apart += 3 * d * d / (double)n_projections;
    }
    const double relative = sqrt(apart) / (double)theirs[0];
    ck_assert_msg(relative <= tolerance, "%s: %g apart relative to its norm %g, at most %g", name,
                  relative, (double)theirs[0], tolerance);
    ls_tensor_close(&loaded);
    free(theirs);
    free(vector);
    return relative;
}
