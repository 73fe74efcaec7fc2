/* thumbnail.h: small copies of samples' images, for reports. */
#ifndef LS_DATA_DATASET_THUMBNAIL_H
#define LS_DATA_DATASET_THUMBNAIL_H

#include "data/dataset/dataset.h"
#include <lockstep/loader.h>

/* The sample's image, upright, decoded with the alpha and depth of `loading`, with its longer side
 * at most `side`, as a JPEG file from the context's allocator. *out is NULL for an unreadable
 * image, which is no error. LS_ERR_MEMORY. */
ls_status ls__dataset_thumbnail(const ls_dataset *dataset, int64_t sample,
                                const ls_loader_config *loading, int64_t side, uint8_t **out,
                                size_t *size);

#endif
