/* label_order.h: the classes of labels that a list or names of files have. */
#ifndef LS_DATA_DATASET_LABEL_ORDER_H
#define LS_DATA_DATASET_LABEL_ORDER_H

#include <stdint.h>

/* Sorts n labels, by value if all are decimal numbers without leading zeros, else in byte order,
 * and keeps one of each. Returns how many. */
int64_t ls__sort_labels(int64_t n, const char **labels);

#endif
