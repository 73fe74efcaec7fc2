/* library.h: the functions of NCCL that the module calls. CUDA's toolkit has no nccl.h, so they are
 * declared here: their types have the sizes and values of that header. */
#ifndef LS_CUDA_NCCL_LIBRARY_H
#define LS_CUDA_NCCL_LIBRARY_H

#include <limits.h>
#include <stddef.h>

/* Encoded as NCCL_VERSION_CODE since 2.9. */
#define LS__NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))

/* 2.18 has all fields of ls__nccl_config. PyTorch's first wheels for CUDA 12, those of 2.1, require
 * 2.18.1. */
enum { LS__NCCL_MIN_VERSION = LS__NCCL_VERSION(2, 18, 0) };

/* ncclResult_t; the others are errors. */
enum { LS__NCCL_SUCCESS = 0, LS__NCCL_IN_PROGRESS = 7 };

/* ncclDataType_t: ncclInt8 */
enum { LS__NCCL_BYTE = 0 };

typedef struct ls__nccl_id {
    char bytes[128];
} ls__nccl_id; /* ncclUniqueId */

/* ncclConfig_t of 2.18. Later versions append fields, and read as many as size says. */
typedef struct ls__nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char *net_name;
    int split_share;
} ls__nccl_config;
#define LS__NCCL_CONFIG                                                                            \
    (ls__nccl_config)                                                                              \
    {                                                                                              \
        .size = sizeof(ls__nccl_config), .magic = 0xcafebeef, .version = LS__NCCL_MIN_VERSION,     \
        .blocking = INT_MIN, .cga_cluster_size = INT_MIN, .min_ctas = INT_MIN,                     \
        .max_ctas = INT_MIN, .split_share = INT_MIN                                                \
    }

/* comm: ncclComm_t; stream: cudaStream_t. A result is an ncclResult_t. */
typedef struct ls__nccl {
    int (*get_version)(int *version);
    const char *(*get_error_string)(int result);
    const char *(*get_last_error)(void *comm);
    int (*get_unique_id)(ls__nccl_id *id);
    int (*comm_init_rank_config)(void **comm, int n_ranks, ls__nccl_id id, int rank,
                                 ls__nccl_config *config);
    int (*comm_get_async_error)(void *comm, int *result);
    int (*comm_finalize)(void *comm);
    int (*comm_destroy)(void *comm);
    int (*comm_abort)(void *comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *data, size_t count, int type, int rank, void *comm, void *stream);
    int (*recv)(void *data, size_t count, int type, int rank, void *comm, void *stream);
    int version; /* encoded as by LS__NCCL_VERSION */
} ls__nccl;

/* The first call loads libnccl.so.2, until the process ends, and text is the path of the file.
 * NULL: text is the reason. Any thread. */
const ls__nccl *ls__nccl_load(char *text, size_t size);

#endif
