/* test_cudnn_contract.c: the graphs of src/cuda/cudnn with one attribute wrong: what cuDNN refuses,
 * and where. It runs with the emulator's stand-in, and with cuDNN itself where that is found: so
 * the stand-in refuses what cuDNN does, and accepts no less. */
#include "../suite.h"
#include "conv_ops.h"
#include "cuda/cudnn/cudnn.h"
#include <cudnn.h>
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>

/* ---- One call of cudnnBackendSetAttribute that is changed on its way ---- */

typedef enum change {
    NONE,
    DROP,    /* it is not made */
    VALUE,   /* the element `index` is `value` */
    AS_TYPE, /* with the type `value` */
    COUNT    /* with `value` elements */
} change;

static struct {
    cudnnBackendAttributeName_t name;
    int nth; /* of those calls with that attribute, from 0 on */
    change change;
    int index;
    int64_t value;
    int n_seen;
} fault;

cudnnStatus_t __real_cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void *values);
cudnnStatus_t __wrap_cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void *values);

cudnnStatus_t __wrap_cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                              cudnnBackendAttributeName_t name,
                                              cudnnBackendAttributeType_t type, int64_t count,
                                              const void *values)
{
    enum { MAX_NUMBERS = 8 };
    int64_t numbers[MAX_NUMBERS];
    int number = (int)fault.value;
    if (fault.change == NONE || name != fault.name || fault.n_seen++ != fault.nth)
        return __real_cudnnBackendSetAttribute(descriptor, name, type, count, values);
    switch (fault.change) {
    case DROP: return CUDNN_STATUS_SUCCESS;
    case AS_TYPE: type = (cudnnBackendAttributeType_t)fault.value; break;
    case COUNT: count = fault.value; break;
    default:
        ck_assert_int_le(count, MAX_NUMBERS);
        if (type == CUDNN_TYPE_INT64) memcpy(numbers, values, (size_t)count * sizeof *numbers);
        numbers[fault.index] = fault.value;
        values = type == CUDNN_TYPE_INT64 ? (const void *)numbers : &number;
    }
    return __real_cudnnBackendSetAttribute(descriptor, name, type, count, values);
}

/* ---- Cases ---- */

static const conv_shape shape = { 4, 14, 14, 64, 64, 3, 1, 1, 1 };

/* The op of a kind, as cuDNN is asked for it: f16, CONV2D with a bias. */
static ls__op op_of(ls__op_kind kind)
{
    const bool plain = kind <= LS__OP_CONV2D_BACKWARD_WEIGHTS;
    const ls__op f32 = conv_op(plain ? kind : LS__OP_CONV2D, &shape, kind == LS__OP_CONV2D);
    const ls__op f16 = plain ? conv_op_in(&f32, LS_F16, false) : fused_op(kind, &f32, LS_F16);
    return ls__cudnn_conv_of(&f16);
}

/* Attributes' names without their prefix. `refusal` is part of the message; "": any; NULL: it is
 * accepted. */
#define TENSOR(a)      CUDNN_ATTR_TENSOR_##a
#define CONVOLUTION(a) CUDNN_ATTR_CONVOLUTION_##a
#define OPERATION(a)   CUDNN_ATTR_OPERATION_##a
#define AT_TENSOR      "a tensor: CUDNN_STATUS_BAD_PARAM"
#define AT_CONVOLUTION "a convolution: CUDNN_STATUS_BAD_PARAM"
#define AT_OPERATION   "an operation: CUDNN_STATUS_BAD_PARAM"
#define UNSUPPORTED    "CUDNN_STATUS_NOT_SUPPORTED"
enum { X, W, Y, B }; /* CONV2D's tensors in the order in which they are made */

typedef struct row {
    const char *what;
    ls__op_kind op;
    cudnnBackendAttributeName_t name;
    int nth;
    change change;
    int index;
    int64_t value;
    const char *refusal;
} row;

static const row rows[] = {
    { "nothing", LS__OP_CONV2D, 0, 0, NONE, 0, 0, NULL },
    { "nothing", LS__OP_CONV2D_BACKWARD_DATA, 0, 0, NONE, 0, 0, NULL },
    { "nothing", LS__OP_CONV2D_BACKWARD_WEIGHTS, 0, 0, NONE, 0, 0, NULL },
    { "nothing", LS__OP_CONV2D_STATISTICS, 0, 0, NONE, 0, 0, NULL },
    { "nothing", LS__OP_NORM_CONV2D_STATISTICS, 0, 0, NONE, 0, 0, NULL },
    { "nothing", LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS, 0, 0, NONE, 0, 0, NULL },
    { "nothing", LS__OP_NORM_CONV2D_BACKWARD_DATA, 0, 0, NONE, 0, 0, NULL },
    { "nothing", LS__OP_NORM_FINALIZE, 0, 0, NONE, 0, 0, NULL },
    /* Tensors */
    { "type of another type", LS__OP_CONV2D, TENSOR(DATA_TYPE), X, AS_TYPE, 0, CUDNN_TYPE_INT64,
      "setting attribute 901: CUDNN_STATUS_BAD_PARAM" },
    { "two types", LS__OP_CONV2D, TENSOR(DATA_TYPE), X, COUNT, 0, 2,
      "setting attribute 901: CUDNN_STATUS_BAD_PARAM" },
    { "x of f32", LS__OP_CONV2D, TENSOR(DATA_TYPE), X, VALUE, 0, CUDNN_DATA_FLOAT, UNSUPPORTED },
    { "x of bf16", LS__OP_CONV2D, TENSOR(DATA_TYPE), X, VALUE, 0, CUDNN_DATA_BFLOAT16,
      UNSUPPORTED },
    { "w of f32", LS__OP_CONV2D, TENSOR(DATA_TYPE), W, VALUE, 0, CUDNN_DATA_FLOAT, UNSUPPORTED },
    { "y of f32", LS__OP_CONV2D, TENSOR(DATA_TYPE), Y, VALUE, 0, CUDNN_DATA_FLOAT, UNSUPPORTED },
    { "dw of f32", LS__OP_CONV2D_BACKWARD_WEIGHTS, TENSOR(DATA_TYPE), W, VALUE, 0, CUDNN_DATA_FLOAT,
      UNSUPPORTED },
    { "no dimensions", LS__OP_CONV2D, TENSOR(DIMENSIONS), X, DROP, 0, 0, AT_TENSOR },
    { "three dimensions", LS__OP_CONV2D, TENSOR(DIMENSIONS), X, COUNT, 0, 3, AT_TENSOR },
    { "an empty list", LS__OP_CONV2D, TENSOR(DIMENSIONS), X, COUNT, 0, 0,
      "setting attribute 902: CUDNN_STATUS_BAD_PARAM" },
    { "no strides", LS__OP_CONV2D, TENSOR(STRIDES), X, DROP, 0, 0, AT_TENSOR },
    { "a negative stride", LS__OP_CONV2D, TENSOR(STRIDES), X, VALUE, 1, -1, AT_TENSOR },
    { "rows that overlap", LS__OP_CONV2D, TENSOR(STRIDES), X, VALUE, 2, 64, AT_OPERATION },
    { "channels that overlap", LS__OP_CONV2D, TENSOR(STRIDES), X, VALUE, 1, 2, AT_OPERATION },
    { "images that overlap", LS__OP_CONV2D, TENSOR(STRIDES), X, VALUE, 0, 8, AT_OPERATION },
    { "images with gaps", LS__OP_CONV2D, TENSOR(STRIDES), X, VALUE, 0, 2 * 14 * 14 * 64, NULL },
    { "weights with gaps", LS__OP_CONV2D, TENSOR(STRIDES), W, VALUE, 1, 2, AT_OPERATION },
    { "dy that overlaps", LS__OP_CONV2D_BACKWARD_DATA, TENSOR(STRIDES), Y, VALUE, 3, 32,
      AT_OPERATION },
    { "no alignment", LS__OP_CONV2D, TENSOR(BYTE_ALIGNMENT), X, DROP, 0, 0, AT_TENSOR },
    { "an alignment of 0", LS__OP_CONV2D, TENSOR(BYTE_ALIGNMENT), X, VALUE, 0, 0, AT_TENSOR },
    { "less than an element's", LS__OP_CONV2D, TENSOR(BYTE_ALIGNMENT), X, VALUE, 0, 1, AT_TENSOR },
    { "an element's alignment", LS__OP_CONV2D_BACKWARD_DATA, TENSOR(BYTE_ALIGNMENT), X, VALUE, 0, 2,
      UNSUPPORTED },
    { "one id of input and result", LS__OP_CONV2D, TENSOR(UNIQUE_ID), Y, VALUE, 0, 1,
      "the graph of operations: CUDNN_STATUS_BAD_PARAM" },
    { "no virtual tensor", LS__OP_CONV2D, TENSOR(IS_VIRTUAL), 0, DROP, 0, 0, UNSUPPORTED },
    /* Convolutions */
    { "another batch", LS__OP_CONV2D, TENSOR(DIMENSIONS), X, VALUE, 0, 5, AT_OPERATION },
    { "another height", LS__OP_CONV2D, TENSOR(DIMENSIONS), X, VALUE, 2, 13, AT_OPERATION },
    { "other output channels", LS__OP_CONV2D, TENSOR(DIMENSIONS), W, VALUE, 0, 32, AT_OPERATION },
    { "other input channels", LS__OP_CONV2D, TENSOR(DIMENSIONS), W, VALUE, 1, 48, AT_OPERATION },
    { "another width of dy", LS__OP_CONV2D_BACKWARD_DATA, TENSOR(DIMENSIONS), Y, VALUE, 3, 13,
      AT_OPERATION },
    { "channels of the bias", LS__OP_CONV2D, TENSOR(DIMENSIONS), B, VALUE, 1, 32, "" },
    { "compute type f16", LS__OP_CONV2D, CONVOLUTION(COMP_TYPE), 0, VALUE, 0, CUDNN_DATA_HALF,
      UNSUPPORTED },
    { "compute type f64", LS__OP_CONV2D_BACKWARD_DATA, CONVOLUTION(COMP_TYPE), 0, VALUE, 0,
      CUDNN_DATA_DOUBLE, UNSUPPORTED },
    { "no spatial dimensions", LS__OP_CONV2D, CONVOLUTION(SPATIAL_DIMS), 0, DROP, 0, 0,
      AT_CONVOLUTION },
    { "three spatial dimensions", LS__OP_CONV2D, CONVOLUTION(SPATIAL_DIMS), 0, VALUE, 0, 3,
      AT_CONVOLUTION },
    { "no padding before", LS__OP_CONV2D, CONVOLUTION(PRE_PADDINGS), 0, VALUE, 0, 0, AT_OPERATION },
    { "no padding behind", LS__OP_CONV2D, CONVOLUTION(POST_PADDINGS), 0, VALUE, 1, 0,
      AT_OPERATION },
    { "too much padding", LS__OP_CONV2D, CONVOLUTION(PRE_PADDINGS), 0, VALUE, 0, 2, AT_OPERATION },
    { "negative padding", LS__OP_CONV2D, CONVOLUTION(PRE_PADDINGS), 0, VALUE, 0, -1,
      AT_CONVOLUTION },
    { "one padding", LS__OP_CONV2D, CONVOLUTION(PRE_PADDINGS), 0, COUNT, 0, 1, AT_CONVOLUTION },
    { "no strides", LS__OP_CONV2D, CONVOLUTION(FILTER_STRIDES), 0, DROP, 0, 0, AT_CONVOLUTION },
    { "another stride", LS__OP_CONV2D, CONVOLUTION(FILTER_STRIDES), 0, VALUE, 0, 2, AT_OPERATION },
    { "a stride of 0", LS__OP_CONV2D, CONVOLUTION(FILTER_STRIDES), 0, VALUE, 0, 0, AT_CONVOLUTION },
    { "no dilation", LS__OP_CONV2D, CONVOLUTION(DILATIONS), 0, DROP, 0, 0, AT_CONVOLUTION },
    { "another dilation", LS__OP_CONV2D, CONVOLUTION(DILATIONS), 0, VALUE, 1, 2, AT_OPERATION },
    { "no convolution", LS__OP_CONV2D, OPERATION(CONVOLUTION_FORWARD_CONV_DESC), 0, DROP, 0, 0,
      AT_OPERATION },
    { "no x", LS__OP_CONV2D, OPERATION(CONVOLUTION_FORWARD_X), 0, DROP, 0, 0, AT_OPERATION },
    { "no w", LS__OP_CONV2D, OPERATION(CONVOLUTION_FORWARD_W), 0, DROP, 0, 0, AT_OPERATION },
    { "no dx", LS__OP_CONV2D_BACKWARD_DATA, OPERATION(CONVOLUTION_BWD_DATA_DX), 0, DROP, 0, 0,
      AT_OPERATION },
    { "no dy", LS__OP_CONV2D_BACKWARD_WEIGHTS, OPERATION(CONVOLUTION_BWD_FILTER_DY), 0, DROP, 0, 0,
      AT_OPERATION },
    { "adds to y", LS__OP_CONV2D, OPERATION(CONVOLUTION_FORWARD_BETA), 0, VALUE, 0, 0x3f800000,
      UNSUPPORTED },
    /* What is fused */
    { "multiplied by the bias", LS__OP_CONV2D, CUDNN_ATTR_POINTWISE_MODE, 0, VALUE, 0,
      CUDNN_POINTWISE_MUL, UNSUPPORTED },
    { "no sum", LS__OP_CONV2D, OPERATION(POINTWISE_XDESC), 0, DROP, 0, 0, AT_OPERATION },
    { "no bias", LS__OP_CONV2D, OPERATION(POINTWISE_BDESC), 0, DROP, 0, 0, AT_OPERATION },
    { "no y", LS__OP_CONV2D, OPERATION(POINTWISE_YDESC), 0, DROP, 0, 0, AT_OPERATION },
    { "sums of f16", LS__OP_CONV2D_STATISTICS, TENSOR(DATA_TYPE), 3, VALUE, 0, CUDNN_DATA_HALF,
      UNSUPPORTED },
    { "y of f32", LS__OP_CONV2D_STATISTICS, TENSOR(DATA_TYPE), 2, VALUE, 0, CUDNN_DATA_FLOAT,
      UNSUPPORTED },
    { "no sums", LS__OP_CONV2D_STATISTICS, OPERATION(GENSTATS_SUMDESC), 0, DROP, 0, 0, "" },
    { "sums with x's id", LS__OP_CONV2D_STATISTICS, TENSOR(UNIQUE_ID), 3, VALUE, 0, 1,
      "the graph of operations: CUDNN_STATUS_BAD_PARAM" },
    { "a of f32", LS__OP_NORM_CONV2D_STATISTICS, TENSOR(DATA_TYPE), 1, VALUE, 0, CUDNN_DATA_FLOAT,
      UNSUPPORTED },
    { "x a that is no virtual tensor", LS__OP_NORM_CONV2D_STATISTICS, TENSOR(IS_VIRTUAL), 0, DROP,
      0, 0, UNSUPPORTED },
    { "b of f32", LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS, TENSOR(DATA_TYPE), 2, VALUE, 0,
      CUDNN_DATA_FLOAT, UNSUPPORTED },
    { "dw of f32", LS__OP_NORM_CONV2D_BACKWARD_WEIGHTS, TENSOR(DATA_TYPE), 7, VALUE, 0,
      CUDNN_DATA_FLOAT, UNSUPPORTED },
    { "a mean of f16", LS__OP_NORM_CONV2D_BACKWARD_DATA, TENSOR(DATA_TYPE), 4, VALUE, 0,
      CUDNN_DATA_HALF, UNSUPPORTED },
    { "a gradient that is no virtual tensor", LS__OP_NORM_CONV2D_BACKWARD_DATA, TENSOR(IS_VIRTUAL),
      0, DROP, 0, 0, UNSUPPORTED },
    { "no dy of the ReLU", LS__OP_NORM_CONV2D_BACKWARD_DATA, OPERATION(POINTWISE_DYDESC), 0, DROP,
      0, 0, AT_OPERATION },
    { "no invstd", LS__OP_NORM_CONV2D_BACKWARD_DATA, OPERATION(BN_BWD_WEIGHTS_INVSTD_DESC), 0, DROP,
      0, 0, "" },
    { "a count of f32", LS__OP_NORM_FINALIZE, TENSOR(DATA_TYPE), 12, VALUE, 0, CUDNN_DATA_FLOAT,
      AT_OPERATION },
    { "a count in memory", LS__OP_NORM_FINALIZE, TENSOR(IS_BY_VALUE), 0, DROP, 0, 0, AT_OPERATION },
    { "a of f32, b of f16", LS__OP_NORM_FINALIZE, TENSOR(DATA_TYPE), 8, VALUE, 0, CUDNN_DATA_FLOAT,
      "" },
    { "no epsilon", LS__OP_NORM_FINALIZE, OPERATION(BN_FINALIZE_EPSILON_DESC), 0, DROP, 0, 0,
      AT_OPERATION },
    /* Graphs, engines and plans */
    { "no operations", LS__OP_CONV2D, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0, DROP, 0, 0,
      "the graph of operations: CUDNN_STATUS_BAD_PARAM" },
    { "half of the operations", LS__OP_CONV2D, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0, COUNT, 0, 1, "" },
    { "no graph", LS__OP_CONV2D, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0, DROP, 0, 0,
      "an engine: CUDNN_STATUS_BAD_PARAM" },
    { "no such engine", LS__OP_CONV2D, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0, VALUE, 0, 99999,
      "an engine: CUDNN_STATUS_NOT_SUPPORTED" },
    { "an engine for no device", LS__OP_CONV2D, CUDNN_ATTR_ENGINE_DEVICEPROP, 0, DROP, 0, 0,
      "an engine: CUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH" },
    { "a knob's value", LS__OP_CONV2D, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 0, VALUE, 0, 9999,
      "an engine configuration: CUDNN_STATUS_NOT_SUPPORTED" },
    { "a plan of nothing", LS__OP_CONV2D, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0, DROP, 0, 0,
      "the plan: CUDNN_STATUS_BAD_PARAM" },
};

/* The name of the best kernel that can be made, and that has knobs if any has. */
static void find_kernel(ls_context *ctx, ls__cudnn *cudnn, const ls__op *op,
                        char name[LS__KERNEL_NAME_SIZE])
{
    ls__candidate list[LS__MAX_CANDIDATES];
    const int n = ls__cudnn_candidates(cudnn, op, list, LS__MAX_CANDIDATES);
    for (int i = 0; i < n; i++) {
        ls__kernel *kernel;
        if (ls__cudnn_kernel_open(cudnn, op, list[i].name, &kernel) == LS_OK) {
            kernel->close(kernel);
            memcpy(name, list[i].name, LS__KERNEL_NAME_SIZE);
            return;
        }
        expect_error(ctx, LS_ERR_UNSUPPORTED, "");
    }
    ck_abort_msg("%s: no kernel", ls__op_name(op->kind));
}

START_TEST(one_wrong_attribute)
{
    static char json[2048];
    char name[LS__KERNEL_NAME_SIZE];
    const row *r = &rows[_i];
    FILE *file = fopen(LOCKSTEP_SOURCE_DIR "/tests/cuda/h200.json", "r");
    ck_assert_ptr_nonnull(file);
    json[fread(json, 1, sizeof json - 1, file)] = '\0';
    fclose(file);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls__cudnn *cudnn;
    ls__kernel *kernel;
    ck_assert_msg(ls__cudnn_open(ctx, json, &cudnn) == LS_OK, "%s", ls_context_message(ctx));
    const ls__op op = op_of(r->op);
    find_kernel(ctx, cudnn, &op, name);

    memset(&fault, 0, sizeof fault);
    fault.name = r->name;
    fault.nth = r->nth;
    fault.index = r->index;
    fault.value = r->value;
    fault.change = r->change;
    const ls_status status = ls__cudnn_kernel_open(cudnn, &op, name, &kernel);
    ck_assert_msg(r->change == NONE || fault.n_seen > fault.nth, "%s: no such call", r->what);
    fault.change = NONE;
    const char *message = ls_context_message(ctx);
    ck_assert_msg((status == LS_OK) == (r->refusal == NULL), "%s, %s: %s", ls__op_name(r->op),
                  r->what, message);
    if (status != LS_OK)
        ck_assert_msg(strstr(message, r->refusal), "%s, %s: '%s' has no '%s'", ls__op_name(r->op),
                      r->what, message, r->refusal);
    else
        kernel->close(kernel);
    ls__cudnn_close(&cudnn);
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(cudnn_contract)
{
    return run_loop("cudnn contract", one_wrong_attribute, sizeof rows / sizeof *rows);
}
