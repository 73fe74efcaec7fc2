/* torch_search.h: finds the state dict among the values of a PyTorch file. */
#ifndef LS_IO_TORCH_SEARCH_H
#define LS_IO_TORCH_SEARCH_H

#include "io/pickle_value.h"

/* The types of objects. */
enum { LS__TORCH_STORAGE, LS__TORCH_TENSOR };

/* Finds the dict of tensors in `root`, the value of the pickle of the file `path`; see
 * ls__torch_read_state_dict. *found: its key, in p->bump. */
ls_status ls__torch_search(ls__pickle *p, const char *path, const ls__pickle_value *root,
                           const char *key, const ls__pickle_value **dict, const char **found);

#endif
