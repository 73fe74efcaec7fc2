/* model_info.h: the metadata about its model that a trainer writes to a checkpoint. */
#ifndef LS_TRAIN_MODEL_INFO_H
#define LS_TRAIN_MODEL_INFO_H

#include <lockstep/trainer.h>

/* The pairs for ls_training_state.metadata; the checkpoint itself adds classes, mean, std and crop.
 */
enum { LS__INFO_METADATA = 16, LS__INFO_TEXT = 32 };
typedef struct ls__info_metadata {
    char resize[LS__INFO_TEXT], dropout[LS__INFO_TEXT];
    const char *pairs[LS__INFO_METADATA];
    int n; /* of the texts in pairs */
} ls__info_metadata;
/* LS_ERR_INVALID names a member that ls_saved_model_open would reject. */
ls_status ls__model_info_check(ls_context *ctx, const char *call, const ls_model_info *info);
void ls__model_info_write(const ls_model_info *info, ls__info_metadata *out);

#endif
