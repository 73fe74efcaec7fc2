/* run_node.c: computes one layer through the graph API, for node_tests.py.
 * usage: run_node FOLDER LAYER SHAPE... [KEY=NUMBER...]. Reads the inputs 0.bin, 1.bin, ... of the
 * SHAPEs ("2x8x8x3"), f32, or i32 for labels, and for each parameter of the layer, such as the
 * weight, weight.bin. Writes out.bin. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 8, PATH_SIZE = 4096 };

typedef struct request {
    const char *folder, *layer;
    ls_shape shapes[MAX_INPUTS];
    int n_inputs;
    char **options; /* KEY=NUMBER */
    int n_options;
    float *class_weights;
} request;

static double option(const request *r, const char *key)
{
    const size_t length = strlen(key);
    for (int i = 0; i < r->n_options; i++)
        if (strncmp(r->options[i], key, length) == 0 && r->options[i][length] == '=')
            return atof(r->options[i] + length + 1);
    return 0;
}

static bool is(const request *r, const char *layer)
{
    return strcmp(r->layer, layer) == 0;
}

static ls_node *conv2d(ls_graph *g, ls_node *x, const request *r)
{
    const int padding_w = (int)option(r, "padding_w");
    const ls_conv2d_config config = { .kernel = (int)option(r, "kernel"),
                                      .kernel_w = (int)option(r, "kernel_w"),
                                      .stride = (int)option(r, "stride"),
                                      .stride_w = (int)option(r, "stride_w"),
                                      .padding = (int)option(r, "padding"),
                                      .padding_w = padding_w ? padding_w : LS_ZERO_INT,
                                      .dilation = (int)option(r, "dilation"),
                                      .dilation_w = (int)option(r, "dilation_w"),
                                      .groups = (int)option(r, "groups"),
                                      .bias = option(r, "bias") != 0 };
    return ls_conv2d(g, "layer", x, (int64_t)option(r, "channels"), &config);
}

/* Layers without parameters and settings. */
static const struct {
    const char *name;
    ls_node *(*layer)(ls_graph *graph, ls_node *x);
} functions[] = { { "relu", ls_relu },
                  { "relu6", ls_relu6 },
                  { "sigmoid", ls_sigmoid },
                  { "tanh", ls_tanh },
                  { "silu", ls_silu },
                  { "gelu", ls_gelu },
                  { "abs", ls_abs },
                  { "exp", ls_exp },
                  { "log", ls_log },
                  { "sqrt", ls_sqrt },
                  { "hard_swish", ls_hard_swish },
                  { "hard_sigmoid", ls_hard_sigmoid },
                  { "softmax", ls_softmax },
                  { "flatten", ls_flatten },
                  { "global_avg_pool", ls_global_avg_pool } };

static ls_node *model(ls_graph *g, ls_node *input, const void *options)
{
    const request *r = options;
    ls_node *x[MAX_INPUTS] = { input };
    const bool has_labels = is(r, "cross_entropy");
    for (int i = 1; i < r->n_inputs; i++) {
        char name[16];
        snprintf(name, sizeof(name), "input%d", i);
        x[i] = ls_input(g, name, (ls_spec){ has_labels ? LS_I32 : LS_F32, r->shapes[i] });
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (is(r, functions[i].name)) return functions[i].layer(g, input);
    if (is(r, "leaky_relu")) return ls_leaky_relu(g, input, (float)option(r, "slope"));
    const float epsilon = (float)option(r, "epsilon");
    const ls_pool_config pool = { .kernel = (int)option(r, "kernel"),
                                  .stride = (int)option(r, "stride"),
                                  .padding = (int)option(r, "padding") };
    if (is(r, "conv2d")) return conv2d(g, input, r);
    if (is(r, "linear"))
        return ls_linear(g, "layer", input, (int64_t)option(r, "features"),
                         &(ls_linear_config){ .no_bias = option(r, "bias") == 0 });
    if (is(r, "batch_norm"))
        return ls_batch_norm(g, "layer", input, &(ls_batch_norm_config){ .epsilon = epsilon });
    if (is(r, "layer_norm"))
        return ls_layer_norm(g, "layer", input, &(ls_layer_norm_config){ .epsilon = epsilon });
    if (is(r, "group_norm"))
        return ls_group_norm(g, "layer", input, (int64_t)option(r, "groups"),
                             &(ls_group_norm_config){ .epsilon = epsilon });
    if (is(r, "max_pool")) return ls_max_pool(g, input, &pool);
    if (is(r, "avg_pool")) return ls_avg_pool(g, input, &pool);
    if (is(r, "add")) return ls_add(g, x[0], x[1]);
    if (is(r, "mul")) return ls_mul(g, x[0], x[1]);
    if (is(r, "concat")) return ls_concat(g, r->n_inputs, x);
    if (is(r, "dropout")) return ls_dropout(g, input, (float)option(r, "probability"));
    if (has_labels)
        return ls_cross_entropy(g, x[0], x[1],
                                &(ls_cross_entropy_config){ .class_weights = r->class_weights });
    return ls_graph_fail(g, LS_ERR_INVALID, "no layer '%s'", r->layer);
}

/* FOLDER/NAME.bin; NULL if it does not have this size. */
static void *read_bytes(const request *r, const char *name, size_t n)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s/%s.bin", r->folder, name);
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(n + 1);
    const bool ok = file && bytes && fread(bytes, 1, n + 1, file) == n;
    if (!ok) fprintf(stderr, "%s does not have %zu bytes\n", path, n);
    if (file) fclose(file);
    if (ok) return bytes;
    free(bytes);
    return NULL;
}

static bool fill(const request *r, const char *name, ls_tensor *tensor)
{
    const size_t n = ls_tensor_bytes(tensor);
    void *bytes = read_bytes(r, name, n);
    const bool ok = bytes && ls_tensor_write(tensor, bytes, n) == LS_OK;
    free(bytes);
    return ok;
}

static bool feed(const request *r, ls_context *ctx, ls_net *net)
{
    for (int i = 0; i < r->n_inputs; i++) {
        char file[16], name[16] = "input";
        snprintf(file, sizeof(file), "%d", i);
        if (i > 0) snprintf(name, sizeof(name), "input%d", i);
        const bool is_labels = i == 1 && is(r, "cross_entropy");
        ls_tensor *tensor = ls_tensor_open(ctx, is_labels ? LS_I32 : LS_F32, r->shapes[i]);
        if (!fill(r, file, tensor) || ls_net_feed(net, name, tensor) != LS_OK) return false;
    }
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(net, i);
        if (!fill(r, strrchr(p.name, '.') + 1, p.value)) return false;
    }
    return true;
}

static bool write_output(const request *r, ls_net *net)
{
    char path[PATH_SIZE];
    const ls_tensor *output = ls_net_output(net, "output");
    const size_t n = ls_tensor_bytes(output);
    void *bytes = malloc(n);
    snprintf(path, sizeof(path), "%s/out.bin", r->folder);
    FILE *file = fopen(path, "wb");
    bool ok = file && bytes && ls_tensor_read(output, bytes, n) == LS_OK &&
              fwrite(bytes, 1, n, file) == n;
    if (file) ok = fclose(file) == 0 && ok;
    free(bytes);
    return ok;
}

static ls_shape read_shape(const char *text)
{
    ls_shape shape = { 0 };
    for (char *end; shape.n_dims < LS_MAX_DIMS; text = end + 1) {
        shape.dims[shape.n_dims++] = strtoll(text, &end, 10);
        if (*end != 'x') break;
    }
    return shape;
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    request r = { .folder = argv[1], .layer = argv[2] };
    int i = 3;
    for (; i < argc && !strchr(argv[i], '=') && r.n_inputs < MAX_INPUTS; i++)
        r.shapes[r.n_inputs++] = read_shape(argv[i]);
    r.options = argv + i;
    r.n_options = argc - i;
    if (option(&r, "weights") > 0)
        r.class_weights = read_bytes(&r, "weights", (size_t)option(&r, "weights") * sizeof(float));
    ls_context *ctx = ls_context_open(NULL);
    ls_net *net =
        ls_net_build(ctx, model, &r,
                     &(ls_net_config){ .input.image = { LS_F32, r.shapes[0] }, .inference = true });
    const bool ok = net && feed(&r, ctx, net) && ls_net_forward(net, LS_MODE_EVAL) == LS_OK &&
                    write_output(&r, net);
    if (ls_context_status(ctx) != LS_OK) fprintf(stderr, "%s\n", ls_context_message(ctx));
    ls_context_close(&ctx);
    free(r.class_weights);
    return !ok;
}
