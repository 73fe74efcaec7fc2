/* export_models.c: exports a bundled model in every way, with random weights and running
 * statistics, for onnx_runs.py. usage: export_models FOLDER MODEL SIDE OPSET. Writes 0.onnx
 * to 3.onnx (bit 0: batch norms are kept, bit 1: input of bytes), images.bin, u8 [16,SIDE,SIDE,3],
 * and NAME.bin, f32, for each output. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_IMAGES = 16, N_CLASSES = 10 };

static bool write_bytes(const char *folder, const char *name, const void *bytes, size_t n)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    const bool ok = file && fwrite(bytes, 1, n, file) == n;
    return file && fclose(file) == 0 && ok;
}

/* Every layer that the bundled models do not have, and orders of columns after ls_flatten. */
static ls_node *all_layers(ls_graph *g, ls_node *x, const void *options)
{
    const ls_model_options *o = options;
    const ls_conv2d_config dilated = { .kernel = 3,
                                       .kernel_w = 5,
                                       .stride_w = 2,
                                       .padding = 2,
                                       .padding_w = 3,
                                       .dilation = 2,
                                       .bias = true };
    ls_node *a = ls_conv2d(g, "conv", x, 6, &dilated);
    a = ls_batch_norm(g, "bn", a, NULL);
    ls_output(g, "early", a);
    ls_output(g, "again", a);
    ls_output(g, "image", x);
    ls_node *b = ls_gelu(g, ls_group_norm(g, "gn", a, 3, NULL));
    ls_node *c = ls_silu(g, ls_layer_norm(g, "ln", a, NULL));
    ls_node *d = ls_mul(g, ls_sigmoid(g, a), ls_tanh(g, a));
    d = ls_add(g, ls_hard_swish(g, d), ls_leaky_relu(g, ls_hard_sigmoid(g, d), 0.1f));
    d = ls_log(g, ls_exp(g, ls_add(g, d, ls_sqrt(g, ls_abs(g, d)))));
    ls_node *e = ls_concat(g, 3, (ls_node *[]){ b, c, ls_softmax(g, d) });
    e = ls_avg_pool(g, e, &(ls_pool_config){ .kernel = 3, .stride = 2, .padding = 1 });
    e = ls_stochastic_depth(g, ls_pad_channels(g, e, 20), 0.5f, LS_STOCHASTIC_DEPTH_ROW);
    e = ls_conv2d(g, "grouped", e, 8, &(ls_conv2d_config){ .kernel = 4, .stride = 4, .groups = 4 });
    ls_node *flat = ls_flatten(g, ls_relu6(g, e));
    ls_node *y = ls_linear(g, "fc1", ls_dropout(g, ls_gelu(g, flat), 0.5f), 12, NULL);
    y = ls_relu(g, ls_batch_norm(g, "bn1", y, NULL));
    ls_node *z = ls_group_norm(g, "gn2", ls_batch_norm(g, "bn2", flat, NULL), 4, NULL);
    z = ls_linear(g, "fc2", ls_layer_norm(g, "ln2", z, NULL), 12, NULL);
    ls_output(g, "flat", flat);
    return ls_linear(g, "fc", ls_add(g, y, z), o->n_classes, NULL);
}
static const ls_model layers_model = { "all_layers", all_layers, 32, 10, false, -1 };

static const char *const layers_outputs[] = { "early", "again", "image", "flat", "output", NULL };

static bool write_output(const char *folder, ls_net *net, const char *name)
{
    char file[64];
    const ls_tensor *output = ls_net_output(net, name);
    const size_t n = ls_tensor_bytes(output);
    float *values = malloc(n);
    snprintf(file, sizeof(file), "%s.bin", name);
    const bool ok = values && ls_tensor_read(output, values, n) == LS_OK &&
                    write_bytes(folder, file, values, n);
    free(values);
    return ok;
}

/* Norms differ from 1 and 0, so that each of their parameters counts. In the deepest nets they are
 * small, because the sum of many residual branches would have logits whose rounding exceeds 1e-4.
 */
static void randomize(ls_net *net)
{
    const float high = ls_net_parameter_count(net) > 300 ? 0.3f : 1;
    for (int64_t i = 0; i < ls_net_parameter_count(net); i++) {
        const ls_parameter_info p = ls_net_parameter_at(net, i);
        const bool is_var = strstr(p.name, "running_var"), is_mean = strstr(p.name, "running_mean");
        if (is_var || (p.kind == LS_PARAMETER_NORM && strstr(p.name, ".weight")))
            ls_tensor_random_uniform(p.value, (uint64_t)i, is_var ? 0.5f : high / 2,
                                     is_var ? 2 : high);
        else if (is_mean || p.kind == LS_PARAMETER_NORM)
            ls_tensor_random_normal(p.value, (uint64_t)i, 0, 0.1f);
    }
}

int main(int argc, char **argv)
{
    static const char *const classes[] = { "\"a\"", "b", "c", "d", "e",
                                           "f",     "g", "h", "i", "\xc3\xa9" };
    if (argc != 5) return 2;
    const int64_t side = atoll(argv[3]);
    const size_t n = (size_t)(N_IMAGES * side * side * 3);
    const ls_model *model =
        strcmp(argv[2], "all_layers") == 0 ? &layers_model : ls_model_find(argv[2]);
    if (!model) return 2;
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 7 });
    ls_net *net = ls_net_build(
        ctx, model->function, &(ls_model_options){ .n_classes = N_CLASSES },
        &(ls_net_config){ .input = { .image = { LS_U8, LS_SHAPE(N_IMAGES, side, side, 3) },
                                     .mean = { 0.485f, 0.456f, 0.406f },
                                     .std = { 0.229f, 0.224f, 0.225f } },
                          .inference = true });
    if (net) randomize(net);
    uint8_t *bytes = malloc(n);
    if (!bytes) return 1;
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)((uint32_t)(i * 2654435761u) >> 21);
    ls_tensor *images = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(N_IMAGES, side, side, 3), bytes);
    ls_net_feed(net, "input", images);
    ls_net_forward(net, LS_MODE_EVAL);
    for (int i = 0; i < 4; i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/%d.onnx", argv[1], i);
        ls_onnx_export(net,
                       &(ls_onnx_config){ .opset = atoi(argv[4]),
                                          .keep_batch_norm = i & 1,
                                          .input = i & 2 ? LS_ONNX_INPUT_BYTES : LS_ONNX_INPUT_F32,
                                          .classes = classes,
                                          .n_classes = N_CLASSES },
                       path);
    }
    bool ok = ls_context_status(ctx) == LS_OK && write_bytes(argv[1], "images.bin", bytes, n);
    const char *const *outputs = model == &layers_model ? layers_outputs : layers_outputs + 4;
    for (int i = 0; ok && outputs[i]; i++) ok = write_output(argv[1], net, outputs[i]);
    if (!ok) fprintf(stderr, "%s\n", ls_context_message(ctx));
    free(bytes);
    ls_context_close(&ctx);
    return !ok;
}
