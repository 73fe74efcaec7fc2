/* model_info.h: the metadata about its model that a trainer writes to a checkpoint. */
#ifndef LS_TRAIN_MODEL_INFO_H
#define LS_TRAIN_MODEL_INFO_H

#include <lockstep/trainer.h>

/* The pairs for ls_training_state.metadata; the checkpoint itself adds classes, mean, std and crop.
 */
enum { LS__INFO_METADATA = 12, LS__INFO_TEXT = 32 };
typedef struct ls__info_metadata {
    char resize[LS__INFO_TEXT];
    const char *pairs[LS__INFO_METADATA];
} ls__info_metadata;
void ls__model_info_write(const ls_model_info *info, ls__info_metadata *out);

#endif
