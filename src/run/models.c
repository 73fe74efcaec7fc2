/* models.c: bundled models by name; see lockstep/models.h. */
#include <lockstep/models.h>

#include "base/error.h"
#include <lockstep/settings.h>
#include <stdio.h>

const ls_model *ls_model_require(ls_context *ctx, const char *name)
{
    enum { MAX_MODELS = 64, MODELS_SIZE = 512 };
    LS__ENTER_NULL(ctx);
    const ls_model *model = ls_model_find(name);
    const char *names[MAX_MODELS];
    char hint[LS_HINT_SIZE];
    int n = 0;
    if (model) return model;
    for (; n < MAX_MODELS && (model = ls_model_at(n)); n++) names[n] = model->name;
    ls_closest_hint(name, n, names, "", "", hint);
    ls__fail(ctx, LS_ERR_SETTING, "unknown model '%s'%s", name, hint);
    if (!*hint) {
        char models[MODELS_SIZE];
        ls_model_list(models, sizeof(models));
        ls__error_hint(ctx, "the models are %s", models);
    }
    return NULL;
}

void ls_model_list(char *out, size_t size)
{
    const ls_model *model;
    size_t n = 0;
    for (int i = 0; (model = ls_model_at(i)) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", model->name);
}
