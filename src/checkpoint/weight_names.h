/* weight_names.h: how the names of a file of weights correspond to those of a net. */
#ifndef LS_CHECKPOINT_WEIGHT_NAMES_H
#define LS_CHECKPOINT_WEIGHT_NAMES_H

#include "io/tensor_file.h"
#include "checkpoint/checkpoint.h"

/* Sets *prefix to what the file's names have before the net's, such as "module." of DataParallel
 * or "model." of a module that holds the net: the prefix with which most of the net's tensors are
 * found, preferably "". `key`, which may be NULL, is that prefix, with or without the dot, or the
 * dict's key followed by it, unless it names the dict in the file. LS_ERR_MISMATCH names two
 * prefixes that suit equally well, or a key without tensors. *prefix lies in `bump`. */
ls_status ls__weight_prefix(ls__bump *bump, const ls_tensor_file *file,
                            const ls__saved_tensors *net, const char *key, const char **prefix);

/* The prefixes that DataParallel and torch.compile give to all names, or ""; NULL without memory.
 */
const char *ls__wrapper_prefix(ls__bump *bump, const ls_tensor_file *file);

/* Sets *order to NULL, or where the file stores the names of its classes in another order, to the
 * file's index of each of these classes. LS_ERR_MISMATCH names the classes that differ. */
ls_status ls__weight_class_order(ls__bump *bump, const ls_tensor_file *file, int64_t n_classes,
                                 const char *const *classes, const int64_t **order);

#endif
