/* label_order.h: the classes of labels that a list or names of files have. */
#ifndef LS_DATA_DATASET_LABEL_ORDER_H
#define LS_DATA_DATASET_LABEL_ORDER_H

#include <stdint.h>

/* Sorts n labels, by value if all are decimal numbers without leading zeros, else in byte order,
 * and keeps one of each. Returns how many. */
int64_t ls__sort_labels(int64_t n, const char **labels);

/* A label and its class or target, or another text and the sample that has it. */
typedef struct ls__label {
    const char *name; /* first, for ls__compare_texts */
    int64_t number;
} ls__label;

/* By the names, then by the numbers; for qsort. */
int ls__compare_labels(const void *a, const void *b);
/* The n names with their numbers, sorted for ls__find_label. */
void ls__index_labels(int n, const char *const *names, ls__label *out);
/* NULL if it is not among them. */
const ls__label *ls__find_label(int n, const ls__label *labels, const char *name);

#endif
