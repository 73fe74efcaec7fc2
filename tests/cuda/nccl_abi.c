/* nccl_abi.c: the declarations of src/cuda/nccl/library.h against NCCL's header. Compiling it is
 * the test. */
#include "cuda/nccl/library.h"
#include <nccl.h>

/* The field lies where ours lies. */
#define SAME(field, ours)                                                                          \
    _Static_assert(offsetof(ncclConfig_t, field) == offsetof(ls__nccl_config, ours) &&             \
                       sizeof(((ncclConfig_t *)0)->field) == sizeof(((ls__nccl_config *)0)->ours), \
                   #field)
SAME(size, size);
SAME(magic, magic);
SAME(version, version);
SAME(blocking, blocking);
SAME(cgaClusterSize, cga_cluster_size);
SAME(minCTAs, min_ctas);
SAME(maxCTAs, max_ctas);
SAME(netName, net_name);
SAME(splitShare, split_share);
_Static_assert(sizeof(ncclUniqueId) == sizeof(ls__nccl_id), "ncclUniqueId");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int), "int");
_Static_assert((int)ncclSuccess == LS__NCCL_SUCCESS, "ncclSuccess");
_Static_assert((int)ncclInProgress == LS__NCCL_IN_PROGRESS, "ncclInProgress");
_Static_assert((int)ncclInt8 == LS__NCCL_BYTE, "ncclInt8");
_Static_assert(NCCL_VERSION(2, 18, 0) == LS__NCCL_MIN_VERSION, "NCCL_VERSION");
_Static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN, "NCCL_CONFIG_UNDEF_INT");
