/* repro_settings.h: the settings of an experiment on reproducibility. */
#ifndef LS_EXPERIMENT_REPRO_SETTINGS_H
#define LS_EXPERIMENT_REPRO_SETTINGS_H

#include "run/settings.h"

enum { LS__REPRO_MAX_RESTARTS = 16 };

typedef struct ls__repro_values {
    ls__run_settings settings; /* first: the settings of a run are at their offsets in it */
    const char *workers, *threads, *ranks;
    int64_t restarts;
} ls__repro_values;

/* Those of the experiment; the option "out" is the command's. */
extern const ls_setting ls__repro_settings[];
/* The same, then those of a run that apply to all runs. */
void ls__repro_make_settings(ls_setting out[LS_MAX_SETTINGS + 1]);
/* The index of the first setting of a run. */
int ls__repro_own_setting_count(void);

#endif
