/* 05_own_block.c: a network from a layer block of one's own: blocks are plain C functions, and
 * scopes give their parameters names.
 *
 * The block is the inverted residual of MobileNetV2 (Sandler et al. 2018): widen with 1x1, filter
 * each channel by itself with 3x3 (as many groups as channels), narrow with 1x1, add the input. */
#include "stripes.h"

enum { EPOCHS = 6 };

static ls_node *conv_bn(ls_graph *g, const char *name, ls_node *x, int64_t channels,
                        ls_conv2d_config config)
{
    ls_scope_begin(g, "%s", name);
    x = ls_batch_norm(g, "bn", ls_conv2d(g, "conv", x, channels, &config), NULL);
    ls_scope_end(g);
    return x;
}

/* x [N,H,W,C] -> [N,H/stride,W/stride,channels] */
static ls_node *inverted_residual(ls_graph *g, ls_node *x, int64_t channels, int stride)
{
    const int64_t narrow = ls_node_shape(x).dims[3], wide = 4 * narrow;
    ls_node *y = ls_relu(g, conv_bn(g, "expand", x, wide, (ls_conv2d_config){ .kernel = 1 }));
    y = ls_relu(g, conv_bn(g, "depthwise", y, wide,
                           (ls_conv2d_config){
                               .kernel = 3, .stride = stride, .padding = 1, .groups = (int)wide }));
    y = conv_bn(g, "project", y, channels, (ls_conv2d_config){ .kernel = 1 });
    return stride == 1 && channels == narrow ? ls_add(g, y, x) : y;
}

static ls_node *mobile(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    static const struct {
        int64_t channels;
        int stride;
    } blocks[] = { { 8, 1 }, { 16, 2 }, { 16, 1 } };
    x = ls_relu(
        g, conv_bn(g, "stem", x, 8, (ls_conv2d_config){ .kernel = 3, .stride = 2, .padding = 1 }));
    for (int i = 0; i < 3; i++) {
        ls_scope_begin(g, "block%d", i);
        x = inverted_residual(g, x, blocks[i].channels, blocks[i].stride);
        ls_scope_end(g);
    }
    x = ls_dropout(g, ls_global_avg_pool(g, x), 0.1f);
    return ls_linear(g, "classifier", x, STRIPES_CLASSES, NULL);
}

static ls_status train(ls_context *ctx, double *loss)
{
    ls_dataset *data = stripes_dataset(ctx, 0, 384);
    ls_loader *loader =
        ls_loader_open(data, &(ls_loader_config){ .batch_size = 32, .shuffle = true });
    const ls_net_config training = { .input = ls_loader_input_spec(loader),
                                     .loss = { LS_LOSS_CROSS_ENTROPY } };
    ls_net *net = ls_net_build(ctx, mobile, NULL, &training);
    ls_optimizer *opt = ls_sgd(net, &(ls_sgd_config){ .momentum = 0.9f, .nesterov = true });
    LS_TRY(ls_context_status(ctx));

    static char text[16384];
    ls_net_describe(net, text, sizeof(text));
    printf("%s\n", text);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        LS_TRY(ls_loader_start(loader, epoch));
        for (ls_batch b; ls_loader_next(loader, &b);) LS_TRY(ls_net_step(net, opt, &b, 0.05));
        LS_TRY(ls_loader_status(loader));
        LS_TRY(ls_net_loss(net, loss));
        printf("epoch %d: loss of the last batch %.4f\n", epoch + 1, *loss);
    }
    /* The blocks' scopes are in the names of their parameters. */
    return ls_net_parameter(net, "block1.depthwise.conv.weight") ? LS_OK : ls_context_status(ctx);
}

int main(void)
{
    ls_context *ctx = ls_context_open(NULL);
    double loss = 0;
    const ls_status status = train(ctx, &loss);
    if (status != LS_OK)
        fprintf(stderr, "%s: %s\n", ls_status_text(status), ls_context_message(ctx));
    ls_context_close(&ctx);
    return status != LS_OK || loss > 0.2;
}
