/* test_checkpoint.c: a run that is saved in its middle and loaded elsewhere goes on to the same
 * bits; files hold what torch expects; what does not match is refused and changes
 * nothing. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "checkpoint_support.h"
#include <lockstep/lockstep.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(a_resumed_run_ends_with_the_same_bits)
{
    static char whole[PORTRAIT], resumed[PORTRAIT];
    for (int k = 0; k < N_KINDS; k++) {
        options o = usual;
        o.kind = (kind)k;
        run r = open_good_run(&o);
        train(&r, 8);
        ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("middle")), LS_OK);
        train(&r, 20);
        portray(&r, whole);
        ls_context_close(&r.ctx);

        o.threads = 3;
        r = open_good_run(&o);
        train(&r, 3); /* whatever was there before must not matter */
        ck_assert_msg(ls_checkpoint_load(&r.state, path_of("middle.safetensors")) == LS_OK, "%s",
                      ls_context_message(r.ctx));
        ck_assert_int_eq(r.state.epoch * STEPS + r.state.step, 8);
        train(&r, 20);
        portray(&r, resumed);
        ls_context_close(&r.ctx);
        ck_assert_str_eq(whole, resumed);
    }
}
END_TEST

/* In f16, where the first updates are skipped until the loss scale, from 2^24, has come down: saved
 * before the first, between them, and after the last. */
START_TEST(a_resumed_run_in_16_bits_ends_with_the_same_bits)
{
    static char whole[PORTRAIT], resumed[PORTRAIT];
    static const int cuts[] = { 0, 1, 2, 7 };
    for (int k = 0; k < 8; k++) {
        options o = usual;
        const int64_t cut = cuts[k / 2];
        int64_t skipped[3];
        o.kind = k % 2 ? ADAM : SGD;
        o.precision = LS_PRECISION_F16;
        o.loss_scale = 0x1p24f;
        run r = open_good_run(&o);
        train(&r, cut);
        ls_net_loss_scale(r.state.net, NULL, &skipped[0]);
        /* as if it had been opened now: what was skipped before is none of its updates */
        if (cut == 2) ls_optimizer_set_step_count(r.state.optimizer, 1);
        ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("half")), LS_OK);
        train(&r, 10);
        ls_net_loss_scale(r.state.net, NULL, &skipped[1]);
        portray(&r, whole);
        ls_context_close(&r.ctx);
        ck_assert_int_eq(skipped[0] > 0, cut > 0);
        ck_assert_int_eq(skipped[1] > skipped[0], cut < 7);

        o.threads = 3;
        r = open_good_run(&o);
        train(&r, 3);
        ck_assert_msg(ls_checkpoint_load(&r.state, path_of("half.safetensors")) == LS_OK, "%s",
                      ls_context_message(r.ctx));
        train(&r, 10);
        ls_net_loss_scale(r.state.net, NULL, &skipped[2]);
        portray(&r, resumed);
        ls_context_close(&r.ctx);
        ck_assert_str_eq(whole, resumed);
        ck_assert_int_eq(skipped[1], skipped[2]);
    }
}
END_TEST

START_TEST(files_hold_what_torch_expects)
{
    run r = open_good_run(&usual);
    train(&r, 7);
    r.state.metadata = (const char *const[]){ "model", "small", NULL };
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("torch")), LS_OK);
    ls_tensor_file *file = ls_tensor_file_open(r.ctx, path_of("torch.safetensors"));
    expect_ok(r.ctx);

    static const struct {
        const char *name;
        ls_spec spec;
    } tensors[] = { { "conv1.weight", { LS_F32, { 4, { 8, 3, 3, 3 } } } },
                    { "bn1.weight", { LS_F32, { 1, { 8 } } } },
                    { "bn1.bias", { LS_F32, { 1, { 8 } } } },
                    { "bn1.running_mean", { LS_F32, { 1, { 8 } } } },
                    { "bn1.running_var", { LS_F32, { 1, { 8 } } } },
                    { "bn1.num_batches_tracked", { LS_I64, { 0 } } },
                    { "conv2.weight", { LS_F32, { 4, { 6, 8, 3, 1 } } } },
                    { "conv2.bias", { LS_F32, { 1, { 6 } } } },
                    { "fc.weight", { LS_F32, { 2, { 4, 6 } } } },
                    { "fc.bias", { LS_F32, { 1, { 4 } } } },
                    { "optimizer.momentum.conv2.weight", { LS_F32, { 4, { 6, 8, 3, 1 } } } },
                    { "optimizer.momentum.fc.bias", { LS_F32, { 1, { 4 } } } } };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        ls_spec spec;
        ck_assert_msg(ls_tensor_file_find(file, tensors[i].name, &spec), "%s", tensors[i].name);
        ck_assert_int_eq(spec.dtype, tensors[i].spec.dtype);
        ck_assert_msg(ls_shape_equal(&spec.shape, &tensors[i].spec.shape), "%s", tensors[i].name);
    }
    ck_assert_int_eq(ls_tensor_file_tensor_count(file), 10 + 7);

    const ls_tensor *counter = ls_tensor_file_load(file, "bn1.num_batches_tracked");
    ck_assert_int_eq(*(const int64_t *)ls_tensor_data_const(counter), 7);
    const float *there = ls_tensor_data_const(ls_tensor_file_load(file, "conv2.weight"));
    const float *here = ls_tensor_data_const(ls_net_parameter(r.state.net, "conv2.weight"));
    for (int o = 0; o < 6; o++)
        for (int i = 0; i < 8; i++)
            for (int h = 0; h < 3; h++)
                ck_assert(there[(o * 8 + i) * 3 + h] == here[(o * 3 + h) * 8 + i]);

    static const char *const metadata[][2] = {
        { "epoch", "1" },
        { "step", "1" },
        { "best", "0.1" },
        { "classes", "[\"0\", \"1\", \"2\", \"3\"]" },
        { "mean", "[0.485, 0.456, 0.406]" },
        { "std", "[0.229, 0.224, 0.225]" },
        { "crop", "8" },
        { "optimizer_steps", "7" },
        { "schedule_state", "1.0 0.1 0.0 0.0" },
        { "model", "small" },
    };
    for (size_t i = 0; i < sizeof metadata / sizeof metadata[0]; i++)
        ck_assert_str_eq(ls_tensor_file_metadata(file, metadata[i][0]), metadata[i][1]);
    static const char *const identity[] = {
        "\"seed\": \"5\"",
        "\"device\": \"cpu\"",
        "\"precision\": \"f32\"",
        "\"samples\": ",
        "\"digest_of\": \"contents\"", /* samples in memory */
        "\"optimizer\": {\"name\": \"sgd\", \"momentum\": 0.9, \"weight_decay\": 0.0005, "
        "\"decay_of_weights_only\": 1, \"clip_norm\": 1}",
        "\"schedule\": {\"name\": \"reduce_on_plateau\", \"lr\": 0.05, \"gamma\": 0.3, "
        "\"threshold\": 0.0001, \"maximize\": 1}",
    };
    const char *text = ls_tensor_file_metadata(file, "identity");
    for (size_t i = 0; i < sizeof identity / sizeof identity[0]; i++)
        ck_assert_msg(strstr(text, identity[i]) != NULL, "%s lacks %s", text, identity[i]);
    ls_context_close(&r.ctx);
}
END_TEST

/* A load that fails must leave all bits where they were. */
static void expect_refused(run *r, const char *name, ls_status status, const char *part)
{
    static char before[PORTRAIT], after[PORTRAIT];
    portray(r, before);
    ck_assert_int_ne(ls_checkpoint_load(&r->state, path_of(name)), LS_OK);
    expect_error(r->ctx, status, part);
    portray(r, after);
    ck_assert_str_eq(before, after);
}

START_TEST(another_run_is_refused)
{
    run r = open_good_run(&usual);
    train(&r, 5);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("run")), LS_OK);
    ls_context_close(&r.ctx);

    options other[6];
    for (int i = 0; i < 6; i++) other[i] = usual;
    other[0].kind = ADAM;
    other[1].momentum = 0.8f;
    other[2].n_classes = 6;
    other[3].seed = 6;
    other[4].batch = 7;
    other[5].kind = PLAIN_SGD;
    static const struct {
        ls_status status;
        const char *part;
    } errors[] = { { LS_ERR_MISMATCH, "optimizer.name is \"sgd\" there, \"adam\" here" },
                   { LS_ERR_MISMATCH, "optimizer.momentum is 0.9 there, 0.8 here" },
                   { LS_ERR_SHAPE, "'fc.weight' is F32 [4,6] there, F32 [6,6] here, and 1 more" },
                   { LS_ERR_MISMATCH, "seed is \"5\" there, \"6\" here" },
                   { LS_ERR_MISMATCH, "loader.batch is 8 there, 7 here" },
                   { LS_ERR_MISMATCH, "optimizer.momentum is 0.9 there, missing here" } };
    for (int i = 0; i < 6; i++) {
        r = open_good_run(&other[i]);
        train(&r, 2);
        expect_refused(&r, "run", errors[i].status, errors[i].part);
        ls_context_close(&r.ctx);
    }
}
END_TEST

START_TEST(settings_are_compared_to_the_last_bit)
{
    options o = usual;
    o.lr = 0.1 * 3; /* 0.30000000000000004 */
    run r = open_good_run(&o);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("run")), LS_OK);
    ck_assert_int_eq(ls_checkpoint_load(&r.state, path_of("run")), LS_OK);
    ls_context_close(&r.ctx);
    o.lr = 0.3;
    r = open_good_run(&o);
    expect_refused(&r, "run", LS_ERR_MISMATCH,
                   "schedule.lr is 0.30000000000000004 there, 0.3 here");
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(force_goes_on_as_another_run)
{
    static char one[PORTRAIT], two[PORTRAIT];
    run r = open_good_run(&usual);
    train(&r, 5);
    portray(&r, one);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("run")), LS_OK);
    ls_context_close(&r.ctx);

    options other = usual;
    other.momentum = 0.8f;
    other.seed = 6;
    r = open_good_run(&other);
    expect_refused(&r, "run", LS_ERR_MISMATCH, "and 1 more differ");
    r.state.force = true;
    ck_assert_int_eq(ls_checkpoint_load(&r.state, path_of("run")), LS_OK);
    portray(&r, two);
    ck_assert_str_eq(one, two);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("run")), LS_OK);
    r.state.force = false;
    ck_assert_int_eq(ls_checkpoint_load(&r.state, path_of("run")), LS_OK);
    ls_context_close(&r.ctx);

    other.n_classes = 6; /* other shapes can't be forced */
    r = open_good_run(&other);
    r.state.force = true;
    expect_refused(&r, "run", LS_ERR_SHAPE, "'fc.weight' is F32 [4,6] there, F32 [6,6] here");
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(parts_can_be_left_out)
{
    run r = open_good_run(&usual);
    train(&r, 5);
    static char one[PORTRAIT], two[PORTRAIT];
    portray(&r, one);
    ls_training_state weights = { .net = r.state.net, .best = -INFINITY };
    ck_assert_int_eq(ls_checkpoint_save(&weights, path_of("weights")), LS_OK);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("all")), LS_OK);

    /* weights alone, by both calls */
    weights.best = 0;
    ck_assert_int_eq(ls_checkpoint_load(&weights, path_of("weights")), LS_OK);
    ck_assert(weights.best == -INFINITY);
    ck_assert_int_eq(ls_net_load_weights(r.state.net, path_of("weights.safetensors"), NULL, NULL),
                     LS_OK);
    ck_assert_int_eq(ls_net_load_weights(r.state.net, path_of("all.safetensors"), NULL, NULL),
                     LS_OK);
    portray(&r, two);
    ck_assert_str_eq(one, two);

    /* no optimizer in the file */
    expect_refused(&r, "weights", LS_ERR_FORMAT, "its identity has no 'data'");
    ls_loader *loader = r.state.loader;
    r.state.loader = NULL;
    expect_refused(&r, "weights", LS_ERR_FORMAT, "its identity has no 'optimizer'");
    r.state.loader = loader;

    /* all of the optimizer, in a net for inference */
    ls_net *net =
        ls_net_build(r.ctx, model, &usual.n_classes,
                     &(ls_net_config){ .input = ls_loader_input_spec(loader), .inference = true });
    ck_assert_int_eq(ls_net_load_weights(net, path_of("all.safetensors"), NULL, NULL), LS_OK);
    ls_difference difference;
    ls_tensor_compare(ls_net_parameter(net, "conv2.weight"),
                      ls_net_parameter(r.state.net, "conv2.weight"), &difference);
    ck_assert_int_eq(difference.n_different, 0);
    expect_ok(r.ctx);
    ls_context_close(&r.ctx);
}
END_TEST

/* The weights of a file as another program may have written them. */
static void rewrite(run *r, const char *from, const char *to, ls_dtype dtype, const char *drop,
                    const char *add)
{
    const char *names[64];
    const ls_tensor *tensors[64];
    int64_t n = 0;
    ls_tensor_file *file = ls_tensor_file_open(r->ctx, path_of(from));
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(file); i++) {
        const char *name = ls_tensor_file_name(file, i);
        if (strcmp(name, drop) == 0) continue;
        ls_tensor *tensor = ls_tensor_file_load(file, name);
        ls_tensor *cast = ls_tensor_open(r->ctx, dtype, *ls_tensor_shape(tensor));
        ls_tensor_cast(cast, tensor);
        names[n] = name;
        tensors[n++] = cast;
    }
    names[n] = add;
    if (*add) tensors[n++] = ls_tensor_open(r->ctx, LS_F32, LS_SHAPE(2, 2));
    ck_assert_int_eq(ls_tensors_save(r->ctx, path_of(to), n, names, tensors, NULL), LS_OK);
    ls_tensor_file_close(&file);
}

START_TEST(weights_from_elsewhere)
{
    run r = open_good_run(&usual);
    ls_training_state weights = { .net = r.state.net };
    ck_assert_int_eq(ls_checkpoint_save(&weights, path_of("ours.safetensors")), LS_OK);
    static char before[PORTRAIT], after[PORTRAIT];
    portray(&r, before);

    /* torch's without counters; halves */
    rewrite(&r, "ours.safetensors", "bare.safetensors", LS_F32, "bn1.num_batches_tracked", "");
    ck_assert_int_eq(ls_net_load_weights(r.state.net, path_of("bare.safetensors"), NULL, NULL),
                     LS_OK);
    portray(&r, after);
    ck_assert_str_eq(before, after);
    static const ls_dtype halves[] = { LS_BF16, LS_F16 };
    for (int i = 0; i < 2; i++) {
        rewrite(&r, "ours.safetensors", "half.safetensors", halves[i], "", "");
        ck_assert_int_eq(ls_net_load_weights(r.state.net, path_of("half.safetensors"), NULL, NULL),
                         LS_OK);
        ls_tensor_file *file = ls_tensor_file_open(r.ctx, path_of("ours.safetensors"));
        const float *there = ls_tensor_data_const(ls_tensor_file_load(file, "conv2.weight"));
        const float *here = ls_tensor_data_const(ls_net_parameter(r.state.net, "conv2.weight"));
        for (int o = 0; o < 6 * 8; o++)
            for (int h = 0; h < 3; h++)
                ck_assert_double_le(fabsf(there[o * 3 + h] - here[(o / 8 * 3 + h) * 8 + o % 8]),
                                    4e-3 * fabsf(there[o * 3 + h]) + 1e-7);
        ls_tensor_file_close(&file);
        ck_assert_int_eq(ls_net_load_weights(r.state.net, path_of("ours.safetensors"), NULL, NULL),
                         LS_OK);
    }

    /* what does not match */
    static const struct {
        ls_dtype dtype;
        const char *drop, *add;
        ls_status status;
        const char *part;
    } wrong[] = { { LS_F32, "fc.bias", "", LS_ERR_MISMATCH,
                    "1 tensor of the net missing ('fc.bias')" },
                  { LS_F32, "", "layer9.weight", LS_ERR_MISMATCH,
                    "1 tensor not in the net ('layer9.weight')" },
                  { LS_F32, "fc.weight", "fc.weight", LS_ERR_SHAPE,
                    "'fc.weight' is F32 [2,2] there, F32 [4,6] here" },
                  { LS_I32, "", "", LS_ERR_TYPE, "is I32 [8,3,3,3] there, F32 [8,3,3,3] here" } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        rewrite(&r, "ours.safetensors", "wrong.safetensors", wrong[i].dtype, wrong[i].drop,
                wrong[i].add);
        ck_assert_int_ne(ls_net_load_weights(r.state.net, path_of("wrong.safetensors"), NULL, NULL),
                         LS_OK);
        expect_error(r.ctx, wrong[i].status, wrong[i].part);
    }
    rewrite(&r, "ours.safetensors", "foreign.safetensors", LS_F32, "", "");
    expect_refused(&r, "foreign", LS_ERR_FORMAT, "is no checkpoint of a run");
    portray(&r, after);
    ck_assert_str_eq(before, after);
    ls_context_close(&r.ctx);
}
END_TEST

/* Every prefix of a file, in steps, and the file with one byte turned over, wherever it lies. */
START_TEST(broken_files_change_nothing)
{
    run r = open_good_run(&usual);
    train(&r, 2);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("good")), LS_OK);
    static unsigned char bytes[1 << 17];
    FILE *file = fopen(path_of("good.safetensors"), "rb");
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    ck_assert(n > 4096 && n < sizeof bytes);
    static char before[PORTRAIT], after[PORTRAIT];
    portray(&r, before);
    for (size_t at = 0; at < n; at += 97) {
        const bool truncate = at % 2;
        file = fopen(path_of("bad.safetensors"), "wb");
        const unsigned char good = bytes[at];
        if (!truncate) bytes[at] ^= 0x15;
        fwrite(bytes, 1, truncate ? at : n, file);
        fclose(file);
        bytes[at] = good;
        const ls_status status = ls_checkpoint_load(&r.state, path_of("bad"));
        ck_assert_msg(status != LS_OK, "byte %zu of %zu", at, n);
        expect_error(r.ctx, status, "");
        portray(&r, after);
        ck_assert_str_eq(before, after);
    }
    /* a weight's last bit: of a run, and of weights alone */
    bytes[n - 4] ^= 1;
    file = fopen(path_of("bad.safetensors"), "wb");
    fwrite(bytes, 1, n, file);
    fclose(file);
    expect_refused(&r, "bad", LS_ERR_FORMAT, "bad.safetensors' is damaged, or was changed");
    ck_assert_int_ne(ls_net_load_weights(r.state.net, path_of("bad.safetensors"), NULL, NULL),
                     LS_OK);
    expect_error(r.ctx, LS_ERR_FORMAT, "bad.safetensors' is damaged, or was changed");
    expect_refused(&r, "none", LS_ERR_NOT_FOUND, "none.safetensors");
    ls_context_close(&r.ctx);
}
END_TEST

/* Of a file without a digest, which --force takes: changed texts of the same length. */
START_TEST(an_unusable_schedule_state_changes_nothing)
{
    static const char *const changes[][2] = { { "lockstep digest", "lockstep digesT" },
                                              { "1.0 0.1 0.0 0.0", "2.0 0.1 0.0 0.0" } };
    run r = open_good_run(&usual);
    train(&r, STEPS + 1);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("good")), LS_OK);
    static char bytes[1 << 17];
    FILE *file = fopen(path_of("good.safetensors"), "rb");
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (int i = 0; i < 2; i++) {
        char *at = memmem(bytes, n, changes[i][0], strlen(changes[i][0]));
        ck_assert_ptr_nonnull(at);
        memcpy(at, changes[i][1], strlen(changes[i][0]));
    }
    file = fopen(path_of("bad.safetensors"), "wb");
    fwrite(bytes, 1, n, file);
    fclose(file);
    static char before[PORTRAIT], after[PORTRAIT];
    portray(&r, before);
    r.state.force = true;
    expect_refused(&r, "bad", LS_ERR_FORMAT, "bad.safetensors'");
    portray(&r, after);
    ck_assert_str_eq(before, after);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(saving_is_whole_or_not_at_all)
{
    run r = open_good_run(&usual);
    ck_assert_int_ne(ls_checkpoint_save(&r.state, "/nowhere/at/all"), LS_OK);
    expect_error(r.ctx, LS_ERR_NOT_FOUND, "/nowhere/at/all.safetensors");
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1000, before.rlim_max });
    const ls_status full = ls_checkpoint_save(&r.state, path_of("full"));
    setrlimit(RLIMIT_FSIZE, &before);
    ck_assert_int_ne(full, LS_OK);
    expect_error(r.ctx, LS_ERR_IO, "full.safetensors");
    ck_assert_int_ne(access(path_of("full.safetensors"), F_OK), 0);
    /* a link is replaced, and what it named stays as it is */
    char victim[128];
    snprintf(victim, sizeof(victim), "%s", path_of("victim"));
    fclose(fopen(victim, "w"));
    ck_assert_int_eq(symlink(victim, path_of("kept.safetensors")), 0);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("kept")), LS_OK);
    struct stat there;
    ck_assert(stat(victim, &there) == 0 && there.st_size == 0);
    r.state.metadata = (const char *const[]){ "epoch", "9", NULL };
    ck_assert_int_ne(ls_checkpoint_save(&r.state, path_of("kept")), LS_OK);
    expect_error(r.ctx, LS_ERR_INVALID, "two metadata 'epoch'");
    r.state.metadata = NULL;
    ck_assert_int_eq(ls_checkpoint_load(&r.state, path_of("kept")), LS_OK);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(misuse)
{
    run r = open_good_run(&usual), s = open_good_run(&usual);
    ls_training_state none = { 0 }, mixed = r.state;
    ck_assert_int_eq(ls_checkpoint_save(NULL, "x"), LS_ERR_INVALID);
    ck_assert_int_eq(ls_checkpoint_save(&none, "x"), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_checkpoint_load(&none, "x"), LS_ERR_EARLIER);
    ck_assert_int_eq(ls_net_load_weights(NULL, "x", NULL, NULL), LS_ERR_EARLIER);
    ck_assert_int_ne(ls_checkpoint_save(&r.state, NULL), LS_OK);
    expect_error(r.ctx, LS_ERR_INVALID, "path is NULL");
    ck_assert_int_ne(ls_checkpoint_load(&r.state, ""), LS_OK);
    expect_error(r.ctx, LS_ERR_INVALID, "path is empty");
    mixed.schedule = s.state.schedule;
    ck_assert_int_ne(ls_checkpoint_save(&mixed, path_of("x")), LS_OK);
    expect_error(r.ctx, LS_ERR_MISMATCH, "different contexts");
    mixed = r.state;
    mixed.validation = s.state.loader;
    ck_assert_int_ne(ls_checkpoint_save(&mixed, path_of("x")), LS_OK);
    expect_error(r.ctx, LS_ERR_MISMATCH, "different contexts");
    mixed = r.state;
    mixed.optimizer = NULL;
    mixed.net = ls_net_build(r.ctx, model, &usual.n_classes,
                             &(ls_net_config){ .input = ls_loader_input_spec(r.state.loader),
                                               .loss = { LS_LOSS_CROSS_ENTROPY } });
    mixed.optimizer = r.state.optimizer;
    ck_assert_int_ne(ls_checkpoint_save(&mixed, path_of("x")), LS_OK);
    expect_error(r.ctx, LS_ERR_MISMATCH, "optimizer belongs to another net");
    mixed = r.state;
    mixed.step = -1;
    ck_assert_int_ne(ls_checkpoint_save(&mixed, path_of("x")), LS_OK);
    expect_error(r.ctx, LS_ERR_INVALID, "step -1");
    /* a kept error refuses all */
    ls_net_parameter(r.state.net, "nothing");
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("x")), LS_ERR_EARLIER);
    ck_assert_int_ne(access(path_of("x.safetensors"), F_OK), 0);
    ls_context_close(&r.ctx);
    ls_context_close(&s.ctx);
}
END_TEST

START_TEST(class_names_that_are_not_utf8)
{
    run r = open_good_run(&usual);
    ck_assert_int_eq(mkdir(path_of("data"), 0755), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(mkdir(path_of(i ? "data/caf\xe9" : "data/\xc3\xa9t\xc3\xa9"), 0755), 0);
        FILE *file =
            fopen(path_of(i ? "data/caf\xe9/1.ppm" : "data/\xc3\xa9t\xc3\xa9/1.ppm"), "wb");
        fwrite("P6 1 1 255 abc", 1, 14, file);
        fclose(file);
    }
    ls_training_state state = { .loader =
                                    ls_loader_open(ls_image_folder_open(r.ctx, path_of("data")),
                                                   &(ls_loader_config){ .batch_size = 1 }) };
    expect_ok(r.ctx);
    ck_assert_int_eq(ls_checkpoint_save(&state, path_of("names")), LS_OK);
    ls_tensor_file *file = ls_tensor_file_open(r.ctx, path_of("names.safetensors"));
    ck_assert_str_eq(ls_tensor_file_metadata(file, "classes"),
                     "[\"caf\\\\xE9\", \"\xc3\xa9t\xc3\xa9\"]");
    ck_assert_int_eq(ls_checkpoint_load(&state, path_of("names")), LS_OK);
    ls_context_close(&r.ctx);
}
END_TEST

START_TEST(every_allocation_failing)
{
    run r = open_good_run(&usual);
    train(&r, 2);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("first")), LS_OK);
    ls_context_close(&r.ctx);
    int64_t n_failed = 0;
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        options o = usual;
        o.allocator = &a.allocator;
        r = open_good_run(&o);
        a.fail_at = atomic_load(&a.n_requests) + n; /* within saving and loading alone */
        const ls_status saved = ls_checkpoint_save(&r.state, path_of("second"));
        if (saved != LS_OK) expect_error(r.ctx, LS_ERR_MEMORY, "");
        const ls_status loaded = ls_checkpoint_load(&r.state, path_of("first"));
        if (loaded != LS_OK) expect_error(r.ctx, LS_ERR_MEMORY, "");
        const bool failed = failing_allocator_failed(&a);
        n_failed += saved != LS_OK || loaded != LS_OK;
        ls_context_close(&r.ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        if (!failed) break;
    }
    ck_assert_int_ge(n_failed, 8);
}
END_TEST

TEST_PROGRAM(checkpoint)
{
    begin_runs();
    const int answer = RUN_SUITE(
        "checkpoints", a_resumed_run_ends_with_the_same_bits,
        a_resumed_run_in_16_bits_ends_with_the_same_bits, files_hold_what_torch_expects,
        another_run_is_refused, settings_are_compared_to_the_last_bit, force_goes_on_as_another_run,
        parts_can_be_left_out, weights_from_elsewhere, broken_files_change_nothing,
        an_unusable_schedule_state_changes_nothing, saving_is_whole_or_not_at_all, misuse,
        class_names_that_are_not_utf8, every_allocation_failing);
    return end_runs(answer);
}
