/* test_onnx.c: exported ONNX models, read back. tests/onnx runs them. */
#include "checkpoint_support.h"
#include <string.h>

#if HAS_ONNX
#include "io/onnx/onnx_model.h"

static Ls__OnnxPb__Model *read_model(const char *path)
{
    size_t n;
    void *bytes = read_file(path, &n);
    Ls__OnnxPb__Model *model = ls__onnx_pb__model__unpack(NULL, n, bytes);
    ck_assert_ptr_nonnull(model);
    free(bytes);
    return model;
}

static int count(const Ls__OnnxPb__Model *model, const char *op)
{
    int n = 0;
    for (size_t i = 0; i < model->graph->n_node; i++)
        n += strcmp(model->graph->node[i]->op_type, op) == 0;
    return n;
}

static const char *metadata(const Ls__OnnxPb__Model *model, const char *key)
{
    for (size_t i = 0; i < model->n_metadata_props; i++)
        if (strcmp(model->metadata_props[i]->key, key) == 0) return model->metadata_props[i]->value;
    return "";
}

static const Ls__OnnxPb__Tensor *weight(const Ls__OnnxPb__Model *model, const char *name)
{
    for (size_t i = 0; i < model->graph->n_initializer; i++)
        if (strcmp(model->graph->initializer[i]->name, name) == 0)
            return model->graph->initializer[i];
    return NULL;
}

START_TEST(structure)
{
    static const char *const classes[] = { "a \"b\"", "\xff", "d", "e" };
    run r = open_good_run(&usual);
    const ls_onnx_config keep = { .opset = 21,
                                  .keep_batch_norm = true,
                                  .input = LS_ONNX_INPUT_BYTES };
    ck_assert_int_eq(ls_onnx_export(r.state.net, &keep, path_of("keep.onnx")), LS_OK);
    Ls__OnnxPb__Model *model = read_model(path_of("keep.onnx"));
    ck_assert_int_eq(model->ir_version, 10);
    ck_assert_int_eq(model->opset_import[0]->version, 21);
    ck_assert_int_eq(count(model, "BatchNormalization"), 1);
    ck_assert_int_eq(count(model, "Dropout"), 0);
    ck_assert_int_eq(count(model, "Conv"), 2);
    ck_assert_ptr_nonnull(weight(model, "bn1.running_var"));
    ck_assert_int_eq(model->graph->n_input, 1);
    ck_assert_int_eq(model->graph->input[0]->type->tensor_type->elem_type, 2);
    ck_assert_int_eq(model->graph->input[0]->type->tensor_type->shape->dim[3]->dim_value, 3);
    ls__onnx_pb__model__free_unpacked(model, NULL);

    static const char *const pairs[] = { "resize", "256", "crop", "[224, 192]", NULL };
    const ls_onnx_config folded = { .classes = classes, .n_classes = 4, .metadata = pairs };
    ck_assert_int_eq(ls_onnx_export(r.state.net, &folded, path_of("a.onnx")), LS_OK);
    ck_assert_int_eq(ls_onnx_export(r.state.net, &folded, path_of("b.onnx")), LS_OK);
    ck_assert(same_files(path_of("a.onnx"), path_of("b.onnx")));
    model = read_model(path_of("a.onnx"));
    ck_assert_int_eq(model->ir_version, 8);
    ck_assert_int_eq(count(model, "BatchNormalization"), 0);
    const Ls__OnnxPb__Tensor *w = weight(model, "conv1.weight");
    ck_assert_int_eq(w->dims[0], 8);
    ck_assert_int_eq(w->dims[1], 3);
    ck_assert_ptr_nonnull(weight(model, "conv1.bias"));
    ck_assert_ptr_null(weight(model, "bn1.weight"));
    ck_assert_str_eq(metadata(model, "classes"), "[\"a \\\"b\\\"\",\"\\\\xFF\",\"d\",\"e\"]");
    ck_assert_str_eq(metadata(model, "resize"), "256");
    ck_assert_str_eq(metadata(model, "crop"), "[224, 192]");
    ck_assert_int_eq(model->graph->n_output, 1);
    ck_assert_str_eq(model->graph->input[0]->name, "input");
    ck_assert_str_eq(model->graph->input[0]->type->tensor_type->shape->dim[0]->dim_param, "N");
    ck_assert_int_eq(model->graph->input[0]->type->tensor_type->shape->dim[1]->dim_value, 3);
    ck_assert_str_eq(model->graph->output[0]->name, "output");
    ck_assert_str_eq(model->graph->output[0]->type->tensor_type->shape->dim[0]->dim_param, "N");
    ls__onnx_pb__model__free_unpacked(model, NULL);
    ls_context_close(&r.ctx);
}
END_TEST

static ls_status same_values(const ls_custom_op_call *call)
{
    memcpy(call->output, call->inputs[0],
           (size_t)ls_shape_element_count(&call->output_spec.shape) * sizeof(float));
    return LS_OK;
}

static ls_node *custom(ls_graph *g, ls_node *x, const void *unused)
{
    (void)unused;
    const ls_custom_op_config config = { .kind = "same",
                                         .output = { LS_F32, ls_node_shape(x) },
                                         .forward = same_values };
    return ls_custom_op(g, "my_op", 1, &x, &config);
}

/* The parameter would fix the batch. */
static ls_node *adds_parameter(ls_graph *g, ls_node *x, const void *unused)
{
    (void)unused;
    ls_node *p = ls_parameter(g, "p", ls_node_shape(x), LS_PARAMETER_WEIGHT, LS_INIT_ONE);
    return ls_add(g, x, p);
}

/* A file at the path is unchanged after each error. */
START_TEST(errors)
{
    run r = open_good_run(&usual);
    const char *const path = path_of("errors.onnx");
    write_text(path, "unchanged");
    ls_net *net = r.state.net;
    expect_failure(ls_onnx_export(net, &(ls_onnx_config){ .opset = 16 }, path), r.ctx,
                   LS_ERR_INVALID, "opset is 16, expected 17 to 25");
    expect_failure(ls_onnx_export(net, &(ls_onnx_config){ .n_classes = 1 }, path), r.ctx,
                   LS_ERR_INVALID, "classes is NULL");
    expect_failure(
        ls_onnx_export(
            net, &(ls_onnx_config){ .classes = (const char *[]){ NULL }, .n_classes = 1 }, path),
        r.ctx, LS_ERR_INVALID, "the name of class 0 is NULL");
    static const char *const no_value[] = { "resize", NULL }, *const own[] = { "mean", "0", NULL };
    expect_failure(ls_onnx_export(net, &(ls_onnx_config){ .metadata = no_value }, path), r.ctx,
                   LS_ERR_INVALID, "metadata 'resize' has no value");
    expect_failure(ls_onnx_export(net, &(ls_onnx_config){ .metadata = own }, path), r.ctx,
                   LS_ERR_INVALID, "metadata 'mean': the export writes this key itself");
    expect_failure(ls_onnx_export(net, NULL, NULL), r.ctx, LS_ERR_INVALID, "path is NULL");
    expect_failure(ls_onnx_export(net, NULL, path_of("none/a.onnx")), r.ctx, LS_ERR_NOT_FOUND,
                   "none/a.onnx");
    ls_net *other = ls_net_build(
        r.ctx, custom, NULL,
        &(ls_net_config){ .input.image = { LS_F32, LS_SHAPE(1, 4) }, .inference = true });
    expect_failure(ls_onnx_export(other, NULL, path), r.ctx, LS_ERR_UNSUPPORTED,
                   "op 'my_op': this layer can't be exported");
    expect_failure(ls_onnx_export(other, &(ls_onnx_config){ .input = LS_ONNX_INPUT_BYTES }, path),
                   r.ctx, LS_ERR_INVALID, "the net's input is F32");
    other = ls_net_build(
        r.ctx, adds_parameter, NULL,
        &(ls_net_config){ .input.image = { LS_F32, LS_SHAPE(1, 4) }, .inference = true });
    expect_failure(ls_onnx_export(other, NULL, path), r.ctx, LS_ERR_UNSUPPORTED, "add 'add'",
                   "parameters alone");
    Ls__OnnxPb__Tensor tensor = LS__ONNX_PB__TENSOR__INIT, *tensors[1] = { &tensor };
    Ls__OnnxPb__Graph graph = LS__ONNX_PB__GRAPH__INIT;
    Ls__OnnxPb__Model large = LS__ONNX_PB__MODEL__INIT;
    tensor.has_raw_data = true;
    tensor.raw_data.len = (size_t)1 << 31;
    graph.n_initializer = 1;
    graph.initializer = tensors;
    large.graph = &graph;
    expect_failure(ls__onnx_write(r.ctx, path, &large), r.ctx, LS_ERR_UNSUPPORTED,
                   "at most 2147483647");
    size_t n;
    char *text = read_file(path, &n);
    ck_assert_str_eq(text, "unchanged");
    free(text);
    ls_context_close(&r.ctx);
}
END_TEST

static bool export_net(ls_context *ctx, void *user)
{
    (void)user;
    ls_net *net = ls_net_build(
        ctx, model, &usual.n_classes,
        &(ls_net_config){ .input.image = { LS_U8, LS_SHAPE(1, 8, 8, 3) }, .inference = true });
    return ls_onnx_export(net, NULL, path_of("allocations.onnx")) == LS_OK;
}

START_TEST(every_allocation_failing)
{
    fail_each_allocation(export_net, NULL);
}
END_TEST

TEST_PROGRAM(onnx)
{
    begin_runs();
    return end_runs(RUN_SUITE("onnx", structure, errors, every_allocation_failing));
}
#else
START_TEST(absent)
{
    run r = open_good_run(&usual);
    expect_failure(ls_onnx_export(r.state.net, NULL, path_of("a.onnx")), r.ctx, LS_ERR_UNSUPPORTED,
                   "libprotobuf-c-dev");
    ls_context_close(&r.ctx);
}
END_TEST

TEST_PROGRAM(onnx)
{
    begin_runs();
    return end_runs(RUN_SUITE("onnx", absent));
}
#endif
