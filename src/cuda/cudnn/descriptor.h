/* descriptor.h: rows of calls to cuDNN's backend API. The first failure is kept and makes the calls
 * that follow do nothing, so that a row reads as a list and is asked once, at its end. */
#ifndef LS_CUDA_CUDNN_DESCRIPTOR_H
#define LS_CUDA_CUDNN_DESCRIPTOR_H

#include <cudnn.h>
#include <lockstep/context.h>

enum { LS__CUDNN_MESSAGE_SIZE = 512 };
typedef struct ls__cudnn_calls {
    cudnnStatus_t status;
    char message[LS__CUDNN_MESSAGE_SIZE]; /* "finalizing the graph: ...", cuDNN's own words */
} ls__cudnn_calls;

/* Keeps a status other than success, together with cuDNN's message of this thread. */
void ls__cudnn_check(ls__cudnn_calls *calls, cudnnStatus_t status, const char *what);

/* NULL after a failure. */
cudnnBackendDescriptor_t ls__cudnn_make(ls__cudnn_calls *calls, cudnnBackendDescriptorType_t type);
void ls__cudnn_set(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                   cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t count, const void *values);
/* The usual kinds of values. */
void ls__cudnn_set_descriptor(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                              cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void ls__cudnn_set_int64(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name, int64_t value);
void ls__cudnn_set_type(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, cudnnDataType_t value);
/* Returns how many values came, at most count; 0 after a failure. values of descriptors are made by
 * the caller beforehand. */
int64_t ls__cudnn_get(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, void *values);
/* How many there are. */
int64_t ls__cudnn_count(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type);
void ls__cudnn_finalize(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                        const char *what);
/* Accepts NULL; sets it to NULL. */
void ls__cudnn_release(cudnnBackendDescriptor_t *descriptor);

/* Is the failure that cuDNN can't do it, rather than something gone wrong? */
bool ls__cudnn_is_unsupported(const ls__cudnn_calls *calls);
/* After calls with what somebody else has written, a name or a text: that cuDNN finds fault with it
 * means that it can't do it, not that something of ours is broken. */
void ls__cudnn_forgive_input(ls__cudnn_calls *calls);
/* LS_OK, or keeps the failure in the context as "WHAT: MESSAGE". */
ls_status ls__cudnn_report(ls_context *ctx, const ls__cudnn_calls *calls, const char *what);

#endif
