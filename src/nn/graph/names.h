/* names.h: the nearest existing names, for errors about unknown names. */
#ifndef LS_NN_GRAPH_NAMES_H
#define LS_NN_GRAPH_NAMES_H

#include "nn/graph/graph.h"

enum { LS__NAMES_TEXT_SIZE = 512 };

/* The index of a name. If the list does not contain it: -1 and an error like "ls_net_feed: the net
 * has no input 'x'; it has 3 inputs: 'input', 'label', 'y'". what: "input", for example. */
int ls__expect_named(ls_context *ctx, const ls__named_list *list, const char *call,
                     const char *what, const char *name);
/* Fills buffer with "it has 62 parameters and buffers, the nearest: 'fc.weight', 'fc.bias'", or
 * with "it has no ...", and returns it. Buffers are included if `buffers`. */
const char *ls__nearest_parameters(int64_t n, const ls__parameter *parameters, bool buffers,
                                   const char *unknown, char buffer[LS__NAMES_TEXT_SIZE]);

#endif
