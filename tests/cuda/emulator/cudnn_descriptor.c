/* cudnn_descriptor.c: cuDNN's functions for descriptors of any type. The statuses are those of
 * cuDNN 9.19 (test_cudnn_contract runs with it, too). */
#include "cudnn_descriptor.h"
#include "driver.h"
#include "library_count.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A cudnnBackendDescriptor_t points to this struct. */
typedef struct handle_to_body {
    cudnn_body *body;
} handle_to_body;

static _Thread_local char last_error[512];

cudnnStatus_t cudnn_fail(cudnnStatus_t status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    if (max_size == 0) return;
    snprintf(message, max_size, "%s", last_error);
    last_error[0] = '\0';
}

static size_t bytes_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR: return 1;
    default: return 4; /* float, and all enumerations */
    }
}

/* ---- Bodies ---- */

static const cudnn_row *row_of(const cudnn_type *type, cudnnBackendAttributeName_t name)
{
    for (const cudnn_row *r = type->rows; r->max_count > 0; r++)
        if (r->name == name) return r;
    return NULL;
}

static const cudnn_values *values_of(const cudnn_body *body, cudnnBackendAttributeName_t name)
{
    static const cudnn_values none;
    const cudnn_row *row = row_of(body->type, name);
    return row ? &body->values[row - body->type->rows] : &none;
}

static void drop_values(const cudnn_row *row, cudnn_values *values)
{
    if (row->type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        for (int64_t i = 0; i < values->count; i++)
            cudnn_body_release(((cudnn_body **)values->data)[i]);
    free(values->data);
    *values = (cudnn_values){ 0 };
}

cudnn_body *cudnn_body_open(cudnnBackendDescriptorType_t type)
{
    cudnn_body *body = calloc(1, sizeof *body);
    if (!body) return NULL;
    body->n_users = 1;
    body->type = cudnn_type_of(type);
    return body;
}

void cudnn_body_release(cudnn_body *body)
{
    if (!body || --body->n_users > 0) return;
    for (int i = 0; body->type->rows[i].max_count > 0; i++)
        drop_values(&body->type->rows[i], &body->values[i]);
    free(body->made);
    free(body);
}

bool cudnn_put(cudnn_body *body, cudnnBackendAttributeName_t name, int64_t count, const void *data)
{
    const cudnn_row *row = row_of(body->type, name);
    cudnn_values *values = &body->values[row - body->type->rows];
    const size_t bytes = (size_t)count * bytes_of(row->type);
    const cudnn_values taken = { count, malloc(bytes + 1) };
    if (!taken.data) {
        if (row->type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
            for (int64_t i = 0; i < count; i++) cudnn_body_release(((cudnn_body *const *)data)[i]);
        return false;
    }
    if (bytes > 0) memcpy(taken.data, data, bytes);
    drop_values(row, values);
    *values = taken;
    return true;
}

int64_t cudnn_count(const cudnn_body *body, cudnnBackendAttributeName_t name)
{
    return values_of(body, name)->count;
}

const void *cudnn_data(const cudnn_body *body, cudnnBackendAttributeName_t name)
{
    return values_of(body, name)->data;
}

int64_t cudnn_int(const cudnn_body *body, cudnnBackendAttributeName_t name, int64_t otherwise)
{
    const cudnn_values *v = values_of(body, name);
    return v->count > 0 ? *(const int64_t *)v->data : otherwise;
}

int cudnn_enum(const cudnn_body *body, cudnnBackendAttributeName_t name, int otherwise)
{
    const cudnn_values *v = values_of(body, name);
    return v->count > 0 ? *(const int *)v->data : otherwise;
}

cudnn_body *cudnn_part(const cudnn_body *body, cudnnBackendAttributeName_t name, int64_t index)
{
    const cudnn_values *v = values_of(body, name);
    return index < v->count ? ((cudnn_body *const *)v->data)[index] : NULL;
}

/* ---- cuDNN's functions ---- */

cudnn_body *cudnn_body_of(cudnnBackendDescriptor_t descriptor)
{
    return descriptor ? ((handle_to_body *)descriptor)->body : NULL;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *descriptor)
{
    if (!descriptor) return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no place for it");
    if (!cudnn_type_of(type))
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "descriptors of type %d", (int)type);
    handle_to_body *made = malloc(sizeof *made);
    cudnn_body *body = made ? cudnn_body_open(type) : NULL;
    if (!body) {
        free(made);
        return cudnn_fail(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no memory");
    }
    made->body = body;
    emulated_library_count(1);
    *descriptor = made;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    if (!descriptor) return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    cudnn_body_release(cudnn_body_of(descriptor));
    free(descriptor);
    emulated_library_count(-1);
    return CUDNN_STATUS_SUCCESS;
}

static bool is_operation(const cudnn_type *type)
{
    return strncmp(type->name, "operation ", strlen("operation ")) == 0;
}

/* Turns descriptors into bodies, held once more. */
static cudnnStatus_t take_bodies(const cudnn_row *row, int64_t count, const void *values,
                                 cudnn_body **out)
{
    for (int64_t i = 0; i < count; i++) {
        cudnn_body *body = cudnn_body_of(((const cudnnBackendDescriptor_t *)values)[i]);
        if (!body)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "attribute %d: no descriptor",
                              (int)row->name);
        if (!body->finalized)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "attribute %d: a %s",
                              (int)row->name, body->type->name);
        if (row->of >= 0 ? (int)body->type->type != row->of : !is_operation(body->type))
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "attribute %d: a %s",
                              (int)row->name, body->type->name);
        out[i] = body;
    }
    for (int64_t i = 0; i < count; i++) out[i]->n_users++;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *values)
{
    enum { MAX_BODIES = 256 };
    cudnn_body *bodies[MAX_BODIES], *body = cudnn_body_of(descriptor);
    if (!body || !values)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "attribute %d: no %s", (int)name,
                          body ? "values" : "descriptor");
    if (body->finalized)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: the %s is finalized", (int)name,
                          body->type->name);
    const cudnn_row *row = row_of(body->type, name);
    if (!row || row->use == CUDNN_COMPUTED)
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "attribute %d of a %s", (int)name,
                          body->type->name);
    if (type != row->type)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d: type %d, not %d",
                          (int)name, (int)type, (int)row->type);
    if (count <= 0 || count > row->max_count)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: %lld elements", (int)name,
                          (long long)count);
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        const cudnnStatus_t status = take_bodies(row, count, values, bodies);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        values = bodies;
    }
    return cudnn_put(body, name, count, values)
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    cudnn_body *body = cudnn_body_of(descriptor);
    if (!body) return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    if (body->finalized)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "the %s is finalized", body->type->name);
    for (int i = 0; body->type->rows[i].max_count > 0; i++)
        if (body->type->rows[i].use == CUDNN_REQUIRED && body->values[i].count == 0)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "%s: attribute %d is not set",
                              body->type->name, (int)body->type->rows[i].name);
    const cudnnStatus_t status =
        body->type->finalize ? body->type->finalize(body) : CUDNN_STATUS_SUCCESS;
    body->finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* The caller made descriptors of the right type, which become others' names. */
static cudnnStatus_t give_bodies(const cudnn_row *row, const cudnn_values *values, int64_t count,
                                 void *out)
{
    handle_to_body **handles = out;
    for (int64_t i = 0; i < count; i++) {
        cudnn_body *body = ((cudnn_body **)values->data)[i];
        if (!handles[i] || handles[i]->body->finalized || handles[i]->body->type != body->type)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: element %lld is no new %s",
                              (int)row->name, (long long)i, body->type->name);
    }
    for (int64_t i = 0; i < count; i++) {
        cudnn_body_release(handles[i]->body);
        handles[i]->body = ((cudnn_body **)values->data)[i];
        handles[i]->body->n_users++;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested,
                                       int64_t *count, void *out)
{
    const cudnn_body *body = cudnn_body_of(descriptor);
    const cudnn_row *row = body ? row_of(body->type, name) : NULL;
    if (!body) return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no descriptor");
    if (!body->finalized)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a %s", body->type->name);
    if (!row)
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "attribute %d of a %s", (int)name,
                          body->type->name);
    if (type != row->type)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "attribute %d: type %d, not %d",
                          (int)name, (int)type, (int)row->type);
    if (requested < 0 || (requested > 0 && !out))
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: no room for %lld", (int)name,
                          (long long)requested);
    const cudnn_values *values = values_of(body, name);
    const int64_t n = values->count < requested ? values->count : requested;
    /* cuDNN reports a configuration without knobs if the requested count is 0. */
    const bool hidden = name == CUDNN_ATTR_ENGINECFG_KNOB_CHOICES && requested == 0;
    if (count) *count = hidden ? 0 : values->count;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) return give_bodies(row, values, n, out);
    if (n > 0) memcpy(out, values->data, (size_t)n * bytes_of(type));
    return CUDNN_STATUS_SUCCESS;
}
