/* input.h: nodes that ls_net_build itself puts into a graph. */
#ifndef LS_NN_LAYERS_INPUT_H
#define LS_NN_LAYERS_INPUT_H

#include "nn/graph/graph.h"

/* An input of any type; ls_input is the public way, for F32 and I32. */
ls_node *ls__append_input(ls_graph *graph, const char *name, ls_spec spec);
/* u8 [N,H,W,C] -> f32. */
ls_node *ls__append_normalize(ls_graph *graph, ls_node *x, const float mean[4], const float std[4]);

#endif
