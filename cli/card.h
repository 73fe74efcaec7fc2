/* card.h: what a checkpoint says beside its weights: which model, which classes, which images.
 * Enough to use it with nothing else at hand. */
#ifndef LS_CLI_CARD_H
#define LS_CLI_CARD_H

#include "cli.h"

typedef struct model_card {
    const ls_model *model;
    ls_resnet_options options; /* n_classes = that of the list below */
    int64_t image_size;        /* side of the square that the net sees */
    int64_t resize;            /* shorter side before it is cut out, in validation */
    bool exif;                 /* images are turned upright */
    ls_decode decode;
    float mean[3], std[3];
    const char *const *classes;
    json_t *json; /* what `classes` borrows from; NULL for a card that was not read */
} model_card;

/* The pairs for ls_training_state.metadata; the checkpoint itself adds classes, mean, std and crop.
 */
enum { CARD_METADATA = 12, CARD_TEXT = 32 };
typedef struct card_metadata {
    char texts[CARD_METADATA / 2][CARD_TEXT];
    const char *pairs[CARD_METADATA];
} card_metadata;
int card_write(const model_card *card, card_metadata *out); /* how many of out->pairs */

/* Reads the card of a checkpoint of `lockstep train`. On failure prints why and returns false. */
bool card_read(ls_context *ctx, const cli_verb *verb, const char *path, model_card *out);
void card_close(model_card *card);

/* Inference net of a card's model with the checkpoint's weights, for batches of `batch`; NULL and
 * an error in the context. with_loss: also loss and top-1 against labels. */
ls_net *card_open_net(ls_context *ctx, const model_card *card, const char *path, int64_t batch,
                      ls_precision precision, bool with_loss);

/* How validation and prediction see images. */
ls_loader_config card_loader_config(const model_card *card, int64_t batch);

#endif
