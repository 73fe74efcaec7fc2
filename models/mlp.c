/* mlp.c: a multilayer perceptron: the pixels, two hidden layers of 512 units with ReLU, logits. */
#include <lockstep/models.h>

ls_node *ls_mlp(ls_graph *g, ls_node *x, const void *user_options)
{
    static const ls_model model = { .name = "mlp", .n_classes = 10, .dropout = -1 };
    ls_model_options options;
    if (!ls_model_resolve_options(g, &model, user_options, &options)) return NULL;
    x = ls_flatten(g, x);
    x = ls_relu(g, ls_linear(g, "fc1", x, 512, NULL));
    x = ls_relu(g, ls_linear(g, "fc2", x, 512, NULL));
    return ls_linear(g, "fc3", x, options.n_classes, NULL);
}
