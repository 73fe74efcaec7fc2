/* pickle_value.h: the values of Python's pickles, and the stack of the machine that makes them.
 *
 * Values are never walked recursively, so that neither nesting nor references to a value from many
 * places cost stack or time. A value that is neither a number, a text, a container nor a result of
 * an allowed function is opaque: only the name of its class is kept. */
#ifndef LS_IO_PICKLE_VALUE_H
#define LS_IO_PICKLE_VALUE_H

#include "base/bump.h"
#include <lockstep/status.h>

typedef enum ls__pickle_kind {
    LS__PICKLE_NONE,
    LS__PICKLE_BOOL,
    LS__PICKLE_INTEGER,
    LS__PICKLE_TEXT,
    LS__PICKLE_TUPLE,
    LS__PICKLE_LIST,
    LS__PICKLE_DICT,
    LS__PICKLE_GLOBAL, /* an allowed function or class */
    LS__PICKLE_OBJECT, /* a result of such a function */
    LS__PICKLE_OPAQUE  /* an instance of another class, the class, or another function */
} ls__pickle_kind;

typedef struct ls__pickle_value ls__pickle_value;
typedef struct ls__pickle_item {
    const ls__pickle_value *key; /* NULL in a list */
    const ls__pickle_value *value;
    struct ls__pickle_item *next;
} ls__pickle_item;

/* The items of a list or dict, in the order in which they were added. */
typedef struct ls__pickle_items {
    ls__pickle_item *first, *last;
    size_t mark; /* of a search; 0 at first */
} ls__pickle_items;

typedef struct ls__pickle_text {
    const char *bytes; /* in the pickle, not terminated */
    size_t n;
} ls__pickle_text;

typedef struct ls__pickle_class {
    ls__pickle_text module, name;
} ls__pickle_class;

typedef struct ls__pickle_global ls__pickle_global;

struct ls__pickle_value {
    ls__pickle_kind kind;
    int type; /* of an object */
    union {
        int64_t integer; /* of a bool: 0 or 1 */
        ls__pickle_text text;
        struct {
            const ls__pickle_value *const *items;
            size_t n;
        } tuple;
        ls__pickle_items *items; /* of a list or dict */
        const ls__pickle_global *global;
        const void *object;
        const ls__pickle_class *class; /* of an opaque value; NULL: a float, bytes or a set */
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

    size_t at;      /* the next byte; several pickles may follow each other */
    size_t op_at;   /* the opcode's byte */
    const char *op; /* its name */
    const ls__pickle_value **stack, **memo;
    size_t *marks;   /* heights of the stack */
    size_t n_copied; /* bytes that `find` and `call` have allocated */
    size_t n_stack, n_memo, n_marks, stack_capacity, memo_capacity, marks_capacity;
} ls__pickle;

struct ls__pickle_global {
    const char *module, *name;
    /* Pushes the result of a call (REDUCE); args is a tuple. NULL: the result is opaque. */
    ls_status (*call)(ls__pickle *p, const ls__pickle_value *args);
    const char *text; /* for `find` */
};

/* ---- Errors ---- */

ls_status ls__pickle_fail(ls__pickle *p, const char *format, ...) LS_PRINTF(2, 3);
ls_status ls__pickle_fail_memory(ls__pickle *p);
/* "a list", "an object of the class 'torch.nn.modules.linear.Linear'". */
enum { LS__PICKLE_KIND_TEXT = 256 };
const char *ls__pickle_kind_text(const ls__pickle_value *v, char text[LS__PICKLE_KIND_TEXT]);

/* ---- Bytes ---- */

ls_status ls__pickle_take(ls__pickle *p, size_t n, const unsigned char **out);
/* A little-endian number of n bytes, 8 at most. */
ls_status ls__pickle_take_number(ls__pickle *p, size_t n, uint64_t *out);
/* A text up to the end of its line. */
ls_status ls__pickle_take_line(ls__pickle *p, ls__pickle_text *out);

/* ---- Stack ---- */

ls_status ls__pickle_push(ls__pickle *p, const ls__pickle_value *v); /* NULL = no memory */
ls_status ls__pickle_push_integer(ls__pickle *p, int64_t n);
ls_status ls__pickle_push_text(ls__pickle *p, ls__pickle_text text);
ls_status ls__pickle_push_tuple(ls__pickle *p, const ls__pickle_value *const *items, size_t n);
/* An empty list or dict. */
ls_status ls__pickle_push_items(ls__pickle *p, ls__pickle_kind kind);
ls_status ls__pickle_push_object(ls__pickle *p, int type,
                                 const void *object); /* NULL = no memory */
ls_status ls__pickle_push_global(ls__pickle *p, const ls__pickle_global *global);
ls_status ls__pickle_push_opaque(ls__pickle *p, const ls__pickle_class *class);
/* Values above the last mark. */
size_t ls__pickle_count_free(const ls__pickle *p);
ls_status ls__pickle_pop(ls__pickle *p, const ls__pickle_value **out);
/* The values above the last mark, removed with the mark; valid until the next push. */
ls_status ls__pickle_pop_marked(ls__pickle *p, const ls__pickle_value *const **items, size_t *n);
ls_status ls__pickle_push_mark(ls__pickle *p);

/* ---- Values ---- */

/* key NULL: in a list. */
ls_status ls__pickle_add_item(ls__pickle *p, const ls__pickle_value *container,
                              const ls__pickle_value *key, const ls__pickle_value *value);
bool ls__pickle_text_equals(ls__pickle_text text, const char *other);
/* True if v is a text with these bytes. */
bool ls__pickle_is_text(const ls__pickle_value *v, const char *text);
/* The value of a dict's key, or NULL; as in Python, the last one counts. */
const ls__pickle_value *ls__pickle_get(const ls__pickle_value *dict, const char *key);
/* The object of that type, or NULL if v is another value. */
const void *ls__pickle_object(const ls__pickle_value *v, int type);

#endif
