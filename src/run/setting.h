/* setting.h: settings as rows of a table. From the table come parsing, ranges, defaults, help,
 * configuration files, the JSON of config.json and the rules of a resume, so none of them can drift
 * from another. */
#ifndef LS_RUN_SETTING_H
#define LS_RUN_SETTING_H

#include "run/closest.h"
#include <jansson.h>
#include <lockstep/context.h>
#include <stddef.h>

typedef enum ls__setting_kind {
    LS__SETTING_END,     /* ends a table */
    LS__SETTING_HEADING, /* `help` is a title for the rows below */
    LS__SETTING_SWITCH,  /* bool: "", "true" or "false" */
    LS__SETTING_INTEGER, /* int64_t in [min, max] */
    LS__SETTING_SIZE,    /* ls__size, both sides in [min, max]: "N" for a square, or "HxW" */
    LS__SETTING_NUMBER,  /* double in [min, max], finite, of 15 digits */
    LS__SETTING_TEXT,    /* const char *, not empty */
    LS__SETTING_CHOICE   /* int: which of the words of `value`, "fail|skip" */
} ls__setting_kind;

/* The size of an image, in pixels. */
typedef struct ls__size {
    int64_t height, width;
} ls__size;

typedef struct ls__setting {
    ls__setting_kind kind;
    char letter;          /* of the command's short option: 'b' for -b; 0 = none */
    const char *name;     /* "batch-size" */
    size_t offset;        /* of the value in the struct of values */
    const char *help;     /* a short phrase */
    const char *value;    /* "N": placeholder for the value in help texts */
    double min, max;      /* of numbers */
    const char *fallback; /* default, as a user would write it; NULL = zero, or computed */
    const char *note;     /* how a default is computed, for help texts. With a note and no fallback,
                             a stored null, or a stored 0 below `min`, means "not given". */
    int64_t implied;      /* the number that a stored 0 of an INTEGER means; 0 = none */
    bool execution;       /* cannot change a result: may differ when a run is resumed */
    bool lasting;         /* may be changed when a run is resumed, and stays changed */
    bool images;          /* the images of a batch depend on it */
    bool optional;        /* may be missing in a stored run of an older version: the default */
    bool session;         /* of one session: its stored value is neither resumed nor used again */
    bool whole_run;       /* does not change a step with a given learning rate */
    bool usual;           /* in short help texts */
    void (*list)(char *out, size_t size); /* writes a list that help texts add; NULL = none */
} ls__setting;

enum { LS__MAX_SETTINGS = 128 };

/* Which settings of a table are given. Texts are borrowed. */
typedef struct ls__given {
    const ls__setting *table;
    const char *text[LS__MAX_SETTINGS]; /* the value as typed; "" for a switch; NULL = not given */
    bool in_file[LS__MAX_SETTINGS];     /* given in a file of `key = value` lines */
    bool preset[LS__MAX_SETTINGS];      /* set by ls__given_preset, or from the config.json of a
                                           run */
    bool from_run;                      /* values come from the config.json of a run */
} ls__given;

/* Stores an error about a setting, LS_ERR_SETTING; its value is false. */
bool ls__refuse(ls_context *ctx, const char *format, ...) LS_PRINTF(2, 3);

/* ---- One setting ---- */

/* The address of its value. */
void *ls__setting_field(const ls__setting *setting, void *values);
/* Reads a value as typed. Texts are borrowed. expected: the values that the setting accepts. */
enum { LS__EXPECTED_SIZE = 256 };
bool ls__setting_read(const ls__setting *setting, const char *text, void *values,
                      char expected[LS__EXPECTED_SIZE]);
/* Writes "a number from 0 to 1": the values that the setting accepts. */
void ls__setting_expected(const ls__setting *setting, char *out, size_t size);
/* The position of `word` among the words of "a|b|c", or -1. */
int ls__setting_choice(const char *choices, const char *word);
/* Rounds to the 15 digits that config.json stores, so that the stored number is the one in use. */
double ls__setting_round(double x);

/* ---- A table ---- */

/* The index of the setting of that name, or -1. */
int ls__setting_find(const ls__setting *table, const char *name, size_t length);
/* The name of the setting that is meant by `name`: with _ or capitals, or as another training
 * program has it, such as "imgsz"; NULL if there is none. In foreign_names.c, as the next one. */
const char *ls__setting_meant(const ls__setting *table, const char *name);
/* "; did you mean ...": with ls__setting_meant, else as ls__closest_hint. */
const char *ls__setting_hint(const ls__setting *table, const char *name, const char *dashes,
                             const char *otherwise, char out[LS__HINT_SIZE]);
/* Writes the defaults of the table. */
void ls__settings_default(const ls__setting *table, void *values);

bool ls__given_has(const ls__given *given, const char *name);
/* Sets a setting that was not given, unless it is preset; `text` is a value as typed. Ignores a
 * name that the table does not have. */
void ls__given_preset(ls__given *given, const char *name, const char *text, void *values);
/* Whether the setting was given or preset. */
bool ls__given_sets(const ls__given *given, const char *name);

/* ---- JSON: settings_json.c ---- */

/* All values by name; NULL without memory. */
json_t *ls__settings_to_json(const ls__setting *table, const void *values);
/* The names of the settings whose values a default has computed from others: they have no default
 * in the table, can change a result, and are neither given nor preset. NULL without memory. */
json_t *ls__settings_computed(const ls__given *given);
/* Sets those that are not given to the values of a stored run, without those in `computed`, a list
 * of names. all: the table of the stored run. Texts are borrowed from `stored`; source: its file.
 */
ls_status ls__settings_from_run(ls_context *ctx, const ls__setting *all, const json_t *stored,
                                const json_t *computed, const char *source, void *values,
                                ls__given *given);
/* Sets those that are not given to the stored values. One that is given and differs from the stored
 * one is an error, unless it is an execution or lasting setting. */
ls_status ls__settings_resume(ls_context *ctx, const ls__given *given, const json_t *stored,
                              const char *source, void *values);
/* The list of {"option": "epochs", "there": 30, "here": 60} for the lasting settings whose values
 * differ from the stored ones; NULL without memory. */
json_t *ls__settings_changed(const ls__setting *table, const json_t *stored, const void *values);

#endif
