/* test_load_weights.c: weights of PyTorch's files and of checkpoints, the report about each tensor,
 * and the digest by which a run's identity names them. */
#include "../failing_allocator.h"
#include "checkpoint_support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TORCH LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/"

static const char *const names[] = { "conv1.weight",     "bn1.weight",      "bn1.bias",
                                     "bn1.running_mean", "bn1.running_var", "conv2.weight",
                                     "conv2.bias",       "fc.weight",       "fc.bias" };
enum { N_NAMES = sizeof names / sizeof *names };

/* Compares a parameter with element i / 4 - 3 of the file, whose convolution weights are O,I,H,W.
 */
static void expect_numbers(ls_net *net, const char *name)
{
    const ls_tensor *tensor = ls_net_parameter(net, name);
    const int64_t *d = ls_tensor_shape(tensor)->dims;
    const int64_t n = ls_tensor_element_count(tensor);
    const float *values = ls_tensor_data_const(tensor);
    const bool conv = ls_tensor_shape(tensor)->n_dims == 4;
    const int64_t pixels = conv ? d[1] * d[2] : 1, in = conv ? d[3] : 1;
    for (int64_t i = 0; i < n; i++) {
        const int64_t o = i / (in * pixels), pixel = i / in % pixels, c = i % in;
        const int64_t at = (o * in + c) * pixels + pixel;
        ck_assert_msg(values[i] == (float)at / 4 - 3, "%s[%d] is %g", name, (int)i,
                      (double)values[i]);
    }
}

static int64_t count(const ls_weight_report *report, ls_weight_state state)
{
    return ls_weight_report_count(report, state);
}

/* Texts of the identity that the net's checkpoint has. */
static void read_digest(run *r, char out[LS_DIGEST_TEXT_SIZE])
{
    static const char key[] = "\"weights\": \"";
    ck_assert_int_eq(ls_checkpoint_save(&r->state, path_of("digest")), LS_OK);
    ls_tensor_file *file = ls_tensor_file_open(r->ctx, path_of("digest.safetensors"));
    const char *at = strstr(ls_tensor_file_metadata(file, "identity"), key);
    snprintf(out, LS_DIGEST_TEXT_SIZE, "%s", at ? at + strlen(key) : "");
    ls_tensor_file_close(&file);
}

START_TEST(formats_give_the_same_weights)
{
    static const struct {
        const char *file, *key;         /* to read */
        const char *found_key, *prefix; /* in the report */
        int ignored;                    /* tensors */
    } files[] = {
        { "state_dict.pt", NULL, "", "", 1 },
        { "torch2.pt", NULL, "", "", 1 },
        { "before_1.6.pt", NULL, "", "", 1 },
        { "nested.pt", NULL, "state_dict", "module.", 1 },
        { "nested.pt", "state_dict", "state_dict", "module.", 1 },
        { "model.pt", NULL, "model", "", 1 },
        { "checkpoint.pt", NULL, "model_ema", "module.", 2 },
        { "unusual_key.pt", NULL, "weights of the small net", "", 1 },
        { "shared.pt", NULL, "model_ema", "", 1 },
        { "shared.pt", "state_dict", "state_dict", "", 1 },
        { "mean_inside.pt", NULL, "", "", 1 },
        { "checkpoint_before_1.6.pt", NULL, "model", "_orig_mod.", 1 },
        { "lightning.pt", NULL, "state_dict", "model.", 2 },
        { "two_nets.pt", "teacher", "teacher", "", 1 },
        { "two_prefixes.pt", "teacher", "", "teacher.", 11 },
        { "two_prefixes.pt", "teacher.", "", "teacher.", 11 },
        { "key_in_prefix.pt", "model.teacher", "model", "model.teacher.", 11 },
        { "nested.pt", "state_dict.module", "state_dict", "module.", 1 },
        { "checkpoint.pt", "model_ema.module.", "model_ema", "module.", 2 },
        { "f64.pt", NULL, "", "", 1 },
        { "bf16.pt", NULL, "", "", 1 }, /* the last one: rounds the large numbers of conv2.weight */
    };
    enum { N_FILES = sizeof files / sizeof *files };
    char first[LS_DIGEST_TEXT_SIZE] = "", digest[LS_DIGEST_TEXT_SIZE];
    for (size_t i = 0; i < N_FILES; i++) {
        run r = open_good_run(&usual);
        read_digest(&r, digest);
        ck_assert_str_eq(digest, "");
        char path[512];
        snprintf(path, sizeof path, TORCH "%s", files[i].file);
        const ls_load_weights_config config = { .key = files[i].key };
        ls_weight_report *report;
        ls_net_load_weights(r.state.net, path, &config, &report);
        expect_ok(r.ctx);
        ck_assert_int_eq(count(report, LS_WEIGHT_LOADED), N_NAMES);
        ck_assert_int_eq(count(report, LS_WEIGHT_IGNORED), files[i].ignored);
        ck_assert_str_eq(ls_weight_report_key(report), files[i].found_key);
        ck_assert_str_eq(ls_weight_report_prefix(report), files[i].prefix);
        const ls_weight_info loaded = ls_weight_report_at(report, LS_WEIGHT_LOADED, 0);
        ck_assert_str_eq(loaded.name, names[0]);
        ck_assert(ls_shape_equal(&loaded.file_shape, &LS_SHAPE(8, 3, 3, 3)));
        ls_weight_report_close(&report);
        for (int k = 0; k < N_NAMES; k++)
            if (i < N_FILES - 1 || strcmp(names[k], "conv2.weight") != 0)
                expect_numbers(r.state.net, names[k]);
        read_digest(&r, digest);
        ck_assert_int_eq(strlen(digest), LS_DIGEST_TEXT_SIZE - 1);
        if (i == 0) memcpy(first, digest, sizeof first);
        if (i < N_FILES - 1) ck_assert_str_eq(digest, first);
        expect_ok(r.ctx);
        ls_context_close(&r.ctx);
    }
}
END_TEST

static ls_node *dotted(ls_graph *g, ls_node *x, const void *name)
{
    return ls_linear(g, name, ls_flatten(g, x), 3, NULL);
}

/* A search for prefixes must end in any name. */
START_TEST(names_may_begin_and_end_with_dots)
{
    static const char *const dots[] = { ".fc", "..", "a.", ".", "a..b" };
    for (size_t i = 0; i < sizeof(dots) / sizeof(dots[0]); i++) {
        ls_context *ctx = ls_context_open(NULL);
        ls_net *net = ls_net_build(
            ctx, dotted, dots[i],
            &(ls_net_config){ .input.image = { LS_F32, LS_SHAPE(2, 2, 2, 3) }, .inference = true });
        expect_ok(ctx);
        const char *path = path_of("dots.safetensors");
        ck_assert_int_eq(ls_checkpoint_save(&(ls_training_state){ .net = net }, path), LS_OK);
        ck_assert_int_eq(ls_net_load_weights(net, path, NULL, NULL), LS_OK);
        ls_context_close(&ctx);
    }
}
END_TEST

START_TEST(ambiguous_and_missing_keys)
{
    static const struct {
        const char *file, *key;
        ls_status status;
        const char *part;
    } cases[] = {
        { "two_nets.pt", NULL, LS_ERR_MISMATCH, "'student' (10 tensors), 'teacher' (10 tensors)" },
        { "two_nets.pt", "net", LS_ERR_MISMATCH, "no tensors at the key 'net'; it has tensors at" },
        { "two_prefixes.pt", NULL, LS_ERR_MISMATCH, "prefixes 'student.' and 'teacher.'" },
        { "two_prefixes.pt", "net", LS_ERR_MISMATCH, "no tensors at the key 'net'" },
        { "state_dict.pt", "model", LS_ERR_MISMATCH, "no tensors at the key 'model'" },
        { "nested.pt", "optimizer", LS_ERR_MISMATCH, "'state_dict' (10 tensors)" },
        { "nested.pt", "state_dict.net", LS_ERR_MISMATCH, "'state_dict' (10 tensors)" },
    };
    run r = open_good_run(&usual);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        snprintf(path, sizeof path, TORCH "%s", cases[i].file);
        const ls_load_weights_config config = { .key = cases[i].key };
        expect_failure(ls_net_load_weights(r.state.net, path, &config, NULL), r.ctx,
                       cases[i].status, cases[i].file, cases[i].part);
    }
    ls_context_close(&r.ctx);
}
END_TEST

/* The head's rows go to the classes of their names, in a net whose classes have another order. */
START_TEST(classes_are_matched_by_name)
{
    static const char *const order[] = { "3", "1", "0", "2" };
    static const char *const other[] = { "3", "1", "0", "bird" };
    static const int from[] = { 3, 1, 0, 2 };
    run r = open_good_run(&usual);
    train(&r, 2);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("classes")), LS_OK);
    float weight[4][6], bias[4];
    ls_tensor *tensors[] = { ls_net_parameter(r.state.net, "fc.weight"),
                             ls_net_parameter(r.state.net, "fc.bias") };
    ls_tensor_read(tensors[0], weight, sizeof weight);
    ls_tensor_read(tensors[1], bias, sizeof bias);
    const char *path = path_of("classes.safetensors");
    ls_load_weights_config config = { .classes = order, .n_classes = 4 };
    ls_weight_report *report;
    ls_net_load_weights(r.state.net, path, &config, &report);
    expect_ok(r.ctx);
    ck_assert(ls_weight_report_classes_reordered(report));
    ls_weight_report_close(&report);
    for (int i = 0; i < 4; i++) {
        const float *row = (const float *)ls_tensor_data_const(tensors[0]) + 6 * i;
        ck_assert_mem_eq(row, weight[from[i]], sizeof weight[0]);
        ck_assert(((const float *)ls_tensor_data_const(tensors[1]))[i] == bias[from[i]]);
    }
    config.classes = other;
    expect_failure(ls_net_load_weights(r.state.net, path, &config, &report), r.ctx, LS_ERR_MISMATCH,
                   "no outputs for the class 'bird'", "its classes are '0', '1', '2', ...");
    ls_weight_report_close(&report);
    config.new_head = true;
    ck_assert_int_eq(ls_net_load_weights(r.state.net, path, &config, &report), LS_OK);
    ck_assert(!ls_weight_report_classes_reordered(report));
    ls_weight_report_close(&report);
    static const char *const incomplete[] = { "0", NULL, "1", "2" };
    const ls_load_weights_config wrong[] = { { .classes = incomplete, .n_classes = 4 },
                                             { .classes = other },
                                             { .n_classes = 4 },
                                             { .key = "" } };
    for (int i = 0; i < 4; i++)
        expect_failure(ls_net_load_weights(r.state.net, path, &wrong[i], NULL), r.ctx,
                       LS_ERR_INVALID, "expected n_classes names of classes");
    config = (ls_load_weights_config){ .classes = other, .n_classes = 4 }; /* no names there */
    ck_assert_int_eq(ls_net_load_weights(r.state.net, TORCH "state_dict.pt", &config, NULL), LS_OK);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(values_that_are_not_finite)
{
    run r = open_good_run(&usual);
    static char before[PORTRAIT], after[PORTRAIT];
    static const char *const name[] = { "fc.weight" };
    ls_tensor *weight = ls_tensor_open(r.ctx, LS_F32, LS_SHAPE(4, 6));
    float *values = ls_tensor_data(weight);
    for (int i = 0; i < 24; i++) values[i] = i == 3 ? NAN : i == 20 ? -INFINITY : 1;
    const ls_tensor *tensors[] = { weight };
    const char *path = path_of("nan.safetensors");
    ck_assert_int_eq(ls_tensors_save(r.ctx, path, 1, name, tensors, NULL), LS_OK);
    portray(&r, before);
    const ls_load_weights_config partial = { .partial = true };
    expect_failure(ls_net_load_weights(r.state.net, path, &partial, NULL), r.ctx, LS_ERR_NONFINITE,
                   "nan.safetensors': 2 of 24 values of 'fc.weight' are not finite");
    portray(&r, after);
    ck_assert_str_eq(before, after);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(mismatches_change_nothing)
{
    run r = open_good_run(&usual);
    static char before[PORTRAIT], after[PORTRAIT];
    portray(&r, before);
    ls_weight_report *report;
    expect_failure(ls_net_load_weights(r.state.net, TORCH "five_classes.pt", NULL, &report), r.ctx,
                   LS_ERR_SHAPE, "five_classes.pt",
                   "'fc.weight' is F32 [5,6] there, F32 [4,6] here, and 1 more differ");
    ck_assert_int_eq(count(report, LS_WEIGHT_MISMATCHED), 2);
    ck_assert_int_eq(count(report, LS_WEIGHT_LOADED), N_NAMES - 2);
    ck_assert(ls_weight_report_at(report, LS_WEIGHT_MISMATCHED, 1).head);
    ck_assert(!ls_weight_report_at(report, LS_WEIGHT_LOADED, 0).head);
    ck_assert_ptr_null(ls_weight_report_at(report, LS_WEIGHT_MISMATCHED, 2).name);
    ls_weight_report_close(&report);
    expect_failure(ls_net_load_weights(r.state.net, TORCH "module.pt", NULL, &report), r.ctx,
                   LS_ERR_MISMATCH, "9 tensors of the net missing ('conv1.weight', ",
                   "6 tensors not in the net ('0.bias', '0.weight', '1.bias', ...)");
    ck_assert_int_eq(count(report, LS_WEIGHT_MISSING), N_NAMES);
    ck_assert_int_eq(count(report, LS_WEIGHT_UNEXPECTED), 6);
    ls_weight_report_close(&report);
    const ls_load_weights_config partial = { .partial = true };
    expect_failure(ls_net_load_weights(r.state.net, TORCH "module.pt", &partial, NULL), r.ctx,
                   LS_ERR_MISMATCH, "has no tensor of the net");
    expect_failure(ls_net_load_weights(r.state.net, TORCH "none.pt", NULL, &report), r.ctx,
                   LS_ERR_NOT_FOUND, "none.pt");
    ck_assert_ptr_null(report);
    portray(&r, after);
    ck_assert_str_eq(before, after);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(new_head_keeps_its_values)
{
    run r = open_good_run(&usual);
    static float fc[4 * 6];
    ls_tensor *weight = ls_net_parameter(r.state.net, "fc.weight");
    ck_assert_int_eq(ls_tensor_read(weight, fc, sizeof fc), LS_OK);
    const ls_load_weights_config config = { .new_head = true };
    static const char *const files[] = { TORCH "five_classes.pt", TORCH "state_dict.pt" };
    for (int i = 0; i < 2; i++) {
        ls_weight_report *report;
        ck_assert_int_eq(ls_net_load_weights(r.state.net, files[i], &config, &report), LS_OK);
        ck_assert_int_eq(count(report, LS_WEIGHT_NEW_HEAD), 2);
        ls_weight_report_close(&report);
        ck_assert_int_eq(memcmp(ls_tensor_data(weight), fc, sizeof fc), 0);
        expect_numbers(r.state.net, "conv2.weight");
    }
    ls_context_close(&r.ctx);
}
END_TEST

static ls_node *without_linear(ls_graph *g, ls_node *x, const void *nothing)
{
    (void)nothing;
    return ls_global_avg_pool(
        g, ls_conv2d(g, "conv1", x, 8, &(ls_conv2d_config){ .kernel = 3, .padding = 1 }));
}

START_TEST(partial_files_and_nets_without_a_head)
{
    run r = open_good_run(&usual);
    ls_net *net = ls_net_build(
        r.ctx, without_linear, NULL,
        &(ls_net_config){ .input = ls_loader_input_spec(r.state.loader), .inference = true });
    expect_failure(ls_net_load_weights(net, TORCH "state_dict.pt",
                                       &(ls_load_weights_config){ .new_head = true }, NULL),
                   r.ctx, LS_ERR_INVALID, "new_head has no effect");
    ls_weight_report *report;
    ck_assert_int_eq(ls_net_load_weights(net, TORCH "state_dict.pt",
                                         &(ls_load_weights_config){ .partial = true }, &report),
                     LS_OK);
    ck_assert_int_eq(count(report, LS_WEIGHT_LOADED), 1);
    ck_assert_int_eq(count(report, LS_WEIGHT_UNEXPECTED), N_NAMES - 1);
    expect_numbers(net, "conv1.weight");
    ls_weight_report_close(&report);

    /* no outputs could follow another order of the classes */
    static const char *const orders[][4] = { { "0", "1", "2", "3" }, { "3", "1", "0", "2" } };
    train(&r, 1);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("headless")), LS_OK);
    const char *path = path_of("headless.safetensors");
    ls_load_weights_config config = { .partial = true, .classes = orders[0], .n_classes = 4 };
    ck_assert_int_eq(ls_net_load_weights(net, path, &config, NULL), LS_OK);
    config.classes = orders[1];
    expect_failure(ls_net_load_weights(net, path, &config, NULL), r.ctx, LS_ERR_MISMATCH,
                   "has the classes in another order", "no linear layer");
    ls_context_close(&r.ctx);
}
END_TEST

enum { HEIGHT = 2, WIDTH = 3, CHANNELS = 4, FLAT = HEIGHT * WIDTH * CHANNELS };

static ls_node *flattened(ls_graph *g, ls_node *x, const void *nothing)
{
    (void)nothing;
    x = ls_relu(g, ls_dropout(g, ls_flatten(g, ls_relu(g, x)), 0.5f));
    x = ls_relu(g, ls_linear(g, "a", x, FLAT, &(ls_linear_config){ .no_bias = true }));
    x = ls_linear(g, "b", x, FLAT, &(ls_linear_config){ .no_bias = true });
    return ls_linear(g, "c", ls_flatten(g, x), 2, &(ls_linear_config){ .no_bias = true });
}

/* Only the columns of the linear layer that reads the flattened feature maps are permuted. */
START_TEST(columns_after_flatten)
{
    static const char *const weights[] = { "a.weight", "b.weight", "c.weight" };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const ls_tensor *tensors[3];
    for (int i = 0; i < 3; i++) {
        ls_tensor *tensor = ls_tensor_open(ctx, LS_F32, LS_SHAPE(i < 2 ? FLAT : 2, FLAT));
        float *values = ls_tensor_data(tensor);
        for (int64_t k = 0; k < ls_tensor_element_count(tensor); k++) values[k] = (float)k;
        tensors[i] = tensor;
    }
    const char *path = path_of("flattened.safetensors");
    ck_assert_int_eq(ls_tensors_save(ctx, path, 3, weights, tensors, NULL), LS_OK);
    ls_net *net = ls_net_build(
        ctx, flattened, NULL,
        &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(1, HEIGHT, WIDTH, CHANNELS) } },
                          .inference = true });
    ck_assert_int_eq(ls_net_load_weights(net, path, NULL, NULL), LS_OK);
    for (int i = 0; i < 3; i++) {
        const ls_tensor *tensor = ls_net_parameter(net, weights[i]);
        const float *values = ls_tensor_data_const(tensor);
        for (int64_t k = 0; k < ls_tensor_element_count(tensor); k++) {
            const int64_t row = k / FLAT, column = k % FLAT;
            const int64_t there = column % CHANNELS * HEIGHT * WIDTH + column / CHANNELS;
            const int64_t expected = row * FLAT + (i == 0 ? there : column);
            ck_assert_msg(values[k] == (float)expected, "%s[%d]", weights[i], (int)k);
        }
    }
    ls_context_close(&ctx);
}
END_TEST

/* Where both orders are the same, a checkpoint has no new metadata. */
START_TEST(checkpoints_name_the_columns)
{
    static const struct {
        ls_shape shape;
        const char *text;
    } cases[] = { { { 4, { 1, 2, 3, 4 } }, "{\"a.weight\": 4}" },
                  { { 4, { 1, 2, 3, 1 } }, NULL },
                  { { 4, { 1, 1, 1, 4 } }, NULL },
                  { { 2, { 1, 4 } }, NULL } };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    for (int i = 0; i < 4; i++) {
        ls_net *net =
            ls_net_build(ctx, flattened, NULL,
                         &(ls_net_config){ .input = { .image = { LS_F32, cases[i].shape } },
                                           .inference = true });
        const ls_training_state state = { .net = net };
        ck_assert_int_eq(ls_checkpoint_save(&state, path_of("columns")), LS_OK);
        ls_tensor_file *file = ls_tensor_file_open(ctx, path_of("columns.safetensors"));
        const char *text = ls_tensor_file_metadata(file, "flattened");
        expect_ok(ctx);
        if (cases[i].text) ck_assert_str_eq(text, cases[i].text);
        if (!cases[i].text) ck_assert_ptr_null(text);
        ls_tensor_file_close(&file);
    }
    ls_context_close(&ctx);
}
END_TEST

static ls_node *of_layouts(ls_graph *g, ls_node *x, const void *name)
{
    return ls_add(g, x, ls_parameter(g, name, LS_SHAPE(5, 3), LS_PARAMETER_NORM, LS_INIT_ONE));
}

START_TEST(unsupported_tensors_are_named)
{
    static const struct {
        const char *name, *part;
    } cases[] = { { "expanded",
                    "'expanded' (F32) has an unsupported stride: it is an expanded tensor" },
                  { "seven_dims", "'seven_dims' (F32) has an unsupported number of dimensions" },
                  { "base", "'base' is F32 [4,6] there, F32 [5,3] here" } };
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    for (int i = 0; i < 3; i++) {
        ls_net *net =
            ls_net_build(ctx, of_layouts, cases[i].name,
                         &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(5, 3) } },
                                           .inference = true });
        expect_failure(ls_net_load_weights(net, TORCH "layouts.pt",
                                           &(ls_load_weights_config){ .partial = true }, NULL),
                       ctx, i == 0 ? LS_ERR_TYPE : LS_ERR_SHAPE, cases[i].part);
    }
    ls_context_close(&ctx);
}
END_TEST

/* A run that began with weights resumes without them, but not with others. */
START_TEST(identity_names_the_weights)
{
    run r = open_good_run(&usual), plain = open_good_run(&usual);
    ck_assert_int_eq(ls_net_load_weights(r.state.net, TORCH "state_dict.pt", NULL, NULL), LS_OK);
    train(&r, 3);
    static char one[PORTRAIT], two[PORTRAIT];
    char digests[2][LS_DIGEST_TEXT_SIZE];
    read_digest(&r, digests[0]);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("run")), LS_OK);
    train(&r, STEPS);
    portray(&r, one);
    ck_assert_int_eq(ls_checkpoint_load(&plain.state, path_of("run")), LS_OK);
    read_digest(&plain, digests[1]);
    ck_assert_str_eq(digests[0], digests[1]);
    train(&plain, STEPS);
    portray(&plain, two);
    ck_assert_str_eq(one, two);
    ls_context_close(&plain.ctx);

    run other = open_good_run(&usual);
    ck_assert_int_eq(ls_net_load_weights(other.state.net, TORCH "five_classes.pt",
                                         &(ls_load_weights_config){ .new_head = true }, NULL),
                     LS_OK);
    expect_failure(ls_checkpoint_load(&other.state, path_of("run")), other.ctx, LS_ERR_MISMATCH,
                   "model.weights");
    ls_context_close(&other.ctx);
    ls_context_close(&r.ctx);
}
END_TEST

/* Within the load alone: the net is unchanged, and all is released. */
START_TEST(every_allocation_failing)
{
    static char before[PORTRAIT], after[PORTRAIT];
    static const char *const order[] = { "3", "1", "0", "2" };
    run first = open_good_run(&usual);
    ck_assert_int_eq(ls_checkpoint_save(&first.state, path_of("named")), LS_OK);
    ls_context_close(&first.ctx);
    const char *const files[] = { TORCH "nested.pt", TORCH "before_1.6.pt",
                                  path_of("named.safetensors") };
    const ls_load_weights_config config = { .classes = order, .n_classes = 4 };
    int64_t n_failed = 0;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        options o = usual;
        o.allocator = &a.allocator;
        run r = open_good_run(&o);
        portray(&r, before);
        ls_weight_report *report;
        a.fail_at = atomic_load(&a.n_requests) + n;
        const ls_status status = ls_net_load_weights(r.state.net, files[_i], &config, &report);
        const bool failed = failing_allocator_failed(&a);
        a.fail_at = 0;
        ck_assert_int_eq(status, failed ? LS_ERR_MEMORY : LS_OK);
        ck_assert_int_eq(report != NULL, !failed);
        if (failed) {
            expect_error(r.ctx, LS_ERR_MEMORY, "");
            portray(&r, after);
            ck_assert_str_eq(before, after);
        }
        n_failed += failed;
        ls_context_close(&r.ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failed) break;
    }
    ck_assert_int_ge(n_failed, 6);
}
END_TEST

START_TEST(completed_models)
{
    ls_model_info info = { .model = ls_model_find("resnet18"), .resize_mode = LS_RESIZE_CROP };
    ls_model_info_complete(&info);
    ck_assert(info.image_size == 224 && info.resize == 256 && info.image_width == 0);
    ck_assert(info.mean[2] == 0.406f && info.std[0] == 0.229f);
    info = (ls_model_info){ .model = info.model, .image_size = 96, .image_width = 48 };
    ls_model_info_complete(&info);
    ck_assert(info.image_size == 96 && info.resize == 96); /* a side is small */
    info = (ls_model_info){ .model = info.model, .resize_mode = LS_RESIZE_PAD, .channels = 1 };
    ls_model_info_complete(&info);
    ck_assert(info.resize == 224 && info.mean[0] == 0.449f && info.std[0] == 0.226f);
    info = (ls_model_info){ .model = info.model, .resize = 300, .std = { 1, 1, 1 } };
    ls_model_info_complete(&info);
    ck_assert(info.resize == 300 && info.mean[0] == 0 && info.std[0] == 1);
}
END_TEST

START_TEST(models_that_are_not_described)
{
    run r = open_good_run(&usual);
    static const char *const classes[] = { "a", "b" };
    ls_model_info info = { .model = ls_model_find("resnet20"),
                           .options.n_classes = 2,
                           .image_size = 32,
                           .resize = 32,
                           .std = { 1, 1, 1 },
                           .classes = classes };
    ls_saved_model *model = ls_saved_model_from_weights(r.ctx, TORCH "state_dict.pt", &info);
    ck_assert_str_eq(ls_saved_model_info(model).classes[1], "b");
    ck_assert_ptr_null(ls_saved_model_build(model, 1, LS_PRECISION_F32, false));
    ck_assert_str_eq(ls_context_hint(r.ctx), "");
    expect_error(r.ctx, LS_ERR_SHAPE, "state_dict.pt", "'conv1.weight'");
    ck_assert_ptr_null(ls_saved_model_build(model, 1, LS_PRECISION_F32, true));
    ck_assert_ptr_nonnull(strstr(ls_context_hint(r.ctx), "must be those of the weights"));
    expect_error(r.ctx, LS_ERR_SHAPE, "state_dict.pt", "'conv1.weight'");
    ck_assert_ptr_null(ls_saved_model_from_weights(r.ctx, TORCH "state_dict.pt", NULL));
    expect_error(r.ctx, LS_ERR_INVALID, "info is NULL");
    info.channels = 2;
    ck_assert_ptr_null(ls_saved_model_from_weights(r.ctx, TORCH "state_dict.pt", &info));
    expect_error(r.ctx, LS_ERR_INVALID, "model.channels is 2, expected 1 or 3");
    info.channels = 0;
    info.image_size = 0;
    ck_assert_ptr_null(ls_saved_model_from_weights(r.ctx, TORCH "state_dict.pt", &info));
    expect_error(r.ctx, LS_ERR_INVALID, "image_size 0");
    info = (ls_model_info){ .model = info.model, .resize = 32, .image_size = 32 };
    ck_assert_ptr_null(ls_saved_model_from_weights(r.ctx, TORCH "state_dict.pt", &info));
    expect_error(r.ctx, LS_ERR_INVALID, "0 classes");
    ls_context_close(&r.ctx);
}
END_TEST

TEST_PROGRAM(load_weights)
{
    begin_runs();
    const int memory = run_loop("allocations", every_allocation_failing, 3);
    const int others = RUN_SUITE(
        "load_weights", formats_give_the_same_weights, names_may_begin_and_end_with_dots,
        ambiguous_and_missing_keys, classes_are_matched_by_name, values_that_are_not_finite,
        mismatches_change_nothing, new_head_keeps_its_values, partial_files_and_nets_without_a_head,
        columns_after_flatten, checkpoints_name_the_columns, unsupported_tensors_are_named,
        identity_names_the_weights, completed_models, models_that_are_not_described);
    return end_runs(both(memory, others));
}
