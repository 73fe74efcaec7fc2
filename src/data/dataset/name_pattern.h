/* name_pattern.h: regular expressions that take a part out of the names of images. */
#ifndef LS_DATA_DATASET_NAME_PATTERN_H
#define LS_DATA_DATASET_NAME_PATTERN_H

#include "base/context.h"
#include "data/dataset/folder.h"

/* Compiles a POSIX extended regular expression with one group, and adds to `parts` what the group
 * matches in each of n names. what: the call, for errors: LS_ERR_INVALID for the pattern,
 * LS_ERR_DATA if it does not match names, or the group is empty there; they are counted, and the
 * first one is named. */
ls_status ls__match_names(ls_context *ctx, const char *what, const char *pattern, int64_t n,
                          const char *const *names, ls__text_list *parts);

#endif
