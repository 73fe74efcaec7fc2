/* label_order.c: see label_order.h. The order is part of the identity of runs. */
#include "data/dataset/label_order.h"

#include "base/text.h"
#include "data/dataset/folder.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The value of a number without leading zeros; -1: another text, or a number of 10 digits. */
static int number_of(const char *text)
{
    return *text != '0' || !text[1] ? ls__parse_digits(text, 9) : -1;
}

static int compare_numbers(const void *a, const void *b)
{
    const int x = number_of(*(const char *const *)a), y = number_of(*(const char *const *)b);
    return (x > y) - (x < y);
}

int64_t ls__sort_labels(int64_t n, const char **labels)
{
    bool are_numbers = true;
    for (int64_t i = 0; i < n; i++) are_numbers = are_numbers && number_of(labels[i]) >= 0;
    qsort(labels, (size_t)n, sizeof(*labels), are_numbers ? compare_numbers : ls__compare_texts);
    int64_t n_labels = 0;
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || strcmp(labels[i], labels[n_labels - 1]) != 0) labels[n_labels++] = labels[i];
    return n_labels;
}

int ls__compare_labels(const void *a, const void *b)
{
    const ls__label *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

void ls__index_labels(int n, const char *const *names, ls__label *out)
{
    for (int i = 0; i < n; i++) out[i] = (ls__label){ names[i], i };
    qsort(out, (size_t)n, sizeof(*out), ls__compare_labels);
}

const ls__label *ls__find_label(int n, const ls__label *labels, const char *name)
{
    const ls__label key = { name, 0 };
    return bsearch(&key, labels, (size_t)n, sizeof(key), ls__compare_texts);
}
