/* sweep_trials.c: what a sweep has found, for programs; see lockstep/sweep.h. */
#include "base/c_locale.h"
#include "experiment/sweep.h"
#include <math.h>
#include <stdlib.h>

ls_context *ls_sweep_context(const ls_sweep *sweep)
{
    return sweep ? sweep->ctx : NULL;
}

const char *ls_sweep_dir(const ls_sweep *sweep)
{
    return sweep && sweep->values.out ? sweep->values.out : "";
}

const char *ls_sweep_metric(const ls_sweep *sweep)
{
    return sweep ? ls__sweep_metric_key(sweep->values.metric) : "";
}

int64_t ls_sweep_epochs(const ls_sweep *sweep)
{
    return sweep ? sweep->epochs : 0;
}

int ls_sweep_parameter_count(const ls_sweep *sweep)
{
    return sweep ? sweep->file.n_searched : 0;
}

const char *ls_sweep_parameter_name(const ls_sweep *sweep, int i)
{
    return i >= 0 && i < ls_sweep_parameter_count(sweep) ? sweep->file.searched[i].search.name : "";
}

int64_t ls_sweep_trial_count(const ls_sweep *sweep)
{
    return sweep ? ls_search_trial_count(sweep->search) : 0;
}

bool ls_sweep_trial_at(const ls_sweep *sweep, int64_t trial, ls_sweep_trial *out)
{
    const ls__sweep_result *r = sweep ? ls__sweep_last(sweep, trial) : NULL;
    if (!r) return false;
    *out = (ls_sweep_trial){
        .epochs = r->epochs, .metric = r->value, .best_epoch = r->best_epoch, .error = r->error
    };
    return true;
}

const char *ls_sweep_trial_value(const ls_sweep *sweep, int64_t trial, int parameter,
                                 char out[LS_SWEEP_VALUE_SIZE])
{
    if (parameter < 0 || parameter >= ls_sweep_parameter_count(sweep)) return "";
    LS__IN_C_LOCALE;
    return ls__sweep_value_text(&sweep->file.searched[parameter],
                                ls_search_value(sweep->search, trial, parameter), out);
}

int64_t ls_sweep_best_trial(const ls_sweep *sweep)
{
    const ls__sweep_result *best = NULL;
    for (int64_t i = 0; i < ls_sweep_trial_count(sweep); i++) {
        const ls__sweep_result *r = ls__sweep_last(sweep, i);
        if (r && !isnan(r->value) &&
            (!best || ls__sweep_is_better(sweep->values.metric, r->value, best->value)))
            best = r;
    }
    return best ? best->trial : -1;
}

int ls_sweep_trial_dir(const ls_sweep *sweep, int64_t trial, char *out, size_t size)
{
    return ls__sweep_trial_dir(ls_sweep_dir(sweep), trial, out, size);
}
