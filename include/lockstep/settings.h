/* settings.h: tables of settings, by which programs read options and files of options. A run's are
 * ls_run_settings of run.h; a program can have tables of its own. */
#ifndef LOCKSTEP_SETTINGS_H
#define LOCKSTEP_SETTINGS_H

#include <lockstep/context.h>

LS_BEGIN_DECLARATIONS

typedef enum ls_setting_kind {
    LS_SETTING_END,     /* ends a table */
    LS_SETTING_HEADING, /* `help` is a title for the rows below */
    LS_SETTING_SWITCH,  /* bool: "", "true" or "false" */
    LS_SETTING_INTEGER, /* int64_t in [min, max] */
    LS_SETTING_SIZE,    /* ls_size, both sides in [min, max]: "N" for a square, or "HxW" */
    LS_SETTING_NUMBER,  /* double in [min, max], finite, of 15 digits */
    LS_SETTING_TEXT,    /* const char *, not empty */
    LS_SETTING_CHOICE   /* int: which of the words of `value`, "fail|skip" */
} ls_setting_kind;

/* The size of an image, in pixels. */
typedef struct ls_size {
    int64_t height, width;
} ls_size;

/* In place of an offset: the value is checked, but not stored. */
#define LS_SETTING_UNSTORED SIZE_MAX

/* One setting. All texts are static. */
typedef struct ls_setting {
    ls_setting_kind kind;
    char letter;          /* of the command's short option: 'b' for -b; 0 = none */
    const char *name;     /* "batch-size" */
    size_t offset;        /* of the value in the struct of values, or LS_SETTING_UNSTORED */
    const char *help;     /* a short phrase */
    const char *value;    /* what the value stands for: "N", "FILE"; the words "fail|skip"; NULL for
                             a switch */
    double min, max;      /* of numbers */
    const char *fallback; /* default, as a user would write it; NULL = zero, or computed */
    const char *note;     /* how a default is computed, for help texts. With a note and no fallback,
                             a stored null, or a stored 0 below `min`, means "not given". */
    int64_t implied;      /* the number that a stored 0 of an INTEGER means; 0 = none */
    bool execution;       /* cannot change a result: may differ when a run is resumed */
    bool lasting;         /* may be changed when a run is resumed, and stays changed */
    bool images;          /* the images of a batch depend on it */
    bool session;         /* of one session: its stored value is neither resumed nor used again */
    bool whole_run;       /* does not change a step with a given learning rate */
    bool usual;           /* in short help texts */
    const char *excludes; /* a setting that can't be given beside it, NULL = none: one that is typed
                             replaces the other in a file */
    void (*list)(char *out, size_t size); /* writes a list that help texts add; NULL = none */
    LS_RESERVED(8);
} ls_setting;

enum { LS_MAX_SETTINGS = 128 };

/* Which settings of a table are given. Texts are borrowed. */
typedef struct ls_given {
    const ls_setting *table;
    const char *text[LS_MAX_SETTINGS]; /* the value as typed; "" for a switch; NULL = not given */
    bool in_file[LS_MAX_SETTINGS];     /* given in a file of `key = value` lines */
    bool preset[LS_MAX_SETTINGS];      /* set by a preset, or from the config.json of a run */
    const char *run_file; /* the config.json of a run that values come from; NULL = none */
    void *file;           /* what a file gave: ls_given_read_file */
    LS_RESERVED(8);
} ls_given;

/* Reads a value as typed into the struct of values. Texts are borrowed. expected: the values that
 * the setting accepts, "a number from 0 to 1". */
enum { LS_EXPECTED_SIZE = 256 };
LS_API bool ls_setting_read(const ls_setting *setting, const char *text, void *values,
                            char expected[LS_EXPECTED_SIZE]);
/* Writes the values that the setting accepts. */
LS_API void ls_setting_expected(const ls_setting *setting, char *out, size_t size);

/* The index of the setting of that name, or -1. */
LS_API int ls_setting_find(const ls_setting *table, const char *name, size_t length);
/* Writes the defaults of the table. */
LS_API void ls_settings_default(const ls_setting *table, void *values);

/* Whether the setting was given; false for a name that the table does not have. */
LS_API bool ls_given_has(const ls_given *given, const char *name);

/* The end of a message about an unknown word: "; did you mean '--WORD'?" with the most similar of n
 * words after `dashes`, or `otherwise` if none is similar. Writes it to `out`, and returns out. */
enum { LS_HINT_SIZE = 96 };
LS_API const char *ls_closest_hint(const char *word, int n, const char *const *words,
                                   const char *dashes, const char *otherwise,
                                   char out[LS_HINT_SIZE]);

/* The same about the name of a setting, which may be one with _ or capitals, or that of another
 * training program, such as "imgsz". */
LS_API const char *ls_setting_hint(const ls_setting *table, const char *name, const char *dashes,
                                   const char *otherwise, char out[LS_HINT_SIZE]);

/* Reads a file of settings: lines `key = value`, with comments after #. Sets those that are not
 * given, but checks all. ignored: a table of settings that the lines may have, too, without an
 * effect, as the settings of a run (run.h) for a program that has only some of them; the file may
 * then also be the config.json of a run, which ls_run_open reads from `given`. NULL: none. A second
 * call replaces what the first one gave. Errors: LS_ERR_SETTING with file and line, also for a file
 * that can't be read; LS_ERR_MEMORY. */
LS_API ls_status ls_given_read_file(ls_context *ctx, const char *path, const ls_setting *ignored,
                                    void *values, ls_given *given);
/* Frees what the file gave: texts and values that are borrowed from it. */
LS_API void ls_given_free(ls_given *given);

LS_END_DECLARATIONS

#endif
