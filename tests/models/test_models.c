/* test_models.c: the bundled models: parameter counts against the published ones, names and shapes
 * against torchvision's, and every option. */
#include <lockstep/lockstep.h>
#include <lockstep/models.h>

#include "../suite.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static ls_net *build(ls_context *ctx, const char *name, int64_t side,
                     const ls_model_options *options)
{
    const ls_model *model = ls_model_find(name);
    ck_assert_ptr_nonnull(model);
    const int64_t channels = strcmp(name, "lenet5") == 0 ? 1 : 3;
    const ls_spec image = { LS_U8, LS_SHAPE(1, side, side, channels) };
    ls_net *net = ls_net_build(ctx, model->function, options,
                               &(ls_net_config){ .input = { .image = image }, .inference = true });
    if (!net) ck_abort_msg("%s", ls_context_message(ctx));
    return net;
}

static int64_t count(const char *name, const ls_model_options *options)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *net = build(ctx, name, ls_model_find(name)->image_size, options);
    const int64_t n = ls_net_parameter_element_count(net);
    ls_context_close(&ctx);
    return n;
}

/* He et al. 2015 give 0.27 M, 0.46 M, 0.66 M, 0.85 M, 1.7 M for the nets of section 4.2, with
 * parameter-free shortcuts; a projection adds 1x1 weights and a batch norm at two places: 16 * 32 +
 * 64 and 32 * 64 + 128. The others are torchvision's numbers. */
START_TEST(parameter_counts)
{
    static const struct {
        const char *name;
        int64_t plain, parameter_free;
    } cases[] = {
        { "resnet20", 272474, 269722 },
        { "resnet32", 466906, 464154 },
        { "resnet44", 661338, 658586 },
        { "resnet56", 855770, 853018 },
        { "resnet110", 1730714, 1727962 },
        { "resnet18", 11689512, 0 },
        { "resnet34", 21797672, 0 },
        { "resnet50", 25557032, 0 },
        { "resnet101", 44549160, 0 },
        { "resnet152", 60192808, 0 },
        { "wide_resnet50_2", 68883240, 0 },
        { "resnext50_32x4d", 25028904, 0 },
        { "mobilenet_v2", 3504872, 0 },
        { "vgg16_bn", 138365992, 0 },
        { "wide_resnet28_10", 36479194, 0 },
        { "mlp", 1472522, 0 },
        { "lenet5", 61706, 0 }, /* of one channel */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_str_eq(ls_model_at((int)i)->name, cases[i].name);
        ck_assert_int_eq(count(cases[i].name, NULL), cases[i].plain);
        if (cases[i].parameter_free)
            ck_assert_int_eq(
                count(cases[i].name, &(ls_model_options){ .parameter_free_shortcuts = true }),
                cases[i].parameter_free);
    }
    ck_assert_ptr_null(ls_model_at((int)(sizeof(cases) / sizeof(cases[0]))));
    ck_assert_ptr_null(ls_model_at(-1));
    ck_assert_ptr_null(ls_model_find("resnet19"));
    ck_assert_ptr_null(ls_model_find(NULL));
}
END_TEST

/* Each line of tests/models/<name>.txt is "name [shape]". */
static void compare_names(const char *name)
{
    char path[512], line[256], got[256], shape[LS_SHAPE_TEXT_SIZE];
    snprintf(path, sizeof(path), "%s/tests/models/%s.txt", LOCKSTEP_SOURCE_DIR, name);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ls_context *ctx = ls_context_open(NULL);
    ls_net *net = build(ctx, name, 224, NULL);
    int64_t n = 0;
    for (; fgets(line, sizeof(line), file); n++) {
        line[strcspn(line, "\n")] = '\0';
        bool found = false;
        for (int64_t i = 0; !found && i < ls_net_parameter_count(net); i++) {
            const ls_parameter_info entry = ls_net_parameter_at(net, i);
            snprintf(got, sizeof(got), "%s %s", entry.name,
                     ls_shape_text(ls_tensor_shape(entry.value), shape, sizeof(shape)));
            found = strcmp(got, line) == 0;
        }
        ck_assert_msg(found, "%s: no %s", name, line);
    }
    ck_assert_int_eq(n, ls_net_parameter_count(net));
    fclose(file);
    ls_context_close(&ctx);
}

START_TEST(torchvision_names)
{
    compare_names("resnet18");
    compare_names("resnet50");
    compare_names("wide_resnet50_2");
    compare_names("resnext50_32x4d");
    compare_names("mobilenet_v2");
    compare_names("vgg16_bn");
}
END_TEST

/* torchvision's documentation gives 1.81 and 4.09 G multiply-adds at 224x224; the latter would
 * be 3.86 if bottlenecks took their stride in the first 1x1 convolution. */
START_TEST(multiply_adds)
{
    static char text[1 << 16];
    ls_context *ctx = ls_context_open(NULL);
    ls_net_describe(build(ctx, "resnet18", 224, NULL), text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, " 1814073344"));
    ls_net_describe(build(ctx, "resnet50", 224, NULL), text, sizeof(text));
    ck_assert_ptr_nonnull(strstr(text, " 4089184256"));
    ls_context_close(&ctx);
}
END_TEST

/* In lines of 80 columns, with the usual reason of a selection stated once. */
START_TEST(descriptions_fit)
{
    enum { COLUMNS = 80 };
    static char text[1 << 16];
    static const char *const names[] = { "resnet20", "resnet50" };
    for (int i = 0; i < 2; i++) {
        ls_context *ctx = ls_context_open(NULL);
        const ls_shape shape = i ? LS_SHAPE(2, 224, 224, 3) : LS_SHAPE(2, 32, 32, 3);
        ls_net *net = ls_net_build(ctx, ls_model_find(names[i])->function, NULL,
                                   &(ls_net_config){ .input = { .image = { LS_U8, shape } },
                                                     .loss = { LS_LOSS_CROSS_ENTROPY } });
        const int length = ls_net_describe(net, text, sizeof text);
        ck_assert(length > 0 && length < (int)sizeof text);
        for (const char *line = text; *line; line += strcspn(line, "\n") + 1) {
            const int columns = (int)strcspn(line, "\n");
            ck_assert_msg(columns <= COLUMNS, "%d columns: %.*s", columns, columns, line);
            ck_assert_msg(columns == 0 || line[columns - 1] != ' ', "'%.*s'", columns, line);
        }
        const char *once = strstr(text, "heuristic");
        ck_assert(once && !strstr(once + 1, "heuristic"));
        ls_context_close(&ctx);
    }
}
END_TEST

static void check_stem(int64_t side, ls_stem stem, int64_t kernel)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *net = build(ctx, "resnet18", side, &(ls_model_options){ .stem = stem });
    const ls_shape *shape = ls_tensor_shape(ls_net_parameter(net, "conv1.weight"));
    ck_assert(ls_shape_equal(shape, &LS_SHAPE(64, kernel, kernel, 3)));
    ls_context_close(&ctx);
}

START_TEST(stem_goes_by_size_unless_told)
{
    check_stem(32, LS_STEM_AUTO, 3);
    check_stem(64, LS_STEM_AUTO, 7);
    check_stem(32, LS_STEM_LARGE, 7);
    check_stem(64, LS_STEM_SMALL, 3);
}
END_TEST

static float first_value(ls_net *net, const char *name)
{
    float values[2048];
    const ls_tensor *tensor = ls_net_parameter(net, name);
    ck_assert_int_le(ls_tensor_bytes(tensor), sizeof(values));
    ck_assert_int_eq(ls_tensor_read(tensor, values, ls_tensor_bytes(tensor)), LS_OK);
    return values[0];
}

START_TEST(zero_init_residual_is_the_last_scale)
{
    ls_context *ctx = ls_context_open(NULL);
    const ls_model_options zero = { .n_classes = 7, .zero_init_residual = true };
    ls_net *basic = build(ctx, "resnet20", 32, &zero), *deep = build(ctx, "resnet50", 64, &zero);
    ck_assert(first_value(basic, "layer1.0.bn1.weight") == 1);
    ck_assert(first_value(basic, "layer1.0.bn2.weight") == 0);
    ck_assert(first_value(basic, "layer2.0.downsample.1.weight") == 1);
    ck_assert(first_value(deep, "layer1.0.bn2.weight") == 1);
    ck_assert(first_value(deep, "layer1.0.bn3.weight") == 0);
    ck_assert(
        ls_shape_equal(ls_tensor_shape(ls_net_parameter(deep, "fc.weight")), &LS_SHAPE(7, 2048)));
    ls_context_close(&ctx);
}
END_TEST

/* torchvision: normal, std 0.01, and 0. */
START_TEST(initial_values_of_mobilenet_v2)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_net *net = build(ctx, "mobilenet_v2", 64, NULL);
    const ls_tensor *weight = ls_net_parameter(net, "classifier.1.weight");
    const int64_t n = ls_tensor_element_count(weight);
    const float *w = ls_tensor_data_const(weight);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)w[i];
        squares += (double)w[i] * (double)w[i];
    }
    ck_assert_double_eq_tol(sum / (double)n, 0, 5 * 0.01 / sqrt((double)n));
    ck_assert_double_eq_tol(sqrt(squares / (double)n), 0.01, 1e-4);
    const float *bias = ls_tensor_data_const(ls_net_parameter(net, "classifier.1.bias"));
    for (int i = 0; i < 1000; i++) ck_assert(bias[i] == 0);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(vgg_needs_multiples_of_224)
{
    ls_context *ctx = ls_context_open(NULL);
    const ls_spec images[] = { { LS_U8, LS_SHAPE(1, 64, 64, 3) },
                               { LS_U8, LS_SHAPE(1, 224, 448, 3) } };
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_null(
            ls_net_build(ctx, ls_vgg16_bn, NULL,
                         &(ls_net_config){ .input = { .image = images[i] }, .inference = true }));
        ck_assert_int_eq(ls_context_status(ctx), LS_ERR_UNSUPPORTED);
        ck_assert_ptr_nonnull(
            strstr(ls_context_message(ctx), i ? "vgg16_bn: images of 448 x 224 pixels"
                                              : "vgg16_bn: images of 64 x 64 pixels"));
        ls_context_clear_error(ctx);
    }
    ls_context_close(&ctx);
}
END_TEST

int main(void)
{
    return RUN_SUITE("models", parameter_counts, torchvision_names, multiply_adds, descriptions_fit,
                     stem_goes_by_size_unless_told, zero_init_residual_is_the_last_scale,
                     initial_values_of_mobilenet_v2, vgg_needs_multiples_of_224);
}
