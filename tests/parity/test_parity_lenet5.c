/* test_parity_lenet5.c: lenet5 with PyTorch's weights against PyTorch (tests/reference/lenet5.py):
 * the first linear layer reads a flattened [N,H,W,C] here, [N,C,H,W] there. */
#include "../suite.h"
#include "parity.h"
#include <lockstep/lockstep.h>
#include <math.h>
#include <unistd.h>

enum { BATCH = 4 };

static const struct {
    const char *name;
    ls_shape shape; /* PyTorch's */
} weights[] = {
    { "conv1.weight", { 4, { 6, 1, 5, 5 } } },  { "conv1.bias", { 1, { 6 } } },
    { "conv2.weight", { 4, { 16, 6, 5, 5 } } }, { "conv2.bias", { 1, { 16 } } },
    { "fc1.weight", { 2, { 120, 400 } } },      { "fc1.bias", { 1, { 120 } } },
    { "fc2.weight", { 2, { 84, 120 } } },       { "fc2.bias", { 1, { 84 } } },
    { "fc3.weight", { 2, { 10, 84 } } },        { "fc3.bias", { 1, { 10 } } },
};
enum { N_WEIGHTS = sizeof weights / sizeof *weights };

/* The file that lenet5.py's model would save. */
static void save_torch_file(ls_context *ctx, const char *path)
{
    const char *names[N_WEIGHTS];
    const ls_tensor *tensors[N_WEIGHTS];
    for (int i = 0; i < N_WEIGHTS; i++) {
        const ls_shape *shape = &weights[i].shape;
        const double fan_in = (double)(ls_shape_element_count(shape) / shape->dims[0]);
        ls_tensor *tensor = ls_tensor_open(ctx, LS_F32, *shape);
        parity_fill(tensor, weights[i].name, shape->n_dims > 1 ? (float)sqrt(6.0 / fan_in) : 0.1f,
                    0);
        names[i] = weights[i].name;
        tensors[i] = tensor;
    }
    ck_assert_msg(ls_tensors_save(ctx, path, N_WEIGHTS, names, tensors, NULL) == LS_OK, "%s",
                  ls_context_message(ctx));
}

static ls_net *build(ls_context *ctx)
{
    ls_net *net =
        ls_net_build(ctx, ls_lenet5, NULL,
                     &(ls_net_config){ .input = { .image = { LS_F32, LS_SHAPE(BATCH, 28, 28, 1) } },
                                       .loss = { .kind = LS_LOSS_CROSS_ENTROPY } });
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    return net;
}

/* Loads the weights of a file into a new net, and compares its logits. */
static ls_net *expect_logits(ls_context *ctx, const char *path)
{
    ls_net *net = build(ctx);
    ls_tensor_file *file = ls_tensor_file_open(ctx, parity_path("lenet5.safetensors"));
    ls_tensor *images = ls_tensor_open(ctx, LS_F32, LS_SHAPE(BATCH, 28, 28, 1));
    parity_fill(images, "images", 2, 0);
    ls_net_load_weights(net, path, NULL, NULL);
    ls_net_feed(net, "input", images);
    ls_net_feed(net, "label", ls_tensor_open(ctx, LS_I32, LS_SHAPE(BATCH)));
    ck_assert_msg(ls_net_forward(net, LS_MODE_EVAL) == LS_OK, "%s", ls_context_message(ctx));
    parity_check(file, "logits", ls_net_output(net, "output"), 1e-5); /* of f32 */
    ls_tensor_file_close(&file);
    return net;
}

START_TEST(the_logits_are_pytorchs)
{
    char *dir = new_folder();
    ck_assert_int_eq(chdir(dir), 0);
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    save_torch_file(ctx, "torch.safetensors");
    ls_net *net = expect_logits(ctx, "torch.safetensors");
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f });
    const ls_training_state state = { .net = net, .optimizer = opt };
    ck_assert_int_eq(ls_checkpoint_save(&state, "own.safetensors"), LS_OK);
    expect_logits(ctx, "own.safetensors");
    ls_training_state resumed = { .net = build(ctx) };
    ck_assert_int_eq(ls_checkpoint_load(&resumed, "own.safetensors"), LS_OK);
    ls_difference difference;
    ck_assert_int_eq(ls_tensor_compare(ls_net_parameter(resumed.net, "fc1.weight"),
                                       ls_net_parameter(net, "fc1.weight"), &difference),
                     LS_OK);
    ck_assert_int_eq(difference.n_different, 0);

    int64_t n;
    ck_assert_int_eq(ls_checkpoint_export(ctx, "own.safetensors", "back.safetensors", &n), LS_OK);
    ck_assert_int_eq(n, N_WEIGHTS);
    ls_tensor_file *there = ls_tensor_file_open(ctx, "torch.safetensors");
    ls_tensor_file *back = ls_tensor_file_open(ctx, "back.safetensors");
    for (int i = 0; i < N_WEIGHTS; i++) {
        ck_assert_int_eq(ls_tensor_compare(ls_tensor_file_load(back, weights[i].name),
                                           ls_tensor_file_load(there, weights[i].name),
                                           &difference),
                         LS_OK);
        ck_assert_msg(difference.n_different == 0, "%s", weights[i].name);
    }
    expect_logits(ctx, "back.safetensors");
    ls_context_close(&ctx);
    remove_folder(dir);
}
END_TEST

TEST_PROGRAM(parity_lenet5)
{
    return RUN_SUITE("lenet5 against PyTorch", the_logits_are_pytorchs);
}
