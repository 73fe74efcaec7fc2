/* dataset_path.h: the settings of lists and names of files that a program gives. */
#ifndef LS_RUN_DATASET_PATH_H
#define LS_RUN_DATASET_PATH_H

#include "run/data_settings.h"
#include <lockstep/dataset_path.h>

/* config NULL: none. */
ls__data_settings ls__data_settings_of(const ls_dataset_config *config);

#endif
