/* descriptor.h: sequences of calls to cuDNN's backend API. The first failure is kept, and the calls
 * after it do nothing. So the status is checked once, at the end of a sequence. */
#ifndef LS_CUDA_CUDNN_DESCRIPTOR_H
#define LS_CUDA_CUDNN_DESCRIPTOR_H

#include <cudnn.h>
#include <lockstep/context.h>

enum { LS__CUDNN_MESSAGE_SIZE = 512 };
typedef struct ls__cudnn_calls {
    cudnnStatus_t status;
    char message[LS__CUDNN_MESSAGE_SIZE]; /* "the graph: ...", with cuDNN's message */
} ls__cudnn_calls;

/* Keeps a failure, with cuDNN's last message in this thread. */
void ls__cudnn_check(ls__cudnn_calls *calls, cudnnStatus_t status, const char *what);

/* NULL after a failure. */
cudnnBackendDescriptor_t ls__cudnn_make(ls__cudnn_calls *calls, cudnnBackendDescriptorType_t type);
void ls__cudnn_set(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                   cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                   int64_t count, const void *values);
/* Values of common types. */
void ls__cudnn_set_descriptor(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                              cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value);
void ls__cudnn_set_int64(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                         cudnnBackendAttributeName_t name, int64_t value);
void ls__cudnn_set_type(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, cudnnDataType_t value);
/* Returns the number of values read, at most count; with count 0 and values NULL, the number of
 * values that the attribute has; 0 after a failure. The caller creates descriptors in `values`
 * beforehand. */
int64_t ls__cudnn_get(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                      cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      int64_t count, void *values);
void ls__cudnn_finalize(ls__cudnn_calls *calls, cudnnBackendDescriptor_t descriptor,
                        const char *what);
/* Accepts NULL; sets it to NULL. */
void ls__cudnn_release(cudnnBackendDescriptor_t *descriptor);

/* Did cuDNN report the request as unsupported? */
bool ls__cudnn_is_unsupported(const ls__cudnn_calls *calls);
/* Turns a bad parameter into an unsupported request. For calls with a name or a text from a file,
 * where a bad parameter is not an error of ours. */
void ls__cudnn_input_unsupported(ls__cudnn_calls *calls);
/* LS_OK, or the failure, kept in the context as "WHAT: cuDNN: MESSAGE". */
ls_status ls__cudnn_report(ls_context *ctx, const ls__cudnn_calls *calls, const char *what);

#endif
