/* cudnn_descriptor.h: descriptors of the emulated cuDNN: attributes that are set, finalized and
 * read. What a descriptor's type requires is in tables (cudnn_types.c). */
#ifndef LS_TEST_EMULATED_CUDNN_DESCRIPTOR_H
#define LS_TEST_EMULATED_CUDNN_DESCRIPTOR_H

#include <cudnn.h>
#include <stdbool.h>

enum { CUDNN_MAX_ROWS = 20, CUDNN_ANY_COUNT = 1 << 20 };

typedef struct cudnn_body cudnn_body;

/* How an attribute may be used. */
typedef enum cudnn_use {
    CUDNN_REQUIRED, /* must be set before the descriptor is finalized */
    CUDNN_OPTIONAL,
    CUDNN_COMPUTED /* can only be read */
} cudnn_use;

typedef struct cudnn_row {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t max_count; /* elements */
    cudnn_use use;
    int of; /* for descriptors: their type, or -1 for any operation */
} cudnn_row;

typedef struct cudnn_type {
    cudnnBackendDescriptorType_t type;
    const char *name;
    cudnn_row rows[CUDNN_MAX_ROWS]; /* ends with max_count 0 */
    /* Checks the attributes together and computes others; NULL: nothing to do. */
    cudnnStatus_t (*finalize)(cudnn_body *body);
} cudnn_type;

typedef struct cudnn_values {
    int64_t count;
    void *data; /* for descriptors: bodies, each held once */
} cudnn_values;

/* Shared by all descriptors that name it. */
struct cudnn_body {
    int n_users;
    const cudnn_type *type;
    bool finalized;
    void *made; /* by finalize; freed with the body */
    cudnn_values values[CUDNN_MAX_ROWS];
};

/* Keeps the message for cudnnGetLastErrorString and returns the status. */
cudnnStatus_t cudnn_fail(cudnnStatus_t status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The type's table; NULL for types that are not emulated. */
const cudnn_type *cudnn_type_of(cudnnBackendDescriptorType_t type);

/* finalize and the functions after it read attributes by name. count is 0 for those not set. */
cudnn_body *cudnn_body_of(cudnnBackendDescriptor_t descriptor);
int64_t cudnn_count(const cudnn_body *body, cudnnBackendAttributeName_t name);
const void *cudnn_data(const cudnn_body *body, cudnnBackendAttributeName_t name);
int64_t cudnn_int(const cudnn_body *body, cudnnBackendAttributeName_t name, int64_t otherwise);
int cudnn_enum(const cudnn_body *body, cudnnBackendAttributeName_t name, int otherwise);
cudnn_body *cudnn_part(const cudnn_body *body, cudnnBackendAttributeName_t name, int64_t index);

/* For finalize: a body of its own, which the caller gives away or releases; an attribute's value.
 * False without memory. cudnn_put takes bodies over, success or not. */
cudnn_body *cudnn_body_open(cudnnBackendDescriptorType_t type);
void cudnn_body_release(cudnn_body *body);
bool cudnn_put(cudnn_body *body, cudnnBackendAttributeName_t name, int64_t count, const void *data);

#endif
