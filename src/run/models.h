/* models.h: the bundled models in settings and their help texts. */
#ifndef LS_RUN_MODELS_H
#define LS_RUN_MODELS_H

#include <lockstep/models.h>
#include <lockstep/settings.h>

/* The sides of --image-size. */
enum { LS__MIN_IMAGE_SIZE = 8, LS__MAX_IMAGE_SIZE = 4096 };

/* A bundled model; NULL with the error, which names the most similar one. */
const ls_model *ls__find_model(ls_context *ctx, const char *name);
/* False with the error if a setting of ResNets alone is given for another model. */
bool ls__check_resnet_settings(ls_context *ctx, const ls_given *given, const ls_model *model);

/* Both write a list for help texts: the bundled models, and those with dropout, each with its
 * default. */
void ls__list_models(char *out, size_t size);
void ls__list_dropouts(char *out, size_t size);

#endif
