/* onnx_model.c: see onnx_model.h. Protocol buffers have at most 2^31 - 1 bytes.
 * https://protobuf.dev/programming-guides/encoding/ */
#include "io/onnx/onnx_model.h"

#include "base/error.h"
#include "base/file.h"
#include <string.h>

static const uint64_t max_bytes = INT32_MAX;

/* Values of the ONNX specification. */
enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_INTS = 7 };
static const int element_types[LS_N_DTYPES] = {
    [LS_F32] = 1, [LS_U8] = 2, [LS_I32] = 6, [LS_I64] = 7, [LS_F16] = 10, [LS_BF16] = 16
};

/* The lowest version of the format that has an operator set. */
static int64_t format_version(int64_t opset)
{
    static const int64_t first_opset[] = { 17, 19, 21, 23, 24, 25 };
    int64_t version = 7;
    for (size_t i = 0; i < sizeof(first_opset) / sizeof(first_opset[0]); i++)
        version += opset >= first_opset[i];
    return version;
}

void ls__onnx_open(ls__onnx_model *m, ls_context *ctx, int64_t opset)
{
    *m = (ls__onnx_model){ .ctx = ctx };
    ls__bump_open(&m->bump, ctx);
    ls__onnx_pb__model__init(&m->model);
    ls__onnx_pb__graph__init(&m->graph);
    ls__onnx_pb__operator_set__init(&m->opset);
    m->opset.domain = "";
    m->opset.has_version = true;
    m->opset.version = opset;
    m->opsets[0] = &m->opset;
    m->graph.name = "lockstep";
    m->model.has_ir_version = true;
    m->model.ir_version = format_version(opset);
    m->model.producer_name = "lockstep";
    m->model.producer_version = (char *)ls_version();
    m->model.graph = &m->graph;
    m->model.n_opset_import = 1;
    m->model.opset_import = m->opsets;
}

void ls__onnx_close(ls__onnx_model *m)
{
    ls__bump_close(&m->bump);
}

/* ---- Memory ---- */

static void *allocate(ls__onnx_model *m, size_t bytes)
{
    void *memory = m->status == LS_OK ? ls__bump_alloc(&m->bump, bytes) : NULL;
    if (!memory && m->status == LS_OK) m->status = ls__fail_memory(m->ctx, "ONNX model", bytes);
    return memory;
}

/* Appends a pointer to a list of the model. */
static void append(ls__onnx_model *m, void *list, size_t *n, size_t *capacity, const void *item)
{
    void *old;
    memcpy(&old, list, sizeof(old));
    const void **items =
        m->status == LS_OK ? ls__bump_room(&m->bump, old, *n, 1, capacity, sizeof(*items)) : NULL;
    if (!items) {
        if (m->status == LS_OK) m->status = ls__fail_memory(m->ctx, "ONNX model", 0);
        return;
    }
    items[(*n)++] = item;
    memcpy(list, &items, sizeof(items));
}

/* ---- Names ---- */

static bool has_name(const ls__onnx_model *m, const char *name)
{
    for (size_t i = 0; i < m->n_names; i++)
        if (strcmp(m->names[i], name) == 0) return true;
    return false;
}

const char *ls__onnx_name(ls__onnx_model *m, const char *wanted)
{
    if (m->status != LS_OK) return NULL;
    const char *name = wanted;
    for (int i = 2; name && has_name(m, name); i++)
        name = ls__bump_format(&m->bump, "%s/%d", wanted, i);
    if (!name) {
        m->status = ls__fail_memory(m->ctx, wanted, 0);
        return NULL;
    }
    append(m, &m->names, &m->n_names, &m->name_capacity, name);
    return name;
}

void ls__onnx_rename(ls__onnx_model *m, const char *from, const char *to)
{
    for (size_t i = 0; i < m->graph.n_node; i++) {
        Ls__OnnxPb__Node *node = m->graph.node[i];
        for (size_t j = 0; j < node->n_input; j++)
            if (strcmp(node->input[j], from) == 0) node->input[j] = (char *)to;
        for (size_t j = 0; j < node->n_output; j++)
            if (strcmp(node->output[j], from) == 0) node->output[j] = (char *)to;
    }
}

/* ---- Values ---- */

static Ls__OnnxPb__ValueInfo *value_info(ls__onnx_model *m, const char *name, const ls_spec *spec,
                                         bool is_batch)
{
    Ls__OnnxPb__ValueInfo *info = allocate(m, sizeof(*info));
    Ls__OnnxPb__Type *type = allocate(m, sizeof(*type));
    Ls__OnnxPb__TensorType *tensor = allocate(m, sizeof(*tensor));
    Ls__OnnxPb__Shape *shape = allocate(m, sizeof(*shape));
    if (m->status != LS_OK) return NULL;
    ls__onnx_pb__value_info__init(info);
    ls__onnx_pb__type__init(type);
    ls__onnx_pb__tensor_type__init(tensor);
    ls__onnx_pb__shape__init(shape);
    info->name = (char *)name;
    info->type = type;
    type->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = element_types[spec->dtype];
    tensor->shape = shape;
    size_t capacity = 0;
    for (int i = 0; i < spec->shape.n_dims; i++) {
        Ls__OnnxPb__Dimension *dim = allocate(m, sizeof(*dim));
        if (!dim) return NULL;
        ls__onnx_pb__dimension__init(dim);
        if (i == 0 && is_batch) {
            dim->dim_param = "N";
        } else {
            dim->has_dim_value = true;
            dim->dim_value = spec->shape.dims[i];
        }
        append(m, &shape->dim, &shape->n_dim, &capacity, dim);
    }
    return info;
}

void ls__onnx_input(ls__onnx_model *m, const char *name, const ls_spec *spec, bool is_batch)
{
    append(m, &m->graph.input, &m->graph.n_input, &m->input_capacity,
           value_info(m, name, spec, is_batch));
}

void ls__onnx_output(ls__onnx_model *m, const char *name, const ls_spec *spec, bool is_batch)
{
    append(m, &m->graph.output, &m->graph.n_output, &m->output_capacity,
           value_info(m, name, spec, is_batch));
}

/* ---- Nodes ---- */

Ls__OnnxPb__Node *ls__onnx_node(ls__onnx_model *m, const char *op, const char *name, int n_inputs,
                                const char *const *inputs, const char **value)
{
    *value = ls__onnx_name(m, name);
    Ls__OnnxPb__Node *node = allocate(m, sizeof(*node));
    if (!node) return NULL;
    ls__onnx_pb__node__init(node);
    node->name = (char *)*value;
    node->op_type = (char *)op;
    size_t input_capacity = 0, output_capacity = 0;
    for (int i = 0; i < n_inputs; i++)
        append(m, &node->input, &node->n_input, &input_capacity, inputs[i]);
    append(m, &node->output, &node->n_output, &output_capacity, *value);
    append(m, &m->graph.node, &m->graph.n_node, &m->node_capacity, node);
    return m->status == LS_OK ? node : NULL;
}

static Ls__OnnxPb__Attribute *put_attribute(ls__onnx_model *m, Ls__OnnxPb__Node *node,
                                            const char *name, int type)
{
    enum { MAX_ATTRIBUTES = 8 };
    Ls__OnnxPb__Attribute *attribute = allocate(m, sizeof(*attribute));
    if (node && !node->attribute) node->attribute = allocate(m, MAX_ATTRIBUTES * sizeof(attribute));
    if (!node || m->status != LS_OK || node->n_attribute == MAX_ATTRIBUTES) return NULL;
    ls__onnx_pb__attribute__init(attribute);
    attribute->name = (char *)name;
    attribute->has_type = true;
    attribute->type = type;
    node->attribute[node->n_attribute++] = attribute;
    return attribute;
}

void ls__onnx_put_int(ls__onnx_model *m, Ls__OnnxPb__Node *node, const char *name, int64_t value)
{
    Ls__OnnxPb__Attribute *attribute = put_attribute(m, node, name, ATTRIBUTE_INT);
    if (!attribute) return;
    attribute->has_i = true;
    attribute->i = value;
}

void ls__onnx_put_ints(ls__onnx_model *m, Ls__OnnxPb__Node *node, const char *name, int n,
                       const int64_t *values)
{
    Ls__OnnxPb__Attribute *attribute = put_attribute(m, node, name, ATTRIBUTE_INTS);
    int64_t *copy = allocate(m, (size_t)n * sizeof(*copy));
    if (!attribute || !copy) return;
    attribute->ints = memcpy(copy, values, (size_t)n * sizeof(*copy));
    attribute->n_ints = (size_t)n;
}

void ls__onnx_put_float(ls__onnx_model *m, Ls__OnnxPb__Node *node, const char *name, float value)
{
    Ls__OnnxPb__Attribute *attribute = put_attribute(m, node, name, ATTRIBUTE_FLOAT);
    if (!attribute) return;
    attribute->has_f = true;
    attribute->f = value;
}

/* ---- Initializers ---- */

static ls_status fail_size(ls_context *ctx, uint64_t bytes)
{
    return ls__fail(ctx, LS_ERR_UNSUPPORTED,
                    "ONNX model: %llu bytes or more; protocol buffers have at most %llu",
                    (unsigned long long)bytes, (unsigned long long)max_bytes);
}

const char *ls__onnx_initializer(ls__onnx_model *m, const char *name, ls_dtype dtype,
                                 const ls_shape *shape, void **elements)
{
    const uint64_t bytes = (uint64_t)ls_shape_element_count(shape) * ls_dtype_bytes(dtype);
    *elements = NULL;
    if (m->status == LS_OK && (bytes > max_bytes || m->weight_bytes + bytes > max_bytes))
        m->status = fail_size(m->ctx, m->weight_bytes + bytes);
    const char *unique = ls__onnx_name(m, name);
    Ls__OnnxPb__Tensor *tensor = allocate(m, sizeof(*tensor));
    int64_t *dims = allocate(m, sizeof(shape->dims));
    *elements = allocate(m, bytes);
    if (m->status != LS_OK) return NULL;
    m->weight_bytes += bytes;
    ls__onnx_pb__tensor__init(tensor);
    tensor->name = (char *)unique;
    tensor->has_data_type = true;
    tensor->data_type = element_types[dtype];
    tensor->dims = memcpy(dims, shape->dims, sizeof(shape->dims));
    tensor->n_dims = (size_t)shape->n_dims;
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){ bytes, *elements };
    append(m, &m->graph.initializer, &m->graph.n_initializer, &m->initializer_capacity, tensor);
    return unique;
}

const char *ls__onnx_int64s(ls__onnx_model *m, const char *name, int n, const int64_t *values)
{
    void *elements;
    const char *unique = ls__onnx_initializer(m, name, LS_I64, &LS_SHAPE(n), &elements);
    if (elements) memcpy(elements, values, (size_t)n * sizeof(*values));
    return unique;
}

void ls__onnx_metadata(ls__onnx_model *m, const char *key, const char *value)
{
    Ls__OnnxPb__Pair *pair = allocate(m, sizeof(*pair));
    if (!pair) return;
    ls__onnx_pb__pair__init(pair);
    pair->key = (char *)key;
    pair->value = (char *)value;
    append(m, &m->model.metadata_props, &m->model.n_metadata_props, &m->pair_capacity, pair);
}

/* ---- Writing ---- */

enum { BUFFER_BYTES = 1 << 16 };

typedef struct file_buffer {
    ProtobufCBuffer base; /* first: protobuf-c passes its address */
    ls__atomic_file *file;
    ls_status status;
    size_t n;
    uint8_t bytes[BUFFER_BYTES];
} file_buffer;

static void flush(file_buffer *b)
{
    if (b->status == LS_OK) b->status = ls__atomic_file_write(b->file, b->bytes, b->n);
    b->n = 0;
}

static void append_bytes(ProtobufCBuffer *base, size_t n, const uint8_t *bytes)
{
    file_buffer *b = (file_buffer *)base;
    if (b->n + n > BUFFER_BYTES) flush(b);
    if (n > BUFFER_BYTES) {
        if (b->status == LS_OK) b->status = ls__atomic_file_write(b->file, bytes, n);
        return;
    }
    if (n > 0) memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

ls_status ls__onnx_write(ls_context *ctx, const char *path, const Ls__OnnxPb__Model *model)
{
    const size_t bytes = ls__onnx_pb__model__get_packed_size(model);
    if (bytes > max_bytes) return fail_size(ctx, bytes);
    file_buffer buffer = { .base.append = append_bytes };
    LS_TRY(ls__atomic_file_open(ctx, path, &buffer.file));
    ls__onnx_pb__model__pack_to_buffer(model, &buffer.base);
    flush(&buffer);
    return ls__atomic_file_finish(&buffer.file, buffer.status);
}
