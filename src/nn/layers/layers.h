/* layers.h: the layers that passes distinguish, and nodes that ls_net_build itself appends. */
#ifndef LS_NN_LAYERS_LAYERS_H
#define LS_NN_LAYERS_LAYERS_H

#include "nn/plan/builder.h"

extern const ls__layer ls__input_layer, ls__parameter_layer, ls__conv2d_layer, ls__linear_layer,
    ls__batch_norm_layer, ls__add_layer, ls__pad_channels_layer, ls__flatten_layer,
    ls__cross_entropy_layer, ls__binary_cross_entropy_layer, ls__custom_layer;

/* An input of any type; ls_input accepts only F32 and I32. */
ls_node *ls__append_input(ls_graph *graph, const char *name, ls_spec spec);
/* u8 [N,H,W,C] -> f32. */
ls_node *ls__append_normalize(ls_graph *graph, ls_node *x, const float mean[4], const float std[4]);

/* The gradient of a fused op's result before the activation. */
int ls__gradient_before_activation(ls__builder *b, const ls__fused_op *fused);

/* Logs one warning for all batch norms with statistics over few values. */
void ls__warn_of_few_values(ls__builder *b);

#endif
