/* names.h: the nearest existing names, for errors about unknown names. */
#ifndef LS_NN_GRAPH_NAMES_H
#define LS_NN_GRAPH_NAMES_H

#include "nn/graph/graph.h"

enum { LS__NAMES_TEXT_SIZE = 512 };

/* Fills buffer with "it has 62 parameters and buffers, the nearest: 'fc.weight', 'fc.bias'", or
 * with "it has no ...". `what` is the plural noun. Returns buffer. */
const char *ls__nearest_names(const ls__named_list *list, const char *what, const char *wanted,
                              char buffer[LS__NAMES_TEXT_SIZE]);
/* The same for n parameters, and buffers if `buffers`. */
const char *ls__nearest_parameters(int64_t n, const ls__parameter *parameters, bool buffers,
                                   const char *wanted, char buffer[LS__NAMES_TEXT_SIZE]);

#endif
