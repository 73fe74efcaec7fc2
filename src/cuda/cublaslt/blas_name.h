/* blas_name.h: names of linear layers' kernels, "cublaslt 66 20,1,0,0,0,5,0,2": cuBLASLt's
 * algorithm, then its settings: tile, split-K, reduction scheme, swizzle, custom option, stages,
 * inner shape, cluster. */
#ifndef LS_CUDA_CUBLASLT_BLAS_NAME_H
#define LS_CUDA_CUBLASLT_BLAS_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first ones have 32 bits, the others 16. A name has at most nine numbers of ten digits. */
enum { LS__BLAS_SETTINGS = 8, LS__BLAS_SETTINGS_32 = 6, LS__BLAS_NAME_SIZE = 128 };

typedef struct ls__blas_name {
    int32_t id;
    uint32_t settings[LS__BLAS_SETTINGS];
} ls__blas_name;

void ls__blas_name_write(const ls__blas_name *name, char *out, size_t size);
/* Accepts exactly the names that write gives: no signs, spaces, leading zeros, or numbers that are
 * too large. */
bool ls__blas_name_read(const char *text, ls__blas_name *out);

#endif
