/* test_identity.c: what belongs to a run's identity, and how differences are told. */
#include "checkpoint/identity.h"

#include "../suite.h"
#include "optim/schedule.h"
#include "run/run_files.h"
#include <lockstep/text.h>
#include <lockstep/lockstep.h>
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

/* What a run may vary. */
typedef struct variant {
    uint64_t seed;
    int threads, workers;
    float dropout, epsilon, flip, smoothing, lr;
    ls_loader_config augment;
    int label; /* of the first sample */
    bool other_output_name;
    ls_init init;
    const char *op_kind, *op_settings, *frozen;
    bool op_learns, soft_targets;
    ls_parameter_kind parameter;
    ls_recompute recompute;
    ls_arithmetic arithmetic;
    ls_precision precision;
} variant;

/* An op whose callbacks nobody will call. */
static ls_status nothing(const ls_custom_op_call *call)
{
    (void)call;
    return LS_OK;
}

static ls_node *own_op(ls_graph *g, ls_node *x, const variant *v)
{
    ls_node *inputs[] = { x, ls_parameter(g, "own.p", LS_SHAPE(8), v->parameter, LS_INIT_ONE) };
    return ls_custom_op(g, "own", 2, inputs,
                        &(ls_custom_op_config){ .kind = v->op_kind,
                                                .output = { LS_F32, ls_node_shape(x) },
                                                .forward = nothing,
                                                .backward = v->op_learns ? nothing : NULL,
                                                .settings = v->op_settings });
}

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    const variant *v = options;
    x = ls_conv2d(g, "conv", x, 8,
                  &(ls_conv2d_config){ .kernel = 3, .padding = 1, .init = v->init });
    x = ls_relu(g, ls_batch_norm(g, "bn", x, &(ls_batch_norm_config){ .epsilon = v->epsilon }));
    x = own_op(g, ls_dropout(g, ls_global_avg_pool(g, x), v->dropout), v);
    ls_node *y = ls_linear(g, "fc", x, 2, NULL);
    ls_node *sum = ls_linear(g, "aux", x, 1, NULL);
    ls_output(g, v->other_output_name ? "b" : "a", sum);
    return y;
}

static json_t *identity_of(const variant *v)
{
    enum { N = 6, SIDE = 4 };
    static const uint8_t pixels[N * SIDE * SIDE * 3];
    const int32_t labels[N] = { v->label, 1, 0, 1, 0, 1 };
    ls_context *ctx = ls_context_open(&(ls_context_config){
        .device = "cpu", .seed = v->seed, .threads = v->threads, .arithmetic = v->arithmetic });
    ls_dataset *data = ls_dataset_from_memory(ctx, pixels, LS_SHAPE(N, SIDE, SIDE, 3), labels, 2);
    ls_loader_config config = v->augment;
    config.batch_size = 2;
    config.workers = v->workers;
    config.flip_probability = v->flip;
    ls_loader *loader = ls_loader_open(data, &config);
    ls_net *net = ls_net_build(
        ctx, model, v,
        &(ls_net_config){ .input = ls_loader_input_spec(loader),
                          .recompute = v->recompute,
                          .precision = v->precision,
                          .loss = { LS_LOSS_CROSS_ENTROPY, .label_smoothing = v->smoothing,
                                    .soft_targets = v->soft_targets } });
    if (v->frozen) ls_net_freeze(net, v->frozen);
    ls_training_state state = { .net = net,
                                .loader = loader,
                                .validation = loader,
                                .optimizer = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f }),
                                .schedule = ls_schedule_open(
                                    ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                                .lr = v->lr,
                                                                .steps_per_epoch = 3 }) };
    json_t *out = ls__identity_make(ctx, &state);
    ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
    ls_context_close(&ctx);
    return out;
}

static const variant usual = { .seed = UINT64_MAX,
                               .threads = 1,
                               .dropout = 0.5f,
                               .epsilon = 1e-5f,
                               .flip = 0.5f,
                               .lr = 0.1f,
                               .op_kind = "own",
                               .op_learns = true };

/* The first difference's text, "" when there is none. */
static const char *compare_with_usual(const variant *v)
{
    static char text[512];
    const bool whole = true;
    json_t *a = identity_of(&usual), *b = identity_of(v);
    json_t *differences = ls__identity_differences(a, b, whole);
    *text = '\0';
    if (json_array_size(differences) > 0)
        ls__identity_text(json_array_get(differences, 0), "there", "here", text, sizeof(text));
    json_decref(differences);
    json_decref(a);
    json_decref(b);
    return text;
}

START_TEST(portable_arithmetic_has_no_processor)
{
    json_t *identity = identity_of(&usual);
    ck_assert_ptr_null(json_object_get(identity, "processor"));
    ck_assert_ptr_null(json_object_get(identity, "environment"));
    const char *libraries = json_string_value(json_object_get(identity, "libraries"));
    ck_assert_msg(strncmp(libraries, "own kernels ", 12) == 0, "%s", libraries);
    json_decref(identity);
}
END_TEST

/* A variable of this process, for a net in bf16, where native arithmetic uses oneDNN; the text of
 * the difference. */
static const char *compare_with_variable(ls_arithmetic arithmetic, const char *name,
                                         const char *value)
{
    static char text[512];
    variant v = usual;
    v.arithmetic = arithmetic;
    v.precision = LS_PRECISION_BF16;
    json_t *there = identity_of(&v);
    ck_assert_int_eq(setenv(name, value, 1), 0);
    json_t *here = identity_of(&v), *differences;
    ck_assert_int_eq(unsetenv(name), 0);
    *text = '\0';
    const bool whole[] = { false, true };
    for (int i = 0; i < 2; i++) {
        differences = ls__identity_differences(there, here, whole[i]);
        if (json_array_size(differences) > 0)
            ls__identity_text(json_array_get(differences, 0), "there", "here", text, sizeof(text));
        json_decref(differences);
        differences = ls__identity_differences(here, there, whole[i]);
        ck_assert_int_eq(json_array_size(differences), *text != '\0');
        json_decref(differences);
    }
    /* A checkpoint of a version without the field. */
    json_object_del(there, "environment");
    differences = ls__identity_differences(there, here, false);
    ck_assert_int_eq(json_array_size(differences), *text != '\0');
    json_decref(differences);
    json_decref(there);
    json_decref(here);
    return text;
}

START_TEST(variables_that_change_kernels_count)
{
    static const char hints[] = "ONEDNN_CPU_ISA_HINTS";
    ck_assert_str_eq(compare_with_variable(LS_ARITHMETIC_PORTABLE, hints, "PREFER_YMM"), "");
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    variant native = usual;
    native.arithmetic = LS_ARITHMETIC_NATIVE;
    native.precision = LS_PRECISION_BF16;
    json_t *identity = identity_of(&native);
    const bool uses_onednn = json_object_get(identity, "processor") != NULL;
    json_decref(identity);
    if (!uses_onednn) SKIP("the processor does not multiply bf16, or LOCKSTEP_MAX_ISA is set");
    ck_assert_str_eq(compare_with_variable(LS_ARITHMETIC_NATIVE, hints, "PREFER_YMM"),
                     "environment.ONEDNN_CPU_ISA_HINTS is missing there, \"PREFER_YMM\" here");
    ck_assert_str_eq(compare_with_variable(LS_ARITHMETIC_NATIVE, "OMP_NUM_THREADS", "1"), "");
}
END_TEST

START_TEST(execution_settings_do_not_count)
{
    variant v = usual;
    v.threads = 3;
    v.workers = 2;
    ck_assert_str_eq(compare_with_usual(&v), "");
    /* what is computed again comes out the same */
    v.recompute = LS_RECOMPUTE_CHEAP;
    ck_assert_str_eq(compare_with_usual(&v), "");
}
END_TEST

static const char *epochs_of(ls_context *ctx, ls_schedule *schedule, json_t **identity)
{
    json_decref(*identity);
    *identity = ls__identity_make(ctx, &(ls_training_state){ .schedule = schedule });
    json_t *epochs = json_object_get(json_object_get(*identity, "schedule"), "epochs");
    static char text[24];
    snprintf(text, sizeof text, "%lld", (long long)json_integer_value(epochs));
    return text;
}

/* With the warm-up, as they were asked for. */
START_TEST(epochs_of_schedules)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    json_t *identity = NULL;
    ls_schedule *schedules[] = {
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_COSINE,
                                                     .lr = 1,
                                                     .epochs = 9,
                                                     .warmup_epochs = 2,
                                                     .steps_per_epoch = 3 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_POLYNOMIAL,
                                                     .lr = 1,
                                                     .epochs = 9,
                                                     .warmup_epochs = 2,
                                                     .warmup_start = 0.1,
                                                     .steps_per_epoch = 3 }),
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_ONE_CYCLE,
                                                     .lr = 1,
                                                     .epochs = 9,
                                                     .steps_per_epoch = 3 })
    };
    for (int i = 0; i < 3; i++) ck_assert_str_eq(epochs_of(ctx, schedules[i], &identity), "9");
    ls_schedule *constant =
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                                     .lr = 1,
                                                     .steps_per_epoch = 3,
                                                     .warmup_epochs = 2,
                                                     .warmup_start = 0.1 });
    ck_assert_str_eq(epochs_of(ctx, constant, &identity), "0"); /* it never ends */
    json_decref(identity);
    ls_context_close(&ctx);
}
END_TEST

static double half(int64_t epoch, int64_t step, void *user)
{
    (void)epoch;
    (void)step;
    (void)user;
    return 0.5;
}

START_TEST(functions_count_by_their_settings)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    json_t *identities[3];
    for (int i = 0; i < 3; i++) {
        const ls_schedule_config config = { .kind = LS_SCHEDULE_CUSTOM,
                                            .lr = 1,
                                            .factor = half,
                                            .settings = i < 2 ? "half" : "third" };
        const ls_training_state state = { .schedule = ls_schedule_open(ctx, &config) };
        identities[i] = ls__identity_make(ctx, &state);
    }
    json_t *same = ls__identity_differences(identities[0], identities[1], true);
    json_t *other = ls__identity_differences(identities[0], identities[2], true);
    char text[256];
    ck_assert_int_eq(json_array_size(same), 0);
    ck_assert_int_eq(json_array_size(other), 1);
    ck_assert_str_eq(
        ls__identity_text(json_array_get(other, 0), "there", "here", text, sizeof text),
        "schedule.settings is \"half\" there, \"third\" here");
    json_decref(same);
    json_decref(other);
    for (int i = 0; i < 3; i++) json_decref(identities[i]);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(all_that_decides_counts)
{
    enum { N_ALL = 24 };
    variant all[N_ALL];
    for (int i = 0; i < N_ALL; i++) all[i] = usual;
    all[0].seed = 1;
    all[1].label = 1;
    all[2].flip = 0.25f;
    all[3].dropout = 0.25f;
    all[4].epsilon = 1e-3f;
    all[5].smoothing = 0.1f;
    all[6].other_output_name = true;
    all[7].init = LS_INIT_ZERO;
    all[8].lr = 0.2f;
    all[9].op_kind = "other";
    all[10].op_settings = "slope 0.1";
    all[11].op_learns = false;
    all[12].parameter = LS_PARAMETER_BIAS; /* weight decay may pass over it */
    all[13].frozen = "f*";
    all[14].augment.vertical_flip_probability = 0.5f;
    all[15].augment.auto_augment = LS_AUTO_AUGMENT_RAND;
    all[16].augment.brightness = 0.4f;
    all[17].augment.contrast = 0.4f;
    all[18].augment.saturation = 0.4f;
    all[19].augment.hue = 0.1f;
    all[20].augment.random_erase = 0.25f;
    all[21].augment.mixup_alpha = 0.2f;
    all[22].augment.cutmix_alpha = 1;
    all[23].soft_targets = true;
    static const char *const starts[N_ALL] = { "seed is \"18446744073709551615\" there, \"1\" here",
                                               "data.digest is \"",
                                               "loader.flip is 0.5 there, 0.25 here",
                                               "model.digest is \"",
                                               "model.digest is \"",
                                               "model.digest is \"",
                                               "model.digest is \"",
                                               "model.digest is \"",
                                               "schedule.lr is 0.1",
                                               "model.digest is \"",
                                               "model.digest is \"",
                                               "model.digest is \"",
                                               "model.digest is \"",
                                               "model.frozen is missing there, [\"fc.weight\"",
                                               "loader.vertical_flip is missing there, 0.5 here",
                                               "loader.auto_augment is missing there, 2 here",
                                               "loader.brightness is missing there, 0.4 here",
                                               "loader.contrast is missing there, 0.4 here",
                                               "loader.saturation is missing there, 0.4 here",
                                               "loader.hue is missing there, 0.1 here",
                                               "loader.random_erase is missing there, 0.25 here",
                                               "loader.mixup_alpha is missing there, 0.2 here",
                                               "loader.cutmix_alpha is missing there, 1 here",
                                               "model.digest is \"" };
    for (int i = 0; i < N_ALL; i++) {
        const char *text = compare_with_usual(&all[i]);
        ck_assert_msg(strncmp(text, starts[i], strlen(starts[i])) == 0, "%d: '%s'", i, text);
    }
}
END_TEST

static void expect_differences(bool whole, const char *there, const char *here, const char *wanted)
{
    json_t *a = json_loads(there, 0, NULL), *b = json_loads(here, 0, NULL);
    json_t *found = ls__identity_differences(a, b, whole), *good = json_loads(wanted, 0, NULL);
    ck_assert(a && b && good);
    char *text = json_dumps(found, 0);
    ck_assert_msg(json_equal(found, good), "%s", text);
    free(text);
    json_decref(found);
    json_decref(good);
    json_decref(a);
    json_decref(b);
}

START_TEST(differences_are_listed)
{
    expect_differences(false, "{\"a\": 1, \"b\": {\"c\": [1, 2]}}", "{\"b\": {\"c\": [1, 2]}}",
                       "[]");
    expect_differences(false, "{\"b\": {\"c\": 1, \"e\": 0.1}}", "{\"b\": {\"d\": 2, \"e\": 0.1}}",
                       "[{\"field\": \"b.d\", \"there\": null, \"here\": 2},"
                       " {\"field\": \"b.c\", \"there\": 1, \"here\": null}]");
    expect_differences(false, "{\"b\": 1}", "{\"b\": {\"d\": 2}}",
                       "[{\"field\": \"b\", \"there\": 1, \"here\": {\"d\": 2}}]");
    expect_differences(true, "{\"a\": 1, \"b\": {\"c\": 1}}", "{\"b\": {\"c\": 1}}",
                       "[{\"field\": \"a\", \"there\": 1, \"here\": null}]");
    /* only the kernels of ops that both have */
    expect_differences(false, "{\"kernels\": {\"x\": \"1\", \"y\": \"2\"}}",
                       "{\"kernels\": {\"y\": \"3\", \"z\": \"4\"}}",
                       "[{\"field\": \"kernels.y\", \"there\": \"2\", \"here\": \"3\"}]");
}
END_TEST

static bool is_utf8(const char *text)
{
    int32_t code = 0;
    while (*text && code >= 0) text += ls_utf8_next(text, &code);
    return code >= 0;
}

/* A value of more than 127 bytes is truncated where it is, at a whole character; so is the text in
 * a buffer that is too small for it. */
START_TEST(long_values_are_truncated)
{
    static const char *const names[] = {
        "a class whose name has 35 bytes: 1.", /* the third one is cut */
        "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f: \xe2\x82\xac \xf0\x9f\x98\x80 ", "x"
    };
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        json_t *there = json_object(), *here = json_object(), *list = json_array();
        for (int i = 0; i < 60; i++) json_array_append_new(list, json_string(names[k]));
        json_object_set_new(there, "classes", list);
        json_object_set_new(here, "classes", json_pack("[s]", names[k]));
        json_t *differences = ls__identity_differences(there, here, true);
        ck_assert_int_eq(json_array_size(differences), 1);
        const json_t *difference = json_array_get(differences, 0);
        char *json = json_dumps(list, 0), wanted[512], got[512];
        int n = 127;
        while (((unsigned char)json[n] & 0xC0) == 0x80) n--;
        snprintf(wanted, sizeof wanted, "classes is %.*s... there, [\"%s\"] here", n, json,
                 names[k]);
        const size_t length = strlen(wanted);
        for (size_t size = 1; size <= length + 1; size++) {
            ls__identity_text(difference, "there", "here", got, size);
            ck_assert_uint_lt(strlen(got), size);
            ck_assert_uint_ge(strlen(got) + 4, size); /* a character has up to 4 bytes */
            ck_assert_msg(strncmp(got, wanted, strlen(got)) == 0 && is_utf8(got), "%s", got);
        }
        ck_assert_str_eq(got, wanted);
        free(json);
        json_decref(differences);
        json_decref(there);
        json_decref(here);
    }
}
END_TEST

/* A damaged file may have keys of any length. */
START_TEST(long_keys_are_truncated)
{
    enum { LENGTH = 5000 };
    static const char *const sections[] = { "data", "split" }; /* lengths modulo 2 */
    static char key[2 * LENGTH + 1];
    for (int i = 0; i < LENGTH; i++) memcpy(key + 2 * i, "\xc3\xa9", 3);
    for (int k = 0; k < 2; k++) {
        json_t *there = json_pack("{s: {s: i}}", sections[k], key, 1);
        json_t *here = json_pack("{s: {s: i}}", sections[k], key, 2);
        json_t *differences = ls__identity_differences(there, here, true);
        ck_assert_int_eq(json_array_size(differences), 1);
        const char *field =
            json_string_value(json_object_get(json_array_get(differences, 0), "field"));
        const size_t length = strlen(sections[k]);
        ck_assert(strncmp(field, sections[k], length) == 0 && field[length] == '.');
        ck_assert(strncmp(field + length + 1, key, strlen(field) - length - 1) == 0);
        json_decref(differences);
        json_decref(there);
        json_decref(here);
    }
}
END_TEST

/* Those who open schedules refuse such settings; should one come through, it is no reason to report
 * that there is no memory. */
START_TEST(settings_without_a_number_in_json)
{
    ls_context *ctx = ls_context_open(NULL);
    ls_schedule *schedule =
        ls_schedule_open(ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT, .lr = 1 });
    schedule->config.lr = INFINITY;
    schedule->config.min_lr = NAN;
    schedule->config.gamma = -INFINITY;
    json_t *identity = ls__identity_make(ctx, &(ls_training_state){ .schedule = schedule });
    ck_assert_msg(identity != NULL, "%s", ls_context_message(ctx));
    json_t *wanted = json_pack("{s:s, s:s, s:s, s:s}", "name", "constant", "lr", "inf", "min_lr",
                               "nan", "gamma", "-inf");
    ck_assert(json_equal(json_object_get(identity, "schedule"), wanted));
    json_decref(wanted);
    json_decref(identity);
    ls_context_close(&ctx);
}
END_TEST

/* Stands before the C library's, so that a test can pretend to be on another host. */
static const char *pretended_host;

int uname(struct utsname *out)
{
    const long status = syscall(SYS_uname, out);
    if (pretended_host) snprintf(out->nodename, sizeof out->nodename, "%s", pretended_host);
    return (int)status;
}

/* Its bytes are those that sethostname was given. */
START_TEST(hosts_may_have_any_name)
{
    static const char *const hosts[][2] = { { "host", "host" },
                                            { "b\xc3\xbcro", "b\xc3\xbcro" },
                                            { "b\xfcro", "b\\xFCro" } };
    ls_context *ctx = ls_context_open(NULL);
    for (int i = 0; i < 3; i++) {
        pretended_host = hosts[i][0];
        json_t *provenance = ls__provenance_make(ctx);
        pretended_host = NULL;
        ck_assert_ptr_nonnull(provenance);
        ck_assert_str_eq(json_string_value(json_object_get(provenance, "host")), hosts[i][1]);
        const char *webp = json_string_value(json_object_get(provenance, "webp"));
        ck_assert(webp && strncmp(webp, "libwebp ", 8) == 0);
        const char *jpeg = json_string_value(json_object_get(provenance, "jpeg"));
        ck_assert(jpeg && strncmp(jpeg, "libjpeg", 7) == 0);
        json_decref(provenance);
    }
    ls_context_close(&ctx);
}
END_TEST

/* The member of a split's identity, without its quotes; "" where there is none. */
static const char *grouped_by(ls_context *ctx, ls_dataset *split, const char *member)
{
    static char text[64];
    json_t *data = ls__identity_data(ctx, split);
    const char *found = json_string_value(json_object_get(json_object_get(data, "split"), member));
    snprintf(text, sizeof(text), "%s", found ? found : "");
    json_decref(data);
    return text;
}

/* What a split was divided by: not what its dataset is grouped by later, nor how the caller named
 * the column. */
START_TEST(groups_of_splits)
{
    static const struct {
        const char *list, *given, *column;
    } cases[] = { { "path,label,Patient\na.jpg,x,1\nb.jpg,x,2\n", "Patient", "Patient" },
                  { "path,label,Patient\na.jpg,x,1\nb.jpg,x,2\n", "patient", "Patient" },
                  { "path,label,Patient\na.jpg,x,1\nb.jpg,x,2\n", "3", "Patient" },
                  { "path,label,\na.jpg,x,1\nb.jpg,x,2\n", "3", "3" },
                  { "a.jpg,x,1\nb.jpg,x,2\n", "03", "3" } };
    char *folder = new_folder();
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const char *const path = path_in(folder, "list.csv");
    write_text(path_in(folder, "a.jpg"), "a");
    write_text(path_in(folder, "b.jpg"), "b");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_text(path, cases[i].list);
        const ls_csv_config config = { .group_column = cases[i].given };
        ls_dataset *data = ls_csv_open_config(ctx, path, &config), *train, *val;
        ck_assert_int_eq(ls_dataset_split(data, 0.5, 0, &train, &val), LS_OK);
        ck_assert_int_eq(ls_dataset_group_by_pattern(data, "([ab])[.]jpg"), LS_OK);
        ck_assert_str_eq(grouped_by(ctx, train, "group_column"), cases[i].column);
        ck_assert_str_eq(grouped_by(ctx, val, "group_pattern"), "");
        ck_assert_int_eq(ls_dataset_split(data, 0.5, 0, &train, &val), LS_OK);
        ck_assert_str_eq(grouped_by(ctx, val, "group_pattern"), "([ab])[.]jpg");
        ck_assert_str_eq(grouped_by(ctx, val, "group_column"), "");
    }
    expect_ok(ctx);
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(identity)
{
    return RUN_SUITE("identity", portable_arithmetic_has_no_processor,
                     variables_that_change_kernels_count, execution_settings_do_not_count,
                     epochs_of_schedules, functions_count_by_their_settings,
                     all_that_decides_counts, groups_of_splits, differences_are_listed,
                     long_values_are_truncated, long_keys_are_truncated,
                     settings_without_a_number_in_json, hosts_may_have_any_name);
}
