/* torch_tensors.h: what both formats of PyTorch files have in common: the places of tensors in
 * their storages. */
#ifndef LS_IO_TORCH_TENSORS_H
#define LS_IO_TORCH_TENSORS_H

#include "io/tensor_file.h"
#include "io/torch_pickle.h"

/* Sets *index to the format's number for a storage, and *bytes to its size; *index < 0: missing. */
typedef void ls__torch_find_storage(const void *format, const ls__torch_storage *storage,
                                    int64_t *index, uint64_t *bytes);

/* Sets the file's key and tensors, each of which must lie in its storage; `find` gets file->data.
 */
ls_status ls__torch_set_tensors(ls_tensor_file *file, const ls__torch_state_dict *dict,
                                ls__torch_find_storage *find);

#endif
