/* 06_inference.c: from a trained net to a checkpoint, and from the checkpoint to an answer: an
 * inference net takes less memory, loads the weights by name, and gives the very same bits. */
#include "stripes.h"

static ls_node *model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_conv2d(g, "conv1", x, 16, &(ls_conv2d_config){ .kernel = 3, .padding = 1 });
    x = ls_relu(g, ls_batch_norm(g, "bn1", x, NULL));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), STRIPES_CLASSES, NULL);
}

/* Trains for a few steps, saves, and returns the digest of the net's output for `question`. */
static ls_status train(ls_context *ctx, const ls_tensor *question, ls_digest *digest)
{
    ls_dataset *data = stripes_dataset(ctx, 0, 384);
    ls_loader *loader =
        ls_loader_open(data, &(ls_loader_config){ .batch_size = 32, .shuffle = true });
    const ls_net_config training = { .input = ls_loader_input_spec(loader),
                                     .loss = { LS_LOSS_CROSS_ENTROPY } };
    ls_net *net = ls_net_build(ctx, model, NULL, &training);
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f });
    for (int epoch = 0; epoch < 12; epoch++) {
        LS_TRY(ls_loader_start(loader, epoch));
        for (ls_batch b; ls_loader_next(loader, &b);) LS_TRY(ls_net_step(net, opt, &b, 0.1));
    }
    LS_TRY(ls_loader_status(loader));
    LS_TRY(
        ls_checkpoint_save(&(ls_training_state){ .net = net, .loader = loader }, "06_inference"));

    /* A batch by hand: labels are an input like any other; -1 leaves an image out of the loss. */
    ls_tensor *label = ls_tensor_open(ctx, LS_I32, LS_SHAPE(1));
    LS_TRY(ls_tensor_fill(label, -1));
    LS_TRY(ls_net_feed(net, "input", question));
    LS_TRY(ls_net_feed(net, "label", label));
    LS_TRY(ls_net_forward(net, LS_MODE_EVAL));
    return ls_tensor_digest(ls_net_output(net, "output"), digest);
}

/* Runs the checkpoint's model on the image. */
static ls_status ask(ls_context *ctx, const ls_tensor *question, int *label, ls_digest *digest)
{
    const ls_input_spec input = { .image = { LS_U8, *ls_tensor_shape(question) },
                                  .mean = { 0.485f, 0.456f, 0.406f },
                                  .std = { 0.229f, 0.224f, 0.225f } };
    const ls_net_config inference = { .input = input, .inference = true };
    ls_net *net = ls_net_build(ctx, model, NULL, &inference);
    LS_TRY(ls_net_load_weights(net, "06_inference.safetensors", NULL, NULL));
    LS_TRY(ls_net_feed(net, "input", question));
    LS_TRY(ls_net_forward(net, LS_MODE_EVAL));

    float logits[STRIPES_CLASSES];
    LS_TRY(ls_tensor_read(ls_net_output(net, "output"), logits, sizeof(logits)));
    for (int i = *label = 0; i < STRIPES_CLASSES; i++) {
        printf("  %-9s %8.4f\n", stripes_names[i], (double)logits[i]);
        if (logits[i] > logits[*label]) *label = i;
    }
    return ls_tensor_digest(ls_net_output(net, "output"), digest);
}

static ls_status run(ls_context *ctx, bool *ok)
{
    enum { LABEL = 1 };
    uint8_t pixels[STRIPES_BYTES];
    stripes_draw(LABEL, 5000, pixels);
    ls_tensor *question =
        ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(1, STRIPES_SIDE, STRIPES_SIDE, 3), pixels);
    ls_digest before, after;
    int label = -1;
    LS_TRY(train(ctx, question, &before));
    printf("an image of %s stripes:\n", stripes_names[LABEL]);
    LS_TRY(ask(ctx, question, &label, &after));
    *ok = label == LABEL && ls_digest_equal(before, after);
    return LS_OK;
}

int main(void)
{
    ls_context *ctx = ls_context_open(NULL);
    bool ok = false;
    const ls_status status = run(ctx, &ok);
    if (status != LS_OK)
        fprintf(stderr, "%s: %s\n", ls_status_text(status), ls_context_message(ctx));
    ls_context_close(&ctx);
    return status != LS_OK || !ok;
}
