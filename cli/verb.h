/* verb.h: a verb of the command, its table of options, and its messages on stderr. */
#ifndef LS_CLI_VERB_H
#define LS_CLI_VERB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum option_kind {
    OPTION_END,     /* ends a table */
    OPTION_HEADING, /* only a line of --help: `help` */
    OPTION_SWITCH,  /* bool: given or not */
    OPTION_INTEGER, /* int64_t in [min, max] */
    OPTION_NUMBER,  /* double in [min, max], finite, of 15 digits */
    OPTION_TEXT,    /* const char *, not empty */
    OPTION_CHOICE   /* int: which of the words of `value`, "fail|skip" */
} option_kind;

typedef struct cli_option {
    option_kind kind;
    char letter;       /* 'b' for -b; 0 = none */
    const char *name;  /* "batch-size" for --batch-size */
    size_t offset;     /* of the value in the verb's struct */
    const char *help;  /* a short phrase, which --help wraps */
    const char *value; /* "N": what stands for the value in --help */
    double min, max;
    const char *fallback; /* default, as a user would write it; NULL = zero, or found by the verb */
    const char *note;     /* how the verb finds it: "by image size", or what null and 0 mean where
                             these are stored: without a fallback, a note makes null usable, and 0
                             below `min` */
    int64_t implied;      /* the number that a stored 0 of an OPTION_INTEGER means; 0 = none */
    bool executor;        /* cannot change a result: may differ when a run is resumed */
    bool lasting;         /* may be changed when a run is resumed, and stays changed */
    bool optional;        /* may be missing in a stored run of an older version: the default */
} cli_option;

enum { MAX_OPTIONS = 96 };

typedef struct cli_verb {
    const char *name, *summary;
    const char *arguments;     /* "IMAGE...", or "" for none */
    const char *details;       /* paragraphs for --help, each ended by \n; or NULL */
    const cli_option *options; /* at most MAX_OPTIONS, then OPTION_END */
    int (*run)(const struct cli_verb *verb, int argc, char **argv);
} cli_verb;

/* Prints "lockstep VERB: MESSAGE" and returns `answer`. */
int fail_with(const cli_verb *verb, int answer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void print_message(const cli_verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints "lockstep VERB: warning: MESSAGE". */
void print_warning(const cli_verb *verb, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
