/* pickle_value.c: see pickle_value.h. */
#include "io/pickle_value.h"

#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* ---- Errors ---- */

ls_status ls__pickle_fail(ls__pickle *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const ls_status status = ls__fail_v(p->ctx, LS_ERR_FORMAT, format, args);
    va_end(args);
    ls__error_in(p->ctx, "pickle opcode %s at byte %zu", p->op, p->op_at);
    return status;
}

ls_status ls__pickle_fail_memory(ls__pickle *p)
{
    return ls__fail_memory(p->ctx, "pickle", 0);
}

const char *ls__pickle_kind_text(const ls__pickle_value *v, char text[LS__PICKLE_KIND_TEXT])
{
    enum { MAX_NAME = 100 };
    static const char *const kinds[] = { "None",
                                         "a bool",
                                         "an int",
                                         "a str",
                                         "a tuple",
                                         "a list",
                                         "a dict",
                                         "a function",
                                         "a tensor or storage",
                                         "a float, bytes or set" };
    if (v->kind != LS__PICKLE_OPAQUE || !v->u.class) return kinds[v->kind];
    const ls__pickle_text module = v->u.class->module, name = v->u.class->name;
    ls__snprintf(text, LS__PICKLE_KIND_TEXT, "an object of the class '%.*s.%.*s'",
                 (int)(module.n < MAX_NAME ? module.n : MAX_NAME), module.bytes,
                 (int)(name.n < MAX_NAME ? name.n : MAX_NAME), name.bytes);
    return text;
}

/* ---- Bytes ---- */

ls_status ls__pickle_take(ls__pickle *p, size_t n, const unsigned char **out)
{
    *out = NULL;
    if (n > p->size - p->at)
        return ls__pickle_fail(p, "%zu bytes expected, the pickle has %zu more", n,
                               p->size - p->at);
    *out = p->bytes + p->at;
    p->at += n;
    return LS_OK;
}

ls_status ls__pickle_take_number(ls__pickle *p, size_t n, uint64_t *out)
{
    const unsigned char *bytes;
    *out = 0;
    LS_TRY(ls__pickle_take(p, n, &bytes));
    for (size_t i = 0; i < n; i++) *out |= (uint64_t)bytes[i] << (8 * i);
    return LS_OK;
}

ls_status ls__pickle_take_line(ls__pickle *p, ls__pickle_text *out)
{
    const unsigned char *begin = p->bytes + p->at;
    const unsigned char *end = memchr(begin, '\n', p->size - p->at);
    if (!end) return ls__pickle_fail(p, "the line does not end");
    *out = (ls__pickle_text){ (const char *)begin, (size_t)(end - begin) };
    p->at += out->n + 1;
    return LS_OK;
}

/* ---- Stack ---- */

static ls__pickle_value *new_value(ls__pickle *p, ls__pickle_kind kind)
{
    ls__pickle_value *v = ls__bump_alloc(p->bump, sizeof(*v));
    if (v) v->kind = kind;
    return v;
}

ls_status ls__pickle_push(ls__pickle *p, const ls__pickle_value *v)
{
    const ls__pickle_value **stack =
        v ? ls__bump_room(p->bump, p->stack, p->n_stack, 1, &p->stack_capacity, sizeof(*stack))
          : NULL;
    if (!stack) return ls__pickle_fail_memory(p);
    p->stack = stack;
    stack[p->n_stack++] = v;
    return LS_OK;
}

ls_status ls__pickle_push_integer(ls__pickle *p, int64_t n)
{
    ls__pickle_value *v = new_value(p, LS__PICKLE_INTEGER);
    if (v) v->u.integer = n;
    return ls__pickle_push(p, v);
}

ls_status ls__pickle_push_text(ls__pickle *p, ls__pickle_text text)
{
    ls__pickle_value *v = new_value(p, LS__PICKLE_TEXT);
    if (v) v->u.text = text;
    return ls__pickle_push(p, v);
}

ls_status ls__pickle_push_tuple(ls__pickle *p, const ls__pickle_value *const *items, size_t n)
{
    static const ls__pickle_value empty = { .kind = LS__PICKLE_TUPLE };
    if (n == 0) return ls__pickle_push(p, &empty);
    ls__pickle_value *v = new_value(p, LS__PICKLE_TUPLE);
    const ls__pickle_value **copy = ls__bump_alloc(p->bump, n * sizeof(*copy));
    if (!v || !copy) return ls__pickle_fail_memory(p);
    memcpy(copy, items, n * sizeof(*copy));
    v->u.tuple.items = copy;
    v->u.tuple.n = n;
    return ls__pickle_push(p, v);
}

ls_status ls__pickle_push_items(ls__pickle *p, ls__pickle_kind kind)
{
    ls__pickle_value *v = new_value(p, kind);
    if (!v) return ls__pickle_fail_memory(p);
    v->u.items = ls__bump_alloc(p->bump, sizeof(*v->u.items));
    return v->u.items ? ls__pickle_push(p, v) : ls__pickle_fail_memory(p);
}

ls_status ls__pickle_push_object(ls__pickle *p, int type, const void *object)
{
    ls__pickle_value *v = object ? new_value(p, LS__PICKLE_OBJECT) : NULL;
    if (!v) return ls__pickle_fail_memory(p);
    v->type = type;
    v->u.object = object;
    return ls__pickle_push(p, v);
}

ls_status ls__pickle_push_global(ls__pickle *p, const ls__pickle_global *global)
{
    ls__pickle_value *v = new_value(p, LS__PICKLE_GLOBAL);
    if (v) v->u.global = global;
    return ls__pickle_push(p, v);
}

ls_status ls__pickle_push_opaque(ls__pickle *p, const ls__pickle_class *class)
{
    static const ls__pickle_value unnamed = { .kind = LS__PICKLE_OPAQUE };
    if (!class) return ls__pickle_push(p, &unnamed);
    ls__pickle_value *v = new_value(p, LS__PICKLE_OPAQUE);
    if (v) v->u.class = class;
    return ls__pickle_push(p, v);
}

size_t ls__pickle_count_free(const ls__pickle *p)
{
    return p->n_stack - (p->n_marks > 0 ? p->marks[p->n_marks - 1] : 0);
}

ls_status ls__pickle_pop(ls__pickle *p, const ls__pickle_value **out)
{
    *out = NULL;
    if (ls__pickle_count_free(p) == 0) return ls__pickle_fail(p, "the stack is empty");
    *out = p->stack[--p->n_stack];
    return LS_OK;
}

ls_status ls__pickle_pop_marked(ls__pickle *p, const ls__pickle_value *const **items, size_t *n)
{
    *items = NULL;
    *n = 0;
    if (p->n_marks == 0) return ls__pickle_fail(p, "the stack has no mark");
    *n = ls__pickle_count_free(p);
    p->n_stack -= *n;
    p->n_marks--;
    *items = p->stack + p->n_stack;
    return LS_OK;
}

ls_status ls__pickle_push_mark(ls__pickle *p)
{
    size_t *marks =
        ls__bump_room(p->bump, p->marks, p->n_marks, 1, &p->marks_capacity, sizeof(*marks));
    if (!marks) return ls__pickle_fail_memory(p);
    p->marks = marks;
    marks[p->n_marks++] = p->n_stack;
    return LS_OK;
}

/* ---- Values ---- */

ls_status ls__pickle_add_item(ls__pickle *p, const ls__pickle_value *container,
                              const ls__pickle_value *key, const ls__pickle_value *value)
{
    ls__pickle_items *items = container->u.items;
    ls__pickle_item *item = ls__bump_alloc(p->bump, sizeof(*item));
    if (!item) return ls__pickle_fail_memory(p);
    *item = (ls__pickle_item){ key, value, NULL };
    if (items->last)
        items->last->next = item;
    else
        items->first = item;
    items->last = item;
    return LS_OK;
}

bool ls__pickle_text_equals(ls__pickle_text text, const char *other)
{
    return strlen(other) == text.n && memcmp(text.bytes, other, text.n) == 0;
}

bool ls__pickle_is_text(const ls__pickle_value *v, const char *text)
{
    return v->kind == LS__PICKLE_TEXT && ls__pickle_text_equals(v->u.text, text);
}

const ls__pickle_value *ls__pickle_get(const ls__pickle_value *dict, const char *key)
{
    const ls__pickle_value *found = NULL;
    for (const ls__pickle_item *item = dict->u.items->first; item; item = item->next)
        if (ls__pickle_is_text(item->key, key)) found = item->value;
    return found;
}

const void *ls__pickle_object(const ls__pickle_value *v, int type)
{
    return v->kind == LS__PICKLE_OBJECT && v->type == type ? v->u.object : NULL;
}
