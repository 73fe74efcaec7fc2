/* model.h: the net of the matrix, and two ways to make its sums depend on the number of threads. */
#ifndef LS_TESTS_MATRIX_MODEL_H
#define LS_TESTS_MATRIX_MODEL_H

#include <lockstep/lockstep.h>

enum { GOOD_PARTS = 3 };

typedef struct net_options {
    int width; /* of conv1 */
    int parts; /* in which an op of the net's own adds its gradient: GOOD_PARTS, or as many as there
                  are threads, which is wrong */
} net_options;

/* x [N,s,s,3] -> [N,3]. Odd sizes, strides, groups, a depthwise and a 1x1 convolution, batch norm,
 * pooling, a residual, dropout, an op of one's own. */
ls_node *matrix_model(ls_graph *g, ls_node *x, const void *options);

#endif
