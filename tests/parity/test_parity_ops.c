/* test_parity_ops.c: every op forward and backward against PyTorch in float64, through the public
 * API: a net of the one op, hashed input and parameters, and a loss that weighs the outputs by
 * hashed numbers. The cases and their settings come with the fixtures (tests/reference/ops.py). */
#include "../suite.h"
#include "parity.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* f32 against f64: sums of some thousand terms lose about 1e-6; the rest is margin. */
static const double tolerance = 1e-4;
enum { MAX_NAME = 200, N_CONFIG = 16 };

typedef struct one_case {
    char name[MAX_NAME]; /* "conv2d/3x3" */
    int32_t config[N_CONFIG];
    float *weights; /* of the outputs in the loss */
    float *class_weights;
    bool is_loss;
} one_case;

static const char *of(const one_case *c, const char *what)
{
    static char text[2 * MAX_NAME];
    snprintf(text, sizeof(text), "%s.%s", c->name, what);
    return text;
}

/* ---- The loss: a sum of outputs, each times its weight ---- */

static ls_status weigh(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *weights = call->user;
    double sum = 0;
    const int64_t n = ls_shape_element_count(&call->input_specs[0].shape);
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)weights[i];
    *(float *)call->output = (float)sum;
    return LS_OK;
}

static ls_status weigh_backward(const ls_custom_op_call *call)
{
    const float *weights = call->user;
    const int64_t n = ls_shape_element_count(&call->input_specs[0].shape);
    for (int64_t i = 0; i < n; i++)
        call->input_gradients[0][i] = call->output_gradient[0] * weights[i];
    return LS_OK;
}

static ls_node *weighted_sum(ls_graph *g, ls_node *x, one_case *c)
{
    const ls_shape shape = ls_node_shape(x);
    const int64_t n = ls_shape_element_count(&shape);
    ck_assert_msg(n > 0, "%s: %s", c->name, ls_context_message(ls_graph_context(g)));
    c->weights = calloc((size_t)n, sizeof(float));
    parity_hashed(of(c, "weights"), n, 1, 0, c->weights);
    const ls_custom_op_config config = { .kind = "weighted sum",
                                         .output = { LS_F32, LS_SHAPE(1) },
                                         .forward = weigh,
                                         .backward = weigh_backward,
                                         .user = c->weights };
    return ls_custom_op(g, "sum", 1, &x, &config);
}

/* ---- The ops ---- */

static ls_node *conv2d(ls_graph *g, ls_node *x, one_case *c)
{
    const int32_t *v = c->config;
    return ls_conv2d(g, "op", x, v[4],
                     &(ls_conv2d_config){ v[5], v[6], v[7], v[8], v[9], v[10], v[11], v[12], v[13],
                                          .bias = v[14] != 0 });
}

static ls_node *residual(ls_graph *g, ls_node *x)
{
    return ls_input(g, "residual", (ls_spec){ LS_F32, ls_node_shape(x) });
}

static ls_node *layer_norm(ls_graph *g, ls_node *x, one_case *c)
{
    return ls_layer_norm(g, "op", x, &(ls_layer_norm_config){ (float)(c->config[5] * 1e-6) });
}

static ls_node *group_norm(ls_graph *g, ls_node *x, one_case *c)
{
    return ls_group_norm(g, "op", x, c->config[4],
                         &(ls_group_norm_config){ (float)(c->config[5] * 1e-6) });
}

static ls_node *linear(ls_graph *g, ls_node *x, one_case *c)
{
    return ls_linear(g, "op", x, c->config[2], &(ls_linear_config){ .no_bias = !c->config[3] });
}

static ls_node *max_pool(ls_graph *g, ls_node *x, one_case *c)
{
    return ls_max_pool(g, x, &(ls_pool_config){ c->config[4], c->config[5], c->config[6] });
}

static ls_node *avg_pool(ls_graph *g, ls_node *x, one_case *c)
{
    return ls_avg_pool(g, x, &(ls_pool_config){ c->config[4], c->config[5], c->config[6] });
}

static ls_node *global_avg_pool(ls_graph *g, ls_node *x, one_case *c)
{
    (void)c;
    return ls_global_avg_pool(g, x);
}

static ls_node *relu(ls_graph *g, ls_node *x, one_case *c)
{
    (void)c;
    return ls_relu(g, x);
}

static ls_node *flatten(ls_graph *g, ls_node *x, one_case *c)
{
    (void)c;
    return ls_flatten(g, x);
}

static ls_node *pad_channels(ls_graph *g, ls_node *x, one_case *c)
{
    return ls_pad_channels(g, x, c->config[3] + 5);
}

static ls_node *add(ls_graph *g, ls_node *x, one_case *c)
{
    (void)c;
    return ls_add(g, x, residual(g, x));
}

static ls_node *sigmoid(ls_graph *g, ls_node *x, one_case *c)
{
    (void)c;
    return ls_sigmoid(g, x);
}

static ls_node *mul(ls_graph *g, ls_node *x, one_case *c)
{
    return ls_mul(g, x, c->config[4] ? x : residual(g, x));
}

/* What the parts are, ops.py says. */
static ls_node *concat(ls_graph *g, ls_node *x, one_case *c)
{
    enum { N_KNOWN = 4 };
    ls_node *known[N_KNOWN] = { x }, *parts[N_CONFIG];
    const int32_t n = c->config[4];
    for (int32_t i = 0; i < n; i++) {
        const int32_t part = c->config[5 + i];
        if (!known[part])
            known[part] = part == 1   ? residual(g, x)
                          : part == 2 ? ls_sigmoid(g, x)
                                      : ls_pad_channels(g, x, c->config[3] + 5);
        parts[i] = known[part];
    }
    return ls_concat(g, n, parts);
}

/* The input of some fixtures is scaled, so that softmax is not flat and functions saturate. */
static ls_status scale(const ls_custom_op_call *call)
{
    const float *x = call->inputs[0], *by = call->user;
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    for (int64_t i = 0; i < n; i++) ((float *)call->output)[i] = *by * x[i];
    return LS_OK;
}

static ls_status scale_backward(const ls_custom_op_call *call)
{
    const float *by = call->user;
    const int64_t n = ls_shape_element_count(&call->output_spec.shape);
    for (int64_t i = 0; i < n; i++) call->input_gradients[0][i] = *by * call->output_gradient[i];
    return LS_OK;
}

static float four = 4, eight = 8;

static ls_node *times(ls_graph *g, ls_node *x, float *by)
{
    return ls_custom_op(g, "times", 1, &x,
                        &(ls_custom_op_config){ .kind = "times",
                                                .output = { LS_F32, ls_node_shape(x) },
                                                .forward = scale,
                                                .backward = scale_backward,
                                                .user = by });
}

static ls_node *batch_norm(ls_graph *g, ls_node *x, one_case *c)
{
    const int32_t *v = c->config;
    ls_node *y = ls_batch_norm(g, "op", x,
                               &(ls_batch_norm_config){ .epsilon = (float)(v[4] * 1e-6),
                                                        .momentum = (float)(v[5] * 1e-3) });
    const bool relu6 = v[6] == 2;
    if (v[7]) y = ls_add(g, y, relu6 ? times(g, residual(g, x), &eight) : residual(g, x));
    return relu6 ? ls_relu6(g, y) : v[6] ? ls_relu(g, y) : y;
}

static ls_node *leaky(ls_graph *g, ls_node *x)
{
    return ls_leaky_relu(g, x, 0.2f);
}

/* Of positive numbers. */
static ls_node *log_sigmoid(ls_graph *g, ls_node *x)
{
    return ls_log(g, ls_sigmoid(g, x));
}

static ls_node *root_of_sigmoid(ls_graph *g, ls_node *x)
{
    return ls_sqrt(g, ls_sigmoid(g, x));
}

/* Functions without parameters. */
static ls_node *function(ls_graph *g, ls_node *x, one_case *c)
{
    static const struct {
        const char *name;
        ls_node *(*append)(ls_graph *graph, ls_node *x);
    } functions[] = { { "softmax/", ls_softmax },
                      { "relu6/", ls_relu6 },
                      { "tanh/", ls_tanh },
                      { "silu/", ls_silu },
                      { "gelu/", ls_gelu },
                      { "leaky_relu/", leaky },
                      { "hard_sigmoid/", ls_hard_sigmoid },
                      { "hard_swish/", ls_hard_swish },
                      { "exp/", ls_exp },
                      { "log/", log_sigmoid },
                      { "sqrt/", root_of_sigmoid },
                      { "abs/", ls_abs } };
    int i = 0;
    while (strncmp(c->name, functions[i].name, strlen(functions[i].name)) != 0) i++;
    return functions[i].append(g, times(g, x, &eight));
}

static void make_class_weights(one_case *c)
{
    const int32_t *v = c->config;
    c->is_loss = true;
    if (!v[3]) return;
    c->class_weights = calloc((size_t)v[1], sizeof(float));
    parity_hashed(of(c, "class_weights"), v[1], 0.75f, 1, c->class_weights);
}

static ls_node *target_loss(ls_graph *g, ls_node *x, one_case *c)
{
    const int32_t *v = c->config;
    make_class_weights(c);
    x = times(g, x, &four);
    ls_node *targets = ls_input(g, "targets", (ls_spec){ LS_F32, ls_node_shape(x) });
    if (c->name[0] == 'm') return ls_mse(g, x, targets);
    if (c->name[0] == 'b')
        return ls_binary_cross_entropy(g, x, targets,
                                       &(ls_binary_cross_entropy_config){ c->class_weights });
    return ls_cross_entropy(g, x, targets,
                            &(ls_cross_entropy_config){ (float)(v[2] / 1000.0), c->class_weights });
}

static ls_node *cross_entropy(ls_graph *g, ls_node *x, one_case *c)
{
    const int32_t *v = c->config;
    make_class_weights(c);
    x = times(g, x, &four);
    ls_node *labels = ls_input(g, "labels", (ls_spec){ LS_I32, LS_SHAPE(v[0]) });
    return ls_cross_entropy(g, x, labels,
                            &(ls_cross_entropy_config){ (float)(v[2] / 1000.0), c->class_weights });
}

typedef struct op_kind {
    const char *name;
    ls_node *(*build)(ls_graph *graph, ls_node *x, one_case *c);
    int n_dims; /* of the input, whose shape begins config; batch norm of a matrix has zeros */
    int n_cases;
} op_kind;

static const op_kind kinds[] = {
    { .name = "conv2d", .build = conv2d, .n_dims = 4, .n_cases = 16 },
    { .name = "batch_norm", .build = batch_norm, .n_dims = 4, .n_cases = 8 },
    { .name = "layer_norm", .build = layer_norm, .n_dims = 4, .n_cases = 2 },
    { .name = "group_norm", .build = group_norm, .n_dims = 4, .n_cases = 4 },
    { .name = "linear", .build = linear, .n_dims = 2, .n_cases = 3 },
    { .name = "max_pool", .build = max_pool, .n_dims = 4, .n_cases = 3 },
    { .name = "avg_pool", .build = avg_pool, .n_dims = 4, .n_cases = 2 },
    { .name = "global_avg_pool", .build = global_avg_pool, .n_dims = 4, .n_cases = 1 },
    { .name = "relu", .build = relu, .n_dims = 4, .n_cases = 1 },
    { .name = "softmax", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "relu6", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "tanh", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "silu", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "gelu", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "leaky_relu", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "hard_sigmoid", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "hard_swish", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "exp", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "log", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "sqrt", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "abs", .build = function, .n_dims = 4, .n_cases = 1 },
    { .name = "flatten", .build = flatten, .n_dims = 4, .n_cases = 1 },
    { .name = "pad_channels", .build = pad_channels, .n_dims = 4, .n_cases = 1 },
    { .name = "add", .build = add, .n_dims = 4, .n_cases = 1 },
    { .name = "sigmoid", .build = sigmoid, .n_dims = 4, .n_cases = 1 },
    { .name = "mul", .build = mul, .n_dims = 4, .n_cases = 2 },
    { .name = "concat", .build = concat, .n_dims = 4, .n_cases = 6 },
    { .name = "cross_entropy", .build = cross_entropy, .n_dims = 2, .n_cases = 6 },
    { .name = "soft_cross_entropy", .build = target_loss, .n_dims = 2, .n_cases = 4 },
    { .name = "binary_cross_entropy", .build = target_loss, .n_dims = 2, .n_cases = 2 },
    { .name = "mse", .build = target_loss, .n_dims = 2, .n_cases = 1 },
};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static const op_kind *kind_of(const one_case *c)
{
    for (int i = 0; i < N_KINDS; i++) {
        const size_t length = strlen(kinds[i].name);
        if (strncmp(c->name, kinds[i].name, length) == 0 && c->name[length] == '/')
            return &kinds[i];
    }
    ck_abort_msg("%s: unknown op", c->name);
    return NULL;
}

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    one_case *c = *(one_case *const *)options;
    ls_node *y = kind_of(c)->build(g, x, c);
    ls_loss(g, "loss", c->is_loss ? y : weighted_sum(g, y, c), 1);
    return y;
}

/* ---- One case ---- */

static ls_shape input_shape(const one_case *c)
{
    const int32_t *v = c->config;
    const int n_dims = kind_of(c)->n_dims;
    if (n_dims == 4 && v[1] == 0) return LS_SHAPE(v[0], v[3]);
    return n_dims == 4 ? LS_SHAPE(v[0], v[1], v[2], v[3]) : LS_SHAPE(v[0], v[1]);
}

/* Feeds input `name`, hashed, and keeps the tensor for the context to close. */
static void feed(ls_context *ctx, ls_net *net, const one_case *c, const char *name)
{
    ls_tensor *tensor = ls_tensor_open(ctx, LS_F32, input_shape(c));
    const bool targets = strcmp(name, "targets") == 0;
    parity_fill(tensor, of(c, name), targets ? 0.5f : 1, targets ? 0.5f : 0);
    ck_assert_int_eq(ls_net_feed(net, name, tensor), LS_OK);
}

static void feed_all(ls_context *ctx, ls_net *net, ls_tensor_file *file, const one_case *c)
{
    feed(ctx, net, c, "input");
    if (ls_tensor_file_find(file, of(c, "gradient.residual"), NULL)) feed(ctx, net, c, "residual");
    if (kind_of(c)->build == target_loss) feed(ctx, net, c, "targets");
    if (ls_tensor_file_find(file, of(c, "labels"), NULL))
        ls_net_feed(net, "labels", parity_load(ctx, file, of(c, "labels")));
}

/* Weights and biases as ops.py has them; a scale of batch norm and a variance are around 1. */
static void set_parameters(ls_net *net, const one_case *c)
{
    const bool norm = strstr(c->name, "_norm/") != NULL;
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info e = ls_net_parameter_at(net, i);
        const char *name = e.name + strlen("op.");
        const bool weight = strcmp(name, "weight") == 0, var = strcmp(name, "running_var") == 0;
        parity_fill(e.value, of(c, name), weight || var ? 0.5f : 1, (weight && norm) || var);
    }
}

static void check_case(ls_context *ctx, ls_tensor_file *file, one_case *c)
{
    ls_tensor *config = parity_load(ctx, file, of(c, "config"));
    memcpy(c->config, ls_tensor_data(config), ls_tensor_bytes(config));

    const ls_net_config net_config = { .input.image = { LS_F32, input_shape(c) } };
    ls_net *net = ls_net_build(ctx, model, &c, &net_config);
    ck_assert_msg(net != NULL, "%s: %s", c->name, ls_context_message(ctx));
    const bool has_residual = ls_tensor_file_find(file, of(c, "gradient.residual"), NULL);
    ls_net_require_input_gradient(net, "input");
    if (has_residual) ls_net_require_input_gradient(net, "residual");
    set_parameters(net, c);

    feed_all(ctx, net, file, c);
    ls_net_forward(net, LS_MODE_TRAIN);
    parity_check(file, of(c, "output"), ls_net_output(net, "output"), tolerance);
    ck_assert_msg(ls_net_backward(net) == LS_OK, "%s: %s", c->name, ls_context_message(ctx));
    parity_check(file, of(c, "gradient.input"), ls_net_input_gradient(net, "input"), tolerance);
    if (has_residual)
        parity_check(file, of(c, "gradient.residual"), ls_net_input_gradient(net, "residual"),
                     tolerance);
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info e = ls_net_parameter_at(net, i);
        char name[MAX_NAME];
        snprintf(name, sizeof(name), "%s%s", e.gradient ? "gradient." : "", e.name + strlen("op."));
        parity_check(file, of(c, name), e.gradient ? e.gradient : e.value, tolerance);
    }
    if (ls_tensor_file_find(file, of(c, "evaluated"), NULL)) {
        feed_all(ctx, net, file, c);
        ls_net_forward(net, LS_MODE_EVAL);
        parity_check(file, of(c, "evaluated"), ls_net_output(net, "output"), tolerance);
    }
    ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s: %s", c->name, ls_context_message(ctx));
    ls_net_close(&net);
    free(c->weights);
    free(c->class_weights);
}

static void check_kind(const char *kind, int wanted)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 2 });
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path("ops.safetensors"));
    ck_assert_msg(file != NULL, "%s", ls_context_message(ctx));
    int n = 0;
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(file); i++) {
        const char *name = ls_tensor_file_name(file, i), *end = strstr(name, ".config");
        if (!end || strncmp(name, kind, strlen(kind)) != 0 || name[strlen(kind)] != '/') continue;
        one_case c = { 0 };
        snprintf(c.name, sizeof(c.name), "%.*s", (int)(end - name), name);
        check_case(ctx, file, &c);
        n++;
    }
    ck_assert_int_eq(n, wanted);
    ls_context_close(&ctx);
}

START_TEST(op_matches_pytorch)
{
    check_kind(kinds[_i].name, kinds[_i].n_cases);
}
END_TEST

TEST_PROGRAM(parity_ops)
{
    return run_loop("ops against PyTorch", op_matches_pytorch, N_KINDS);
}
