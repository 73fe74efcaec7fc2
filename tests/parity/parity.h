/* parity.h: comparing with what the scripts of tests/reference have written. */
#ifndef LS_TESTS_PARITY_H
#define LS_TESTS_PARITY_H

#include <lockstep/lockstep.h>

/* Path of a file of tests/fixtures; static. */
const char *parity_path(const char *file);

/* n numbers in [-scale, scale) + shift, from a name: the same bits as hashed() of common.py. */
void parity_hashed(const char *name, int64_t n, float scale, float shift, float *out);
/* The same, into a tensor of f32. */
void parity_fill(ls_tensor *tensor, const char *name, float scale, float shift);

/* Fails the test when |a-b| / |b| is beyond the tolerance, or an element's distance is more than
 * the tolerance times the largest element of b. Returns |a-b| / |b|. */
double parity_compare(const char *what, int64_t n, const float *a, const float *b,
                      double tolerance);
/* Against the tensor `name` of a fixture. */
double parity_check(ls_tensor_file *file, const char *name, const ls_tensor *ours,
                    double tolerance);
/* The products of x [n] with vectors that are hashed from "<vectors> projection <i>". */
void parity_project(const char *vectors, int64_t n_projections, int64_t n, const float *x,
                    double *products);
/* Against the norm and the products with hashed vectors that `name` holds instead of a large
 * tensor: with r uniform in [-1,1), the mean of (r . d)^2 is |d|^2 / 3. The vectors are those of
 * parity_project. Fails when |ours - theirs| / |theirs| is beyond the tolerance;
 * returns it, known to within some 15 %. */
double parity_check_projected(ls_tensor_file *file, const char *name, const char *vectors,
                              const ls_tensor *ours, double tolerance);
/* Loads a tensor of a fixture and fails the test when it is not there. */
ls_tensor *parity_load(ls_context *ctx, ls_tensor_file *file, const char *name);

#endif
