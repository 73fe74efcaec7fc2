/* groups.h: which samples stay together when a dataset is divided. */
#ifndef LS_DATA_DATASET_GROUPS_H
#define LS_DATA_DATASET_GROUPS_H

#include "data/dataset/dataset.h"

/* image[i]: the first sample whose path leads to the same file as that of sample i, through
 * symbolic links, too. The number i itself where samples have no paths, and in class folders and
 * packs, where each path is there once. */
ls_status ls__find_images(ls_dataset *dataset, const char *what, int64_t *image);

/* joined[i]: the first sample that is joined with sample i by images and groups. image: of
 * ls__find_images. */
ls_status ls__join_groups(ls_dataset *dataset, const char *what, const int64_t *image,
                          int64_t *joined);

/* The name of the sample's group; NULL: it has none. */
const char *ls__group_of(const ls_dataset *dataset, int64_t sample);

/* The dataset takes the texts, one for each sample, as its groups; an empty text is none. by: the
 * pattern or column, for the run's identity. */
ls_status ls__set_groups(ls_dataset *dataset, const char *what, ls__text_list *texts,
                         const char *by, bool is_pattern);
/* The samples have no groups afterwards. */
void ls__remove_groups(ls_dataset *dataset);

#endif
