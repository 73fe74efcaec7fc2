/* cudnn_graph.c: tensors, operations and graphs of the emulated cuDNN, checked as the documentation
 * of cuDNN's graph library says; a graph becomes a program. */
#include "cudnn_program.h"
#include <stdlib.h>
#include <string.h>

/* A kind of operation, and its tensors in the order of a step's roles. */
typedef struct cudnn_kind {
    cudnnBackendDescriptorType_t type;
    char letter;
    int n_roles;
    struct {
        cudnnBackendAttributeName_t name;
        bool is_output;
    } roles[CUDNN_MAX_ROLES];
} cudnn_kind;

static const cudnn_kind kinds[] = {
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
      'F',
      3,
      { { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, false },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, false },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, true } } },
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
      'D',
      3,
      { { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, true },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, false },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, false } } },
    { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
      'W',
      3,
      { { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, false },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, true },
        { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, false } } },
    /* See roles_of for RELU_BWD. */
    { CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
      'P',
      3,
      { { CUDNN_ATTR_OPERATION_POINTWISE_XDESC, false },
        { CUDNN_ATTR_OPERATION_POINTWISE_BDESC, false },
        { CUDNN_ATTR_OPERATION_POINTWISE_YDESC, true } } },
    { CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
      'G',
      3,
      { { CUDNN_ATTR_OPERATION_GENSTATS_XDESC, false },
        { CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, true },
        { CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, true } } },
    { CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
      'B',
      10,
      { { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, true } } },
    { CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR,
      'N',
      15,
      { { CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC, false },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC, true },
        { CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC, true } } },
};
/* Like P, but for gradients: A is dy, B is x, the result is dx. */
static const cudnn_kind backward_kind = { CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                                          'P',
                                          3,
                                          { { CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, false },
                                            { CUDNN_ATTR_OPERATION_POINTWISE_XDESC, false },
                                            { CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, true } } };

static cudnnPointwiseMode_t mode_of(const cudnn_body *operation)
{
    const cudnn_body *function =
        cudnn_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    return (cudnnPointwiseMode_t)cudnn_enum(function, CUDNN_ATTR_POINTWISE_MODE, 0);
}

static const cudnn_kind *kind_of(const cudnn_body *operation)
{
    const cudnnBackendDescriptorType_t type = operation->type->type;
    if (type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
        mode_of(operation) == CUDNN_POINTWISE_RELU_BWD)
        return &backward_kind;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].type == type) return &kinds[i];
    return NULL;
}

/* ---- Tensors ---- */

size_t cudnn_type_bytes(cudnnDataType_t type)
{
    switch (type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_FLOAT: return 4;
    case CUDNN_DATA_INT64: return 8;
    default: return 0;
    }
}

bool cudnn_is_channels_last(const cudnn_tensor *t)
{
    const int64_t *d = t->dims, *s = t->strides;
    return s[1] == 1 && s[3] == d[1] && s[2] == d[3] * s[3] && s[0] == d[2] * s[2];
}

/* Do two elements have the same place? */
static bool overlaps(const cudnn_tensor *t)
{
    int64_t reach = 1; /* places that the dimensions of lesser strides take */
    bool seen[4] = { false };
    for (int n = 0; n < 4; n++) {
        int next = -1;
        for (int d = 0; d < 4; d++)
            if (!seen[d] && t->dims[d] > 1 && (next < 0 || t->strides[d] < t->strides[next]))
                next = d;
        if (next < 0) return false;
        if (t->strides[next] < reach) return true;
        reach = t->strides[next] * t->dims[next];
        seen[next] = true;
    }
    return false;
}

static int64_t count_of(const cudnn_tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static bool is_packed(const cudnn_tensor *t)
{
    int64_t reach = 1;
    for (int d = 0; d < 4; d++) reach += (t->dims[d] - 1) * t->strides[d];
    return reach == count_of(t);
}

cudnnStatus_t cudnn_finalize_tensor(cudnn_body *body)
{
    cudnn_tensor *t = body->made = calloc(1, sizeof *t);
    const int64_t n = cudnn_count(body, CUDNN_ATTR_TENSOR_DIMENSIONS);
    const bool *is_virtual = cudnn_data(body, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    const bool *by_value = cudnn_data(body, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    if (!t) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    t->id = cudnn_int(body, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
    t->type = (cudnnDataType_t)cudnn_enum(body, CUDNN_ATTR_TENSOR_DATA_TYPE, 0);
    t->alignment = cudnn_int(body, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
    t->is_virtual = is_virtual && *is_virtual;
    t->by_value = by_value && *by_value;
    const int64_t bytes = (int64_t)cudnn_type_bytes(t->type);
    if (n != cudnn_count(body, CUDNN_ATTR_TENSOR_STRIDES))
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "a tensor has as many strides as dimensions");
    if (n != 4) return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "%lld dimensions", (long long)n);
    if (bytes == 0) return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "type %d", (int)t->type);
    if (t->alignment <= 0 || t->alignment % bytes != 0 || (t->alignment & (t->alignment - 1)) != 0)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "alignment %lld", (long long)t->alignment);
    memcpy(t->dims, cudnn_data(body, CUDNN_ATTR_TENSOR_DIMENSIONS), sizeof t->dims);
    memcpy(t->strides, cudnn_data(body, CUDNN_ATTR_TENSOR_STRIDES), sizeof t->strides);
    for (int d = 0; d < 4; d++)
        if (t->dims[d] <= 0 || t->strides[d] <= 0)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "dimension %d: %lld, stride %lld", d,
                              (long long)t->dims[d], (long long)t->strides[d]);
    return t->is_virtual && t->by_value
               ? cudnn_fail(CUDNN_STATUS_BAD_PARAM, "a virtual tensor has no value")
               : CUDNN_STATUS_SUCCESS;
}

/* ---- Operations ---- */

cudnnStatus_t cudnn_finalize_convolution(cudnn_body *body)
{
    static const struct {
        cudnnBackendAttributeName_t name;
        int64_t min;
    } lists[] = { { CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0 },
                  { CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0 },
                  { CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1 },
                  { CUDNN_ATTR_CONVOLUTION_DILATIONS, 1 } };
    const int64_t n = cudnn_int(body, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const int64_t *values = cudnn_data(body, lists[i].name);
        if (cudnn_count(body, lists[i].name) != n)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: not %lld elements",
                              (int)lists[i].name, (long long)n);
        for (int64_t d = 0; d < n; d++)
            if (values[d] < lists[i].min)
                return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: %lld", (int)lists[i].name,
                                  (long long)values[d]);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* The tensor of a role; NULL when it is not set. */
static const cudnn_tensor *tensor_at(const cudnn_body *operation, const cudnn_kind *kind, int role)
{
    const cudnn_body *part = cudnn_part(operation, kind->roles[role].name, 0);
    return part ? part->made : NULL;
}

/* NULL: it is no convolution. */
static const cudnn_body *convolution_of(const cudnn_body *operation)
{
    static const cudnnBackendAttributeName_t names[] = {
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC
    };
    const cudnn_body *found = NULL;
    for (int i = 0; i < 3 && !found; i++) found = cudnn_part(operation, names[i], 0);
    return found;
}

static int64_t spatial(const cudnn_body *convolution, cudnnBackendAttributeName_t name, int d)
{
    return ((const int64_t *)cudnn_data(convolution, name))[d];
}

/* What is computed in f32, of factors as they are: nothing else is emulated. */
static cudnnStatus_t check_arithmetic(const cudnn_body *operation)
{
    static const struct {
        cudnnBackendAttributeName_t name;
        float value;
    } factors[] = { { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1 },
                    { CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0 },
                    { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1 },
                    { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0 },
                    { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1 },
                    { CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0 } };
    static const cudnnBackendAttributeName_t types[] = {
        CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_ATTR_POINTWISE_MATH_PREC,
        CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC,
        CUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC
    };
    const cudnn_body *pointwise =
        cudnn_part(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    const cudnn_body *own = convolution_of(operation) ? convolution_of(operation)
                            : pointwise               ? pointwise
                                                      : operation;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (cudnn_enum(own, types[i], CUDNN_DATA_FLOAT) != CUDNN_DATA_FLOAT)
            return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "%s: computing in type %d",
                              operation->type->name, cudnn_enum(own, types[i], 0));
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        const float *value = cudnn_data(operation, factors[i].name);
        if (value && *value != factors[i].value)
            return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "attribute %d: %g", (int)factors[i].name,
                              (double)*value);
    }
    if (cudnn_enum(own, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION) !=
        CUDNN_CROSS_CORRELATION)
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "a convolution with its weights turned");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_convolution(const cudnn_body *operation, const cudnn_kind *kind)
{
    const cudnn_body *c = convolution_of(operation);
    const cudnn_tensor *x = tensor_at(operation, kind, CUDNN_ROLE_X),
                       *w = tensor_at(operation, kind, CUDNN_ROLE_W),
                       *y = tensor_at(operation, kind, CUDNN_ROLE_Y);
    const int64_t *in = x->dims, *of = w->dims, *out = y->dims;
    if (in[0] != out[0] || of[0] != out[1] || in[1] % of[1] != 0 || of[0] % (in[1] / of[1]) != 0)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "batches or channels do not fit");
    if (cudnn_int(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0) != 2)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "a convolution of tensors of 4 dimensions has 2");
    for (int d = 0; d < 2; d++) {
        const int64_t window =
            (of[2 + d] - 1) * spatial(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, d) + 1;
        const int64_t slack = in[2 + d] + spatial(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, d) +
                              spatial(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, d) - window;
        if (slack < 0 ||
            out[2 + d] != slack / spatial(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, d) + 1)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "spatial dimension %d: %lld", d,
                              (long long)out[2 + d]);
    }
    if (overlaps(x) || overlaps(y) || !is_packed(w))
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "strides overlap, or weights have gaps");
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t check_pointwise(const cudnn_body *operation, const cudnn_kind *kind)
{
    const cudnnPointwiseMode_t mode = mode_of(operation);
    const cudnn_tensor *a = tensor_at(operation, kind, CUDNN_ROLE_A),
                       *b = tensor_at(operation, kind, CUDNN_ROLE_B),
                       *y = tensor_at(operation, kind, CUDNN_ROLE_RESULT);
    const bool has_b = mode != CUDNN_POINTWISE_RELU_FWD;
    if (mode != CUDNN_POINTWISE_ADD && mode != CUDNN_POINTWISE_SUB && mode != CUDNN_POINTWISE_MUL &&
        mode != CUDNN_POINTWISE_RELU_FWD && mode != CUDNN_POINTWISE_RELU_BWD)
        return cudnn_fail(CUDNN_STATUS_NOT_SUPPORTED, "pointwise mode %d", (int)mode);
    if (!a || !y || (b != NULL) != has_b)
        return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "pointwise mode %d: its tensors", (int)mode);
    for (int d = 0; d < 4; d++)
        if (a->dims[d] != y->dims[d] || (b && b->dims[d] != y->dims[d] && b->dims[d] != 1))
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "pointwise: dimension %d", d);
    return CUDNN_STATUS_SUCCESS;
}

/* Are the roles from `first` on vectors of as many channels, all but those by value? */
static cudnnStatus_t check_vectors(const cudnn_body *operation, const cudnn_kind *kind, int first,
                                   int64_t channels)
{
    for (int r = first; r < kind->n_roles; r++) {
        const cudnn_tensor *t = tensor_at(operation, kind, r);
        if (t->by_value) continue;
        if (t->dims[1] != channels || count_of(t) != channels)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: not a vector of %lld",
                              (int)kind->roles[r].name, (long long)channels);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ACCUM_COUNT, EPSILON and EXP_AVERAGE_FACTOR are numbers by value. */
static cudnnStatus_t check_numbers(const cudnn_body *operation, const cudnn_kind *kind)
{
    enum { FIRST = 6, LAST = 8 };
    for (int r = FIRST; r <= LAST; r++) {
        const cudnn_tensor *t = tensor_at(operation, kind, r);
        const cudnnDataType_t type = r == FIRST ? CUDNN_DATA_INT64 : CUDNN_DATA_FLOAT;
        if (!t->by_value || count_of(t) != 1 || t->type != type)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "attribute %d: not a number by value",
                              (int)kind->roles[r].name);
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnn_finalize_operation(cudnn_body *body)
{
    const cudnn_kind *kind = kind_of(body);
    const cudnnStatus_t arithmetic = check_arithmetic(body);
    if (arithmetic != CUDNN_STATUS_SUCCESS) return arithmetic;
    switch (kind->letter) {
    case 'P': return check_pointwise(body, kind);
    case 'G':
    case 'B': {
        const int n_activations = kind->letter == 'G' ? 1 : 2;
        return check_vectors(body, kind, n_activations, tensor_at(body, kind, 0)->dims[1]);
    }
    case 'N': {
        const cudnnStatus_t status = check_numbers(body, kind);
        if (status != CUDNN_STATUS_SUCCESS) return status;
        return check_vectors(body, kind, 0, tensor_at(body, kind, 0)->dims[1]);
    }
    default: return check_convolution(body, kind);
    }
}

/* ---- Graphs ---- */

static bool are_equal(const cudnn_tensor *a, const cudnn_tensor *b)
{
    return a->id == b->id && a->alignment == b->alignment && a->type == b->type &&
           a->is_virtual == b->is_virtual && a->by_value == b->by_value &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           memcmp(a->strides, b->strides, sizeof a->strides) == 0 && a->memory == b->memory &&
           a->value.i == b->value.i;
}

/* The place of a tensor in the program, where it is put when it is new. -1 when there is another
 * tensor of its id, or no room. */
static int place_tensor(cudnn_program *p, const cudnn_tensor *t)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].id == t->id) return are_equal(&p->tensors[i], t) ? i : -1;
    if (p->n_tensors == CUDNN_MAX_TENSORS) return -1;
    p->tensors[p->n_tensors] = *t;
    return p->n_tensors++;
}

static void take_convolution(const cudnn_body *operation, cudnn_step *step)
{
    const cudnn_body *c = convolution_of(operation);
    for (int d = 0; d < 2; d++) {
        step->padding[d] = spatial(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, d);
        step->stride[d] = spatial(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, d);
        step->dilation[d] = spatial(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, d);
    }
}

/* A pointwise operation's in patterns. */
static char letter_of(cudnnPointwiseMode_t mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD: return '+';
    case CUDNN_POINTWISE_SUB: return '-';
    case CUDNN_POINTWISE_MUL: return '*';
    case CUDNN_POINTWISE_RELU_FWD: return 'R';
    default: return 'r';
    }
}

/* A tensor is written once, before it is read, and a virtual one is written at all. */
static cudnnStatus_t add_operation(cudnn_program *p, const cudnn_body *operation,
                                   bool written[CUDNN_MAX_TENSORS], bool read[CUDNN_MAX_TENSORS])
{
    const cudnn_kind *kind = kind_of(operation);
    cudnn_step *step = &p->steps[p->n_steps];
    p->pattern[p->n_steps++] = step->letter = kind->letter;
    if (kind->letter == 'P') {
        step->mode = mode_of(operation);
        p->pattern[p->n_steps - 1] = letter_of(step->mode);
    }
    if (strchr("FDW", kind->letter)) take_convolution(operation, step);
    for (int r = 0; r < CUDNN_MAX_ROLES; r++) {
        step->tensors[r] = -1;
        const cudnn_tensor *t = r < kind->n_roles ? tensor_at(operation, kind, r) : NULL;
        if (!t) continue;
        const int at = step->tensors[r] = place_tensor(p, t);
        if (at < 0)
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "unique id %lld has two tensors",
                              (long long)t->id);
        const bool output = kind->roles[r].is_output;
        if (output && (written[at] || read[at] || t->by_value))
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor %lld can't be written here",
                              (long long)t->id);
        if (!output && t->is_virtual && !written[at])
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "virtual tensor %lld is not written",
                              (long long)t->id);
        written[at] |= output;
        read[at] |= !output;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnn_finalize_graph(cudnn_body *body)
{
    bool written[CUDNN_MAX_TENSORS] = { false }, read[CUDNN_MAX_TENSORS] = { false };
    cudnn_program *p = body->made = calloc(1, sizeof *p);
    const int64_t n = cudnn_count(body, CUDNN_ATTR_OPERATIONGRAPH_OPS);
    if (!p) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    for (int64_t i = 0; i < n; i++) {
        const cudnnStatus_t status =
            add_operation(p, cudnn_part(body, CUDNN_ATTR_OPERATIONGRAPH_OPS, i), written, read);
        if (status != CUDNN_STATUS_SUCCESS) return status;
    }
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].is_virtual && !read[i])
            return cudnn_fail(CUDNN_STATUS_BAD_PARAM, "virtual tensor %lld is not read",
                              (long long)p->tensors[i].id);
    return CUDNN_STATUS_SUCCESS;
}
