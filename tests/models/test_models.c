/* test_models.c: the bundled models: parameter counts against the published ones, names and shapes
 * against torchvision's, and every option. */
#include <lockstep/lockstep.h>
#include <lockstep/models.h>

#include "../suite.h"
#include "nn/net/net.h"
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

/* The digest of a training net with 10 classes, cross-entropy and images of the paper's size. A
 * run's identity has such a digest, so an unintended change makes all runs of the model impossible
 * to resume. */
START_TEST(model_digests)
{
    static const struct {
        const char *name, *digest;
        ls_model_options options;
    } cases[] = {
        { "resnet20", "448dcc90ea3717bc2098031caf020eb3" },
        { "resnet20", "da4decf163cddaf63db5dda836d355aa", { .parameter_free_shortcuts = true } },
        { "resnet20", "9dcfbdb9b2cac22c2fe681099383b0bd", { .zero_init_residual = true } },
        { "resnet20", "25d956c2896f09fc07919dcd89adcf4c", { .stem = LS_STEM_LARGE } },
        { "resnet32", "e4589fc8fc539412a6a18c46953ec6b2" },
        { "resnet44", "c0b77f825659ec5405b417e85b28aeff" },
        { "resnet56", "ec7f9d1ee8d785fa39674e691b90bc20" },
        { "resnet110", "6930a9258886d445fa3fa8fea8fbf214" },
        { "resnet18", "b810f47de27e691b592b29bad30a29ba" },
        { "resnet34", "30536b91b170f6c995828046efc2adc8" },
        { "resnet50", "02e6e5172f2b37fdbbbbedbcdb45bb99" },
        { "resnet101", "0e2ae317ec63608eaf1838656b670b20" },
        { "resnet152", "d0c33a17c264277bc13cc1b3a52dd65d" },
        { "wide_resnet50_2", "8bb23fd9a63090a8a970899a88a0e911" },
        { "resnext50_32x4d", "0b9128bc765a2dccece7eb299380e07f" },
        { "mobilenet_v2", "8630a77ca64790870777a2f49d09778c" },
        { "mobilenet_v2", "72fa713b2bd9df526a4a4bf34718a816", { .dropout = LS_ZERO } },
        { "vgg16_bn", "a292399e5bde546c6f8a8d6bff6ebde7" },
        { "wide_resnet28_10", "912e6725b38f510195c4d58c035a6880" },
        { "wide_resnet28_10", "0b21b3dd048122820bf7e2a87acb7bb3", { .dropout = 0.3f } },
        { "mlp", "48f301c60df62aa94daac755b756642c" },
        { "lenet5", "d06d43d6b86a3b8f38407ec8fa3d50be" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[LS_DIGEST_TEXT_SIZE];
        const ls_model *model = ls_model_find(cases[i].name);
        ls_model_options options = cases[i].options;
        options.n_classes = 10;
        ls_context *ctx = ls_context_open(NULL);
        const ls_shape shape = LS_SHAPE(1, model->image_size, model->image_size,
                                        strcmp(model->name, "lenet5") == 0 ? 1 : 3);
        ls_net *net =
            ls_net_build(ctx, model->function, &options,
                         &(ls_net_config){ .input = { .image = { LS_U8, shape }, .n_classes = 10 },
                                           .loss = { LS_LOSS_CROSS_ENTROPY },
                                           .inference = true });
        expect_ok(ctx);
        ck_assert_msg(strcmp(ls_digest_text(ls__net_model_digest(net), text), cases[i].digest) == 0,
                      "case %d, %s: %s, expected %s", (int)i, model->name, text, cases[i].digest);
        ls_context_close(&ctx);
    }
}
END_TEST

/* An option that a model does not have is an error; that of no dropout is not. */
START_TEST(options_that_a_model_lacks)
{
    static const struct {
        const char *model, *option;
        ls_model_options options;
    } cases[] = {
        { "resnet20", "dropout", { .dropout = 0.1f } },
        { "mlp", "dropout", { .dropout = 0.1f } },
        { "lenet5", "dropout", { .dropout = -0.3f } },
        { "resnet20", "dropout", { .dropout = NAN } },
        { "lenet5", "stem", { .stem = LS_STEM_SMALL } },
        { "mobilenet_v2", "zero_init_residual", { .zero_init_residual = true } },
        { "vgg16_bn", "stem", { .stem = LS_STEM_LARGE } },
        { "wide_resnet28_10", "parameter_free_shortcuts", { .parameter_free_shortcuts = true } },
    };
    ls_context *ctx = ls_context_open(NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const ls_model *model = ls_model_find(cases[i].model);
        const ls_net_config config = { .input.image = { LS_U8, LS_SHAPE(1, model->image_size,
                                                                        model->image_size, 3) },
                                       .inference = true };
        ck_assert_ptr_null(ls_net_build(ctx, model->function, &cases[i].options, &config));
        expect_error(ctx, LS_ERR_INVALID, cases[i].model, "has no option", cases[i].option);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_ptr_nonnull(
            build(ctx, i ? "mlp" : "resnet20", 32, &(ls_model_options){ .dropout = LS_ZERO }));
    const ls_net_config small = { .input.image = { LS_U8, LS_SHAPE(1, 12, 11, 1) },
                                  .inference = true };
    ck_assert_ptr_null(ls_net_build(ctx, ls_lenet5, NULL, &small));
    expect_error(ctx, LS_ERR_SHAPE, "lenet5: images of 11 x 12 pixels, expected sides of at least");
    ls_context_close(&ctx);
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

/* The description has lines of 80 columns, and states the usual reason of a selection once. */
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
            strstr(ls_context_message(ctx),
                   i ? "vgg16_bn: images of 448 x 224 pixels, expected height and width both of 224"
                     : "vgg16_bn: images of 64 x 64 pixels"));
        ls_context_clear_error(ctx);
    }
    ls_context_close(&ctx);
}
END_TEST

TEST_PROGRAM(models)
{
    return RUN_SUITE("models", parameter_counts, model_digests, options_that_a_model_lacks,
                     torchvision_names, multiply_adds, descriptions_fit,
                     stem_goes_by_size_unless_told, zero_init_residual_is_the_last_scale,
                     initial_values_of_mobilenet_v2, vgg_needs_multiples_of_224);
}
