/* sweep_options.c: the table of the options of a sweep; see sweep.h. */
#include "experiment/child.h"
#include "experiments/sweep.h"

#define AT(member) offsetof(sweep_values, member)

const ls__setting sweep_options[] = {
    { LS__SETTING_HEADING, .help = "Search:" },
    { LS__SETTING_CHOICE, 0, "method", AT(method),
      "random = independent draws; grid = all combinations; halving = successive halving of "
      "--trials; hyperband = several brackets of halving; tpe = draws near good trials",
      "random|grid|halving|hyperband|tpe", .fallback = "random" },
    { LS__SETTING_INTEGER, 0, "trials", AT(trials),
      "number of trials; computed by grid and hyperband", "N", 1, 10000,
      .note = "required by random, halving and tpe" },
    { LS__SETTING_CHOICE, 0, "metric", AT(metric),
      "metric of a trial, and --metric of its run: the best value of its epochs; val-loss (or "
      "loss) "
      "and cross_entropy = the lowest, val-top1 (or top1) and others = the highest",
      "val-top1|val-loss" LS__OTHER_METRIC_NAMES "|top1|loss", .fallback = "val-top1" },
    { LS__SETTING_INTEGER, 0, "seed", AT(seed), "random seed of the search, not of the trials", "S",
      0, 9e18, .fallback = "0" },
    { LS__SETTING_INTEGER, 0, "min-epochs", AT(min_epochs),
      "epochs of the first rung of halving and hyperband; the last one has the epochs of the "
      "trials",
      "N", 1, 1e5, .note = "1" },
    { LS__SETTING_INTEGER, 0, "eta", AT(eta),
      "halving and hyperband: one of N trials is promoted to the next rung, with N times the "
      "epochs",
      "N", 2, 1000, .note = "3" },
    { LS__SETTING_INTEGER, 0, "startup", AT(startup),
      "tpe: random trials before the first suggestion", "N", 1, 10000, .note = "10" },
    { LS__SETTING_INTEGER, 0, "batch", AT(batch),
      "tpe: trials that are suggested together, from the results before them; at most so many "
      "train at a time",
      "N", 1, 10000, .note = "1" },
    { LS__SETTING_HEADING, .help = "Run:" },
    { LS__SETTING_INTEGER, 0, "parallel", AT(parallel), "trials that train at a time", "N", 1,
      LS__MAX_CHILDREN, .fallback = "1", .execution = true },
    { LS__SETTING_CHOICE, 0, "on-failed-trial", AT(on_failed_trial),
      "a trial that fails: stop = stop the sweep; skip = rank the trial last and continue",
      "stop|skip", .fallback = "stop", .execution = true },
    { LS__SETTING_SWITCH, 0, "force", AT(force),
      "continue although images were repaired: completed trials keep their results, others begin "
      "again",
      .execution = true, .session = true },
    { LS__SETTING_TEXT, 0, "out", AT(out), "folder of the sweep, new or to be continued", "DIR",
      .fallback = "sweep", .execution = true },
    { .kind = LS__SETTING_END },
};
