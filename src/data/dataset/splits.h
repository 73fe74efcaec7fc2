/* splits.h: the names of splits. */
#ifndef LS_DATA_DATASET_SPLITS_H
#define LS_DATA_DATASET_SPLITS_H

#include <lockstep/data.h>

/* As ls_split_of_name for a list, "train_labels.csv": its extension is ignored, and its name may
 * have words such as "labels", too. */
bool ls__split_of_list(const char *name, ls_split *split);

/* The names of a split in the order of preference, "val", "validation", ... *n: how many. */
enum { LS__MAX_SPLIT_WORDS = 9 };
void ls__list_split_words(ls_split split, int *n, const char *words[LS__MAX_SPLIT_WORDS]);

#endif
