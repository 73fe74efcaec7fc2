/* torch_search.h: finds the state dict among the values of a PyTorch file. */
#ifndef LS_IO_TORCH_SEARCH_H
#define LS_IO_TORCH_SEARCH_H

#include "io/pickle_value.h"

/* Values of ls__pickle_value.type. */
enum { LS__TORCH_STORAGE, LS__TORCH_TENSOR };

/* Finds the dict of tensors in `root`, the value of a file's pickle; see ls__torch_read_state_dict.
 * *found: its key, in p->bump. Takes at most 64 bytes for each byte of the pickle. */
ls_status ls__torch_search(ls__pickle *p, const ls__pickle_value *root, const char *key,
                           const ls__pickle_value **dict, const char **found);

/* True if `text` is the key, or begins with it and a dot. */
bool ls__is_below_key(const char *text, const char *key);

#endif
