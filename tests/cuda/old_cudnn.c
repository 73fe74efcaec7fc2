/* old_cudnn.c: a libcudnn that is too old, or with INCOMPLETE one that lacks functions. */
#include <stddef.h>

size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void)
{
    return 90100;
}

#ifndef INCOMPLETE
#define FUNCTION(name)                                                                             \
    void name(void);                                                                               \
    void name(void)                                                                                \
    {                                                                                              \
    }
FUNCTION(cudnnGetErrorString)
FUNCTION(cudnnGetLastErrorString)
FUNCTION(cudnnCreate)
FUNCTION(cudnnDestroy)
FUNCTION(cudnnSetStream)
FUNCTION(cudnnBackendCreateDescriptor)
FUNCTION(cudnnBackendDestroyDescriptor)
FUNCTION(cudnnBackendFinalize)
FUNCTION(cudnnBackendSetAttribute)
FUNCTION(cudnnBackendGetAttribute)
FUNCTION(cudnnBackendExecute)
#endif
