/* model_info.h: the metadata about its model that a trainer writes to a checkpoint. */
#ifndef LS_CHECKPOINT_MODEL_INFO_H
#define LS_CHECKPOINT_MODEL_INFO_H

#include "base/bump.h"
#include "base/context.h"
#include "data/dataset/dataset.h"
#include <jansson.h>
#include <lockstep/trainer.h>

/* The pairs for ls_training_state.metadata; the checkpoint itself adds classes, mean, std and crop.
 */
enum { LS__INFO_METADATA = 22, LS__INFO_TEXT = 32 };
typedef struct ls__info_metadata {
    char resize[LS__INFO_TEXT], dropout[LS__INFO_TEXT], depth[LS__INFO_TEXT];
    const char *pairs[LS__INFO_METADATA];
    int n; /* of the texts in pairs */
} ls__info_metadata;
/* LS_ERR_INVALID names a member that ls_saved_model_open would reject. */
ls_status ls__model_info_check(ls_context *ctx, const char *call, const ls_model_info *info);
void ls__model_info_write(const ls_model_info *info, ls__info_metadata *out);

enum { LS__MAX_IMAGE_SIDE = 4096 };
static inline bool ls__is_image_side(int64_t side)
{
    return side > 0 && side <= LS__MAX_IMAGE_SIDE;
}
/* Images with a side below this are cropped from a padded border, as CIFAR's; larger ones by random
 * area, as ImageNet's. */
enum { LS__SMALL_IMAGE_SIDE = 64 };
static inline bool ls__is_small_image(int64_t height, int64_t width)
{
    return height < LS__SMALL_IMAGE_SIDE || width < LS__SMALL_IMAGE_SIDE;
}

/* The loss of the model, with its default. */
static inline ls_loss_kind ls__model_info_loss(const ls_model_info *info)
{
    return info->loss == LS_LOSS_NONE ? LS_LOSS_CROSS_ENTROPY : info->loss;
}

struct ls_saved_model {
    ls__owned owned;
    char *path;
    ls_model_info info;
    json_t *classes; /* owns the names of info.classes, */
    ls__bump names;  /* or, of weights without metadata, this does; also of all other memory */
    /* Of ls_dataset_split; the fraction is 0 if the validation data are no part of a dataset. */
    double split_fraction;
    uint64_t split_seed;
    bool digest_of_contents;
    char validation_digest[LS_DIGEST_TEXT_SIZE];
    char *group_pattern; /* of ls_dataset_group_by_pattern, in `names`; NULL = none */
    const char *opened_by[LS__N_OPENED_BY]; /* as in ls_dataset, in `names` */
};

/* After weights did not fit a net: adds the setting that makes weights of other classes, or of
 * another first layer, fit. new_head: how a new last layer is trained. */
void ls__hint_weights(ls_context *ctx, const ls_weight_report *report, const char *new_head);

/* Reads the metadata. Returns the first key whose value cannot be used, or NULL. */
const char *ls__model_info_read(ls_context *ctx, const ls_tensor_file *file, ls_saved_model *out);

#endif
