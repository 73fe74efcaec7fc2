/* options.c: the check that a model has the options that are set. */
#include <lockstep/models.h>

bool ls_model_check_options(ls_graph *graph, const char *name, const ls_model_options *options,
                            unsigned features)
{
    static const ls_model_options defaults;
    const ls_model_options *o = options ? options : &defaults;
    const struct {
        bool is_set;
        unsigned feature;
        const char *name;
    } all[] = { { o->dropout != 0, LS_MODEL_DROPOUT, "dropout" },
                { o->stem != LS_STEM_AUTO, LS_MODEL_RESNET, "stem" },
                { o->zero_init_residual, LS_MODEL_RESNET, "zero_init_residual" },
                { o->parameter_free_shortcuts, LS_MODEL_RESNET, "parameter_free_shortcuts" } };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].is_set && !(features & all[i].feature)) {
            ls_graph_fail(graph, LS_ERR_INVALID, "%s has no option '%s', which is set", name,
                          all[i].name);
            return false;
        }
    return true;
}
