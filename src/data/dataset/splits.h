/* splits.h: the split that the name of a CSV file says. */
#ifndef LS_DATA_DATASET_SPLITS_H
#define LS_DATA_DATASET_SPLITS_H

#include <lockstep/data.h>

/* As ls_split_of_name for a list, "train_labels.csv": its extension is ignored, and its name may
 * have words such as "labels", too. */
bool ls__split_of_list(const char *name, ls_split *split);

#endif
