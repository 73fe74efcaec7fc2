/* split_choice.h: which samples of a dataset are for validation. */
#ifndef LS_DATA_DATASET_SPLIT_CHOICE_H
#define LS_DATA_DATASET_SPLIT_CHOICE_H

#include "data/dataset/dataset.h"

/* Sets is_validation[n_samples], and *n_chosen to the number of true ones, by the rule of
 * ls_dataset_split. LS_ERR_DATA if there are none. */
ls_status ls__choose_validation(ls_dataset *dataset, const char *what, double fraction,
                                uint64_t seed, bool *is_validation, int64_t *n_chosen);

#endif
