/* cublaslt.h: what the emulated cuBLASLt has in its opaque descriptors. */
#ifndef LS_TEST_EMULATED_CUBLASLT_H
#define LS_TEST_EMULATED_CUBLASLT_H

#include <cublasLt.h>
#include <stdbool.h>

typedef struct emulated_layout {
    cudaDataType_t type;
    int64_t rows, cols, ld; /* column by column */
} emulated_layout;

typedef struct emulated_matmul {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    int32_t transposed[2]; /* A, B */
    uint32_t epilogue;
    const void *bias;
} emulated_matmul;

typedef struct emulated_preference {
    uint64_t workspace;
    uint32_t reductions, alignment[4]; /* A, B, C, D */
} emulated_preference;

typedef struct emulated_algorithm {
    int32_t id;
    uint32_t tile, split_k, reduction, swizzle, custom, stages;
    uint16_t inner, cluster;
    uint32_t alignment; /* 0: 16 */
    uint32_t revision;  /* which no setting says */
    size_t workspace;
} emulated_algorithm;

_Static_assert(sizeof(emulated_layout) <= sizeof(cublasLtMatrixLayoutOpaque_t) &&
                   sizeof(emulated_matmul) <= sizeof(cublasLtMatmulDescOpaque_t) &&
                   sizeof(emulated_preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t) &&
                   sizeof(emulated_algorithm) <= sizeof(cublasLtMatmulAlgo_t),
               "they lie in the opaque structs");

/* Success, or why D = op(A) op(B) can't be. */
cublasStatus_t emulated_check_product(const emulated_matmul *m, const emulated_layout *a,
                                      const emulated_layout *b, const emulated_layout *c,
                                      const emulated_layout *d);
const emulated_algorithm *emulated_find_algorithm(const cublasLtMatmulAlgo_t *algo);

#endif
