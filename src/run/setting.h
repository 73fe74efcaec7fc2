/* setting.h: what the library does with tables of settings (lockstep/settings.h). From the table
 * come parsing, ranges, defaults, help, configuration files, the JSON of config.json and the rules
 * of a resume, so none of them can drift from another. */
#ifndef LS_RUN_SETTING_H
#define LS_RUN_SETTING_H

#include <jansson.h>
#include <lockstep/settings.h>

/* Stores an error about a setting, LS_ERR_SETTING; its value is false. */
bool ls__refuse(ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);

/* ---- One setting ---- */

/* The address of its value. */
void *ls__setting_field(const ls_setting *setting, void *values);
/* The position of `word` among the words of "a|b|c", or -1. */
int ls__setting_choice(const char *choices, const char *word);
/* The word at a position that exists, not terminated. */
const char *ls__choice_word(const char *choices, int index, int *length);
/* Rounds to the 15 digits that config.json stores, so that the stored number is the one in use. */
double ls__setting_round(double x);

/* ls_setting_read, with the error "--NAME: expected ..., got '...'". */
ls_status ls__setting_set(ls_context *ctx, const ls_setting *setting, const char *text,
                          void *values);

/* ---- A table ---- */

/* Sets the table's defaults, then `settings`, a list of texts "name=value" that ends with NULL and
 * may be NULL, and `given`. *texts becomes a copy of the list, from which values and `given` are
 * borrowed, and which the caller frees in any case. LS_ERR_SETTING for a wrong setting. */
ls_status ls__settings_read(ls_context *ctx, const ls_setting *table, const char *const *settings,
                            char ***texts, void *values, ls_given *given);
void ls__settings_free_texts(char **texts);

/* Sets a setting that was not given, unless it is preset; `text` is a value as typed. Ignores a
 * name that the table does not have. */
void ls__given_preset(ls_given *given, const char *name, const char *text, void *values);
/* Whether the setting was given or preset. */
bool ls__given_sets(const ls_given *given, const char *name);

/* ---- JSON: settings_json.c ---- */

/* All values by name; NULL without memory. */
json_t *ls__settings_to_json(const ls_setting *table, const void *values);
/* The names of the settings whose values a default has computed from others: they have no default
 * in the table, can change a result, and are neither given nor preset. NULL without memory. */
json_t *ls__settings_computed(const ls_given *given);
/* Sets those that are not given to the values of a stored run, without those in `computed`, a list
 * of names. all: the table of the stored run. Texts are borrowed from `stored`; source: its file.
 */
ls_status ls__settings_from_run(ls_context *ctx, const ls_setting *all, const json_t *stored,
                                const json_t *computed, const char *source, void *values,
                                ls_given *given);
/* The same with the config.json that ls_given_read_file has read into `from`, if it has. */
ls_status ls__given_import_run(ls_context *ctx, const ls_setting *all, const ls_given *from,
                               void *values, ls_given *given);
/* Sets those that are not given to the stored values. One that is given and differs from the stored
 * one is an error, unless it is an execution or lasting setting. */
ls_status ls__settings_resume(ls_context *ctx, const ls_given *given, const json_t *stored,
                              const char *source, void *values);
/* The list of {"option": "epochs", "there": 30, "here": 60} for the lasting settings whose values
 * differ from the stored ones; NULL without memory. */
json_t *ls__settings_changed(const ls_setting *table, const json_t *stored, const void *values);

#endif
