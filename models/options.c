/* options.c: the options of a model: defaults, and the check that it has those that are set. */
#include <lockstep/models.h>
#include <math.h>

bool ls_model_resolve_options(ls_graph *graph, const ls_model *model, const void *options,
                              ls_model_options *out)
{
    *out = options ? *(const ls_model_options *)options : (ls_model_options){ 0 };
    const bool has_dropout = model->dropout >= 0, resnet = model->resnet;
    const char *refused = !has_dropout && out->dropout != 0          ? "dropout"
                          : !resnet && out->stem != LS_STEM_AUTO     ? "stem"
                          : !resnet && out->zero_init_residual       ? "zero_init_residual"
                          : !resnet && out->parameter_free_shortcuts ? "parameter_free_shortcuts"
                                                                     : NULL;
    if (refused)
        return ls_graph_fail(graph, LS_ERR_INVALID, "%s has no option '%s', which is set",
                             model->name, refused);
    if (out->n_classes == 0) out->n_classes = model->n_classes;
    if (has_dropout && out->dropout == 0)
        out->dropout = signbit(out->dropout) ? 0 : (float)model->dropout;
    return true;
}
