/* mlp.c: a multilayer perceptron: the pixels, two hidden layers of 512 units with ReLU, logits. */
#include <lockstep/models.h>

ls_node *ls_mlp(ls_graph *g, ls_node *x, const void *user_options)
{
    const ls_model_options *options = user_options;
    const int64_t n_classes = options && options->n_classes ? options->n_classes : 10;
    if (!ls_model_check_options(g, "mlp", options, 0)) return NULL;
    x = ls_flatten(g, x);
    x = ls_relu(g, ls_linear(g, "fc1", x, 512, NULL));
    x = ls_relu(g, ls_linear(g, "fc2", x, 512, NULL));
    return ls_linear(g, "fc3", x, n_classes, NULL);
}
