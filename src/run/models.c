/* models.c: see models.h. */
#include "run/models.h"

#include "base/error.h"
#include "run/setting.h"
#include <stdio.h>

const ls_model *ls__find_model(ls_context *ctx, const char *name)
{
    const ls_model *model = ls_model_find(name);
    if (model) return model;
    enum { MAX_MODELS = 64, MODELS_SIZE = 512 };
    const char *names[MAX_MODELS];
    char hint[LS_HINT_SIZE], models[MODELS_SIZE];
    int n = 0;
    for (; n < MAX_MODELS && (model = ls_model_at(n)); n++) names[n] = model->name;
    ls__list_models(models, sizeof(models));
    ls_closest_hint(name, n, names, "", "", hint);
    ls__refuse(ctx, "unknown model '%s'%s", name, hint);
    if (!*hint) ls__error_hint(ctx, "the models are %s", models);
    return NULL;
}

void ls__list_models(char *out, size_t size)
{
    const ls_model *model;
    size_t n = 0;
    for (int i = 0; (model = ls_model_at(i)) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", model->name);
}

void ls__list_dropouts(char *out, size_t size)
{
    const ls_model *model;
    size_t n = 0;
    for (int i = 0; (model = ls_model_at(i)) && n < size; i++)
        if (model->dropout >= 0)
            n += (size_t)snprintf(out + n, size - n, "%s%s: %g", n ? ", " : "", model->name,
                                  model->dropout);
}

bool ls__check_resnet_settings(ls_context *ctx, const ls_given *given, const ls_model *model)
{
    static const char *const names[] = { "stem", "parameter-free-shortcuts", "zero-init-residual" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!model->resnet && ls_given_has(given, names[i]))
            return ls__refuse(ctx, "--%s has no effect here: it requires a resnet", names[i]);
    return true;
}
