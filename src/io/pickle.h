/* pickle.h: a reader of Python's pickles that executes nothing: a stack machine for the opcodes
 * that plain data and calls of allowed functions need. It refuses all other opcodes and globals.
 * https://docs.python.org/3/library/pickletools.html
 *
 * Values are never walked recursively, so that neither nesting nor references to a value from many
 * places cost stack or time. The contents of lists, floats and bools are dropped. */
#ifndef LS_IO_PICKLE_H
#define LS_IO_PICKLE_H

#include "base/bump.h"
#include <lockstep/status.h>

typedef enum ls__pickle_kind {
    LS__PICKLE_NONE,
    LS__PICKLE_BOOL,
    LS__PICKLE_INTEGER,
    LS__PICKLE_FLOAT,
    LS__PICKLE_TEXT,
    LS__PICKLE_TUPLE,
    LS__PICKLE_LIST,
    LS__PICKLE_DICT,
    LS__PICKLE_GLOBAL,
    LS__PICKLE_OBJECT /* what the allowed functions return */
} ls__pickle_kind;

extern const char *const ls__pickle_kind_names[];

typedef struct ls__pickle_value ls__pickle_value;
typedef struct ls__pickle_pair {
    const ls__pickle_value *key, *item;
    struct ls__pickle_pair *next;
} ls__pickle_pair;

typedef struct ls__pickle_dict {
    ls__pickle_pair *first, *last;
} ls__pickle_dict;

typedef struct ls__pickle_global ls__pickle_global;

struct ls__pickle_value {
    ls__pickle_kind kind;
    int type; /* of an object */
    union {
        int64_t integer;
        struct {
            const char *bytes; /* in the pickle, not terminated */
            size_t n;
        } text;
        struct {
            const ls__pickle_value *const *items;
            size_t n;
        } tuple;
        ls__pickle_dict *dict;
        const ls__pickle_global *global;
        const void *object;
    } u;
};

typedef struct ls__pickle {
    ls_context *ctx;
    ls__bump *bump; /* of all values */
    const unsigned char *bytes;
    size_t size;
    const ls__pickle_global *globals; /* the allowed ones */
    size_t n_globals;
    /* Pushes the object of a persistent id (BINPERSID). */
    ls_status (*find)(struct ls__pickle *p, const ls__pickle_value *id);

    size_t at;      /* the next byte */
    size_t op_at;   /* the opcode's byte */
    const char *op; /* its name */
    const ls__pickle_value **stack, **memo;
    size_t *marks;   /* heights of the stack */
    size_t n_copied; /* bytes that `find` and `call` have allocated */
    size_t n_stack, n_memo, n_marks, stack_room, memo_room, marks_room;
} ls__pickle;

struct ls__pickle_global {
    const char *module, *name;
    /* Pushes the result of a call (REDUCE); args is a tuple. NULL: a call is an error. */
    ls_status (*call)(ls__pickle *p, const ls__pickle_value *args);
    const char *text; /* for `find` */
};

/* Runs the whole pickle. *out and all values lie in `bump`; their texts lie in `bytes`. Memory is
 * at most 96 bytes per byte of the pickle, without what `find` and `call` allocate. LS_ERR_FORMAT
 * names the byte and the opcode or global that is malformed or not allowed. */
ls_status ls__pickle_run(ls__pickle *p, const ls__pickle_value **out);

/* For `find` and `call`. */
ls_status ls__pickle_fail(ls__pickle *p, const char *format, ...) LS_PRINTF(2, 3);
ls_status ls__pickle_fail_memory(ls__pickle *p);
ls_status ls__pickle_push(ls__pickle *p, const ls__pickle_value *v); /* NULL = no memory */
ls_status ls__pickle_push_dict(ls__pickle *p);
ls_status ls__pickle_push_object(ls__pickle *p, int type, const void *object); /* the same */
/* True if v is a text with these bytes. */
bool ls__pickle_is_text(const ls__pickle_value *v, const char *text);
/* The object of that type, or NULL if v is another value. */
const void *ls__pickle_object(const ls__pickle_value *v, int type);

#endif
