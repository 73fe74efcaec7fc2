/* models.c: the table of bundled models. */
#include <lockstep/models.h>
#include <string.h>

static const ls_model models[] = {
    { "resnet20", ls_resnet20, 32, 10, true, -1 },
    { "resnet32", ls_resnet32, 32, 10, true, -1 },
    { "resnet44", ls_resnet44, 32, 10, true, -1 },
    { "resnet56", ls_resnet56, 32, 10, true, -1 },
    { "resnet110", ls_resnet110, 32, 10, true, -1 },
    { "resnet18", ls_resnet18, 224, 1000, true, -1 },
    { "resnet34", ls_resnet34, 224, 1000, true, -1 },
    { "resnet50", ls_resnet50, 224, 1000, true, -1 },
    { "resnet101", ls_resnet101, 224, 1000, true, -1 },
    { "resnet152", ls_resnet152, 224, 1000, true, -1 },
    { "wide_resnet50_2", ls_wide_resnet50_2, 224, 1000, true, -1 },
    { "resnext50_32x4d", ls_resnext50_32x4d, 224, 1000, true, -1 },
    { "mobilenet_v2", ls_mobilenet_v2, 224, 1000, false, 0.2 },
    { "vgg16_bn", ls_vgg16_bn, 224, 1000, false, 0.5 },
    { "wide_resnet28_10", ls_wide_resnet28_10, 32, 10, false, 0 },
    { "mlp", ls_mlp, 28, 10, false, -1 },
    { "lenet5", ls_lenet5, 28, 10, false, -1 },
};

const ls_model *ls_model_at(int i)
{
    return i >= 0 && i < (int)(sizeof(models) / sizeof(models[0])) ? &models[i] : NULL;
}

const ls_model *ls_model_find(const char *name)
{
    for (size_t i = 0; name && i < sizeof(models) / sizeof(models[0]); i++)
        if (strcmp(models[i].name, name) == 0) return &models[i];
    return NULL;
}
