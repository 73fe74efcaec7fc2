/* pickle.c: see pickle.h. */
#include "io/pickle.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *const ls__pickle_kind_names[] = {
    "None", "bool", "int", "float", "str", "tuple", "list", "dict", "global", "tensor or storage"
};

/* Values without contents. */
static const ls__pickle_value none = { .kind = LS__PICKLE_NONE },
                              some_bool = { .kind = LS__PICKLE_BOOL },
                              some_float = { .kind = LS__PICKLE_FLOAT },
                              some_list = { .kind = LS__PICKLE_LIST },
                              empty_tuple = { .kind = LS__PICKLE_TUPLE };

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

/* ---- Bytes ---- */

static ls_status take(ls__pickle *p, size_t n, const unsigned char **out)
{
    *out = NULL;
    if (n > p->size - p->at)
        return ls__pickle_fail(p, "%zu bytes expected, the pickle has %zu more", n,
                               p->size - p->at);
    *out = p->bytes + p->at;
    p->at += n;
    return LS_OK;
}

/* A little-endian number of n bytes, 8 at most. */
static ls_status take_number(ls__pickle *p, size_t n, uint64_t *out)
{
    const unsigned char *bytes;
    *out = 0;
    LS_TRY(take(p, n, &bytes));
    for (size_t i = 0; i < n; i++) *out |= (uint64_t)bytes[i] << (8 * i);
    return LS_OK;
}

/* A text up to the end of its line. */
static ls_status take_line(ls__pickle *p, const char **text, size_t *n)
{
    const unsigned char *begin = p->bytes + p->at;
    const unsigned char *end = memchr(begin, '\n', p->size - p->at);
    if (!end) return ls__pickle_fail(p, "the line does not end");
    *text = (const char *)begin;
    *n = (size_t)(end - begin);
    p->at += *n + 1;
    return LS_OK;
}

/* ---- Stack ---- */

static ls__pickle_value *new_value(ls__pickle *p, ls__pickle_kind kind)
{
    ls__pickle_value *v = ls__bump_alloc(p->bump, sizeof(*v));
    if (v) v->kind = kind;
    return v;
}

/* NULL = no memory. */
ls_status ls__pickle_push(ls__pickle *p, const ls__pickle_value *v)
{
    const ls__pickle_value **stack =
        v ? ls__bump_room(p->bump, p->stack, p->n_stack, 1, &p->stack_room, sizeof(*stack)) : NULL;
    if (!stack) return ls__pickle_fail_memory(p);
    p->stack = stack;
    stack[p->n_stack++] = v;
    return LS_OK;
}

static ls_status push_integer(ls__pickle *p, int64_t n)
{
    ls__pickle_value *v = new_value(p, LS__PICKLE_INTEGER);
    if (v) v->u.integer = n;
    return ls__pickle_push(p, v);
}

/* Values above the last mark. */
static size_t count_free(const ls__pickle *p)
{
    return p->n_stack - (p->n_marks > 0 ? p->marks[p->n_marks - 1] : 0);
}

static ls_status pop(ls__pickle *p, const ls__pickle_value **out)
{
    *out = NULL;
    if (count_free(p) == 0) return ls__pickle_fail(p, "the stack is empty");
    *out = p->stack[--p->n_stack];
    return LS_OK;
}

static ls_status pop_kind(ls__pickle *p, ls__pickle_kind kind, const ls__pickle_value **out)
{
    LS_TRY(pop(p, out));
    if ((*out)->kind == kind) return LS_OK;
    return ls__pickle_fail(p, "found a %s, expected a %s", ls__pickle_kind_names[(*out)->kind],
                           ls__pickle_kind_names[kind]);
}

/* The values above the last mark, removed with the mark; valid until the next push. */
static ls_status pop_marked(ls__pickle *p, const ls__pickle_value *const **items, size_t *n)
{
    *items = NULL;
    *n = 0;
    if (p->n_marks == 0) return ls__pickle_fail(p, "the stack has no mark");
    *n = count_free(p);
    p->n_stack -= *n;
    p->n_marks--;
    *items = p->stack + p->n_stack;
    return LS_OK;
}

/* ---- Values ---- */

ls_status ls__pickle_push_dict(ls__pickle *p)
{
    ls__pickle_value *v = new_value(p, LS__PICKLE_DICT);
    if (!v) return ls__pickle_fail_memory(p);
    v->u.dict = ls__bump_alloc(p->bump, sizeof(*v->u.dict));
    return v->u.dict ? ls__pickle_push(p, v) : ls__pickle_fail_memory(p);
}

ls_status ls__pickle_push_object(ls__pickle *p, int type, const void *object)
{
    ls__pickle_value *v = object ? new_value(p, LS__PICKLE_OBJECT) : NULL;
    if (!v) return ls__pickle_fail_memory(p);
    v->type = type;
    v->u.object = object;
    return ls__pickle_push(p, v);
}

const void *ls__pickle_object(const ls__pickle_value *v, int type)
{
    return v->kind == LS__PICKLE_OBJECT && v->type == type ? v->u.object : NULL;
}

static bool equals(const char *text, size_t n, const char *other)
{
    return strlen(other) == n && memcmp(text, other, n) == 0;
}

bool ls__pickle_is_text(const ls__pickle_value *v, const char *text)
{
    return v->kind == LS__PICKLE_TEXT && equals(v->u.text.bytes, v->u.text.n, text);
}

/* ---- Opcodes ---- */

static ls_status op_proto(ls__pickle *p)
{
    uint64_t version;
    LS_TRY(take_number(p, 1, &version));
    return version == 2 ? LS_OK : ls__pickle_fail(p, "protocol %d, expected 2", (int)version);
}

static ls_status op_none(ls__pickle *p)
{
    return ls__pickle_push(p, &none);
}

static ls_status op_bool(ls__pickle *p)
{
    return ls__pickle_push(p, &some_bool);
}

static ls_status op_float(ls__pickle *p)
{
    const unsigned char *bytes;
    LS_TRY(take(p, sizeof(double), &bytes));
    return ls__pickle_push(p, &some_float);
}

static ls_status op_list(ls__pickle *p)
{
    return ls__pickle_push(p, &some_list);
}

static ls_status op_integer4(ls__pickle *p)
{
    uint64_t n;
    LS_TRY(take_number(p, 4, &n));
    return push_integer(p, (int32_t)(uint32_t)n);
}

static ls_status op_integer2(ls__pickle *p)
{
    uint64_t n;
    LS_TRY(take_number(p, 2, &n));
    return push_integer(p, (int64_t)n);
}

static ls_status op_integer1(ls__pickle *p)
{
    uint64_t n;
    LS_TRY(take_number(p, 1, &n));
    return push_integer(p, (int64_t)n);
}

static ls_status op_long(ls__pickle *p)
{
    uint64_t length, n;
    LS_TRY(take_number(p, 1, &length));
    if (length > sizeof(n))
        return ls__pickle_fail(p, "an integer of %d bytes, expected 8 at most", (int)length);
    LS_TRY(take_number(p, length, &n));
    const unsigned unused = 64 - 8 * (unsigned)length;
    const bool negative = length > 0 && n >> (8 * length - 1) & 1;
    if (negative && unused > 0) n |= UINT64_MAX << (8 * length);
    return push_integer(p, (int64_t)n);
}

static ls_status op_text(ls__pickle *p)
{
    uint64_t length;
    const unsigned char *bytes;
    LS_TRY(take_number(p, 4, &length));
    LS_TRY(take(p, (size_t)length, &bytes));
    ls__pickle_value *v = new_value(p, LS__PICKLE_TEXT);
    if (!v) return ls__pickle_fail_memory(p);
    v->u.text.bytes = (const char *)bytes;
    v->u.text.n = (size_t)length;
    return ls__pickle_push(p, v);
}

/* Pickles number the memo from 0, without gaps. */
static ls_status put(ls__pickle *p, size_t index_bytes)
{
    uint64_t i;
    LS_TRY(take_number(p, index_bytes, &i));
    if (i > p->n_memo)
        return ls__pickle_fail(p, "memo entry %" PRIu64 ", expected %zu at most", i, p->n_memo);
    if (count_free(p) == 0) return ls__pickle_fail(p, "the stack is empty");
    const ls__pickle_value **memo =
        ls__bump_room(p->bump, p->memo, p->n_memo, 1, &p->memo_room, sizeof(*memo));
    if (!memo) return ls__pickle_fail_memory(p);
    p->memo = memo;
    memo[i] = p->stack[p->n_stack - 1];
    if (i == p->n_memo) p->n_memo++;
    return LS_OK;
}

static ls_status get(ls__pickle *p, size_t index_bytes)
{
    uint64_t i;
    LS_TRY(take_number(p, index_bytes, &i));
    if (i >= p->n_memo) return ls__pickle_fail(p, "memo entry %" PRIu64 " of %zu", i, p->n_memo);
    return ls__pickle_push(p, p->memo[i]);
}

static ls_status op_put(ls__pickle *p)
{
    return put(p, 1);
}

static ls_status op_long_put(ls__pickle *p)
{
    return put(p, 4);
}

static ls_status op_get(ls__pickle *p)
{
    return get(p, 1);
}

static ls_status op_long_get(ls__pickle *p)
{
    return get(p, 4);
}

static ls_status op_mark(ls__pickle *p)
{
    size_t *marks = ls__bump_room(p->bump, p->marks, p->n_marks, 1, &p->marks_room, sizeof(*marks));
    if (!marks) return ls__pickle_fail_memory(p);
    p->marks = marks;
    marks[p->n_marks++] = p->n_stack;
    return LS_OK;
}

static ls_status push_tuple(ls__pickle *p, const ls__pickle_value *const *items, size_t n)
{
    if (n == 0) return ls__pickle_push(p, &empty_tuple);
    ls__pickle_value *v = new_value(p, LS__PICKLE_TUPLE);
    const ls__pickle_value **copy = ls__bump_alloc(p->bump, n * sizeof(*copy));
    if (!v || !copy) return ls__pickle_fail_memory(p);
    memcpy(copy, items, n * sizeof(*copy));
    v->u.tuple.items = copy;
    v->u.tuple.n = n;
    return ls__pickle_push(p, v);
}

static ls_status op_tuple(ls__pickle *p)
{
    const ls__pickle_value *const *items;
    size_t n;
    LS_TRY(pop_marked(p, &items, &n));
    return push_tuple(p, items, n);
}

static ls_status op_empty_tuple(ls__pickle *p)
{
    return ls__pickle_push(p, &empty_tuple);
}

static ls_status push_small_tuple(ls__pickle *p, size_t n)
{
    if (count_free(p) < n) return ls__pickle_fail(p, "the stack is empty");
    p->n_stack -= n;
    return push_tuple(p, p->stack + p->n_stack, n);
}

static ls_status op_tuple1(ls__pickle *p)
{
    return push_small_tuple(p, 1);
}

static ls_status op_tuple2(ls__pickle *p)
{
    return push_small_tuple(p, 2);
}

static ls_status op_tuple3(ls__pickle *p)
{
    return push_small_tuple(p, 3);
}

/* The value below, which stays on the stack. */
static ls_status top_of_kind(ls__pickle *p, ls__pickle_kind kind, const ls__pickle_value **out)
{
    LS_TRY(pop_kind(p, kind, out));
    p->n_stack++;
    return LS_OK;
}

static ls_status op_append(ls__pickle *p)
{
    const ls__pickle_value *item, *list;
    LS_TRY(pop(p, &item));
    return top_of_kind(p, LS__PICKLE_LIST, &list);
}

static ls_status op_appends(ls__pickle *p)
{
    const ls__pickle_value *const *items, *list;
    size_t n;
    LS_TRY(pop_marked(p, &items, &n));
    return top_of_kind(p, LS__PICKLE_LIST, &list);
}

static ls_status add_pairs(ls__pickle *p, const ls__pickle_value *const *items, size_t n)
{
    const ls__pickle_value *v;
    if (n % 2 != 0) return ls__pickle_fail(p, "a key without a value");
    LS_TRY(top_of_kind(p, LS__PICKLE_DICT, &v));
    ls__pickle_dict *dict = v->u.dict;
    for (size_t i = 0; i < n; i += 2) {
        ls__pickle_pair *pair = ls__bump_alloc(p->bump, sizeof(*pair));
        if (!pair) return ls__pickle_fail_memory(p);
        *pair = (ls__pickle_pair){ items[i], items[i + 1], NULL };
        if (dict->last)
            dict->last->next = pair;
        else
            dict->first = pair;
        dict->last = pair;
    }
    return LS_OK;
}

static ls_status op_set_item(ls__pickle *p)
{
    if (count_free(p) < 3) return ls__pickle_fail(p, "the stack is empty");
    p->n_stack -= 2;
    return add_pairs(p, p->stack + p->n_stack, 2);
}

static ls_status op_set_items(ls__pickle *p)
{
    const ls__pickle_value *const *items;
    size_t n;
    LS_TRY(pop_marked(p, &items, &n));
    return add_pairs(p, items, n);
}

static ls_status op_global(ls__pickle *p)
{
    const char *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    LS_TRY(take_line(p, &module, &n_module));
    LS_TRY(take_line(p, &name, &n_name));
    for (size_t i = 0; i < p->n_globals; i++) {
        const ls__pickle_global *global = &p->globals[i];
        if (!equals(module, n_module, global->module) || !equals(name, n_name, global->name))
            continue;
        ls__pickle_value *v = new_value(p, LS__PICKLE_GLOBAL);
        if (v) v->u.global = global;
        return ls__pickle_push(p, v);
    }
    enum { MAX_TEXT = 100 };
    return ls__pickle_fail(p, "the global '%.*s.%.*s' is not allowed",
                           (int)(n_module < MAX_TEXT ? n_module : MAX_TEXT), module,
                           (int)(n_name < MAX_TEXT ? n_name : MAX_TEXT), name);
}

static ls_status op_reduce(ls__pickle *p)
{
    const ls__pickle_value *args, *callee;
    LS_TRY(pop_kind(p, LS__PICKLE_TUPLE, &args));
    LS_TRY(pop_kind(p, LS__PICKLE_GLOBAL, &callee));
    const ls__pickle_global *global = callee->u.global;
    if (!global->call) return ls__pickle_fail(p, "a call of '%s.%s'", global->module, global->name);
    return global->call(p, args);
}

/* Sets attributes of a dict, such as _metadata of PyTorch's state dicts. They are dropped. */
static ls_status op_build(ls__pickle *p)
{
    const ls__pickle_value *state, *object;
    LS_TRY(pop_kind(p, LS__PICKLE_DICT, &state));
    return top_of_kind(p, LS__PICKLE_DICT, &object);
}

static ls_status op_persistent_id(ls__pickle *p)
{
    const ls__pickle_value *id;
    LS_TRY(pop(p, &id));
    return p->find(p, id);
}

/* All opcodes up to protocol 5. Those without a function are refused. */
static const struct {
    unsigned char code;
    const char *name;
    ls_status (*run)(ls__pickle *p);
} opcodes[] = {
    { 0x80, "PROTO", op_proto },
    { '(', "MARK", op_mark },
    { '}', "EMPTY_DICT", ls__pickle_push_dict },
    { ']', "EMPTY_LIST", op_list },
    { ')', "EMPTY_TUPLE", op_empty_tuple },
    { 't', "TUPLE", op_tuple },
    { 0x85, "TUPLE1", op_tuple1 },
    { 0x86, "TUPLE2", op_tuple2 },
    { 0x87, "TUPLE3", op_tuple3 },
    { 'N', "NONE", op_none },
    { 0x88, "NEWTRUE", op_bool },
    { 0x89, "NEWFALSE", op_bool },
    { 'J', "BININT", op_integer4 },
    { 'M', "BININT2", op_integer2 },
    { 'K', "BININT1", op_integer1 },
    { 0x8a, "LONG1", op_long },
    { 'G', "BINFLOAT", op_float },
    { 'X', "BINUNICODE", op_text },
    { 'q', "BINPUT", op_put },
    { 'r', "LONG_BINPUT", op_long_put },
    { 'h', "BINGET", op_get },
    { 'j', "LONG_BINGET", op_long_get },
    { 'a', "APPEND", op_append },
    { 'e', "APPENDS", op_appends },
    { 's', "SETITEM", op_set_item },
    { 'u', "SETITEMS", op_set_items },
    { 'c', "GLOBAL", op_global },
    { 'R', "REDUCE", op_reduce },
    { 'b', "BUILD", op_build },
    { 'Q', "BINPERSID", op_persistent_id },
    { '0', "POP", NULL },
    { '1', "POP_MARK", NULL },
    { '2', "DUP", NULL },
    { 'F', "FLOAT", NULL },
    { 'I', "INT", NULL },
    { 'L', "LONG", NULL },
    { 0x8b, "LONG4", NULL },
    { 'S', "STRING", NULL },
    { 'T', "BINSTRING", NULL },
    { 'U', "SHORT_BINSTRING", NULL },
    { 'V', "UNICODE", NULL },
    { 'B', "BINBYTES", NULL },
    { 'C', "SHORT_BINBYTES", NULL },
    { 0x8c, "SHORT_BINUNICODE", NULL },
    { 0x8d, "BINUNICODE8", NULL },
    { 0x8e, "BINBYTES8", NULL },
    { 0x96, "BYTEARRAY8", NULL },
    { 'd', "DICT", NULL },
    { 'l', "LIST", NULL },
    { 0x8f, "EMPTY_SET", NULL },
    { 0x90, "ADDITEMS", NULL },
    { 0x91, "FROZENSET", NULL },
    { 'p', "PUT", NULL },
    { 'g', "GET", NULL },
    { 0x94, "MEMOIZE", NULL },
    { 'i', "INST", NULL },
    { 'o', "OBJ", NULL },
    { 0x81, "NEWOBJ", NULL },
    { 0x92, "NEWOBJ_EX", NULL },
    { 0x93, "STACK_GLOBAL", NULL },
    { 'P', "PERSID", NULL },
    { 0x82, "EXT1", NULL },
    { 0x83, "EXT2", NULL },
    { 0x84, "EXT4", NULL },
    { 0x95, "FRAME", NULL },
    { 0x97, "NEXT_BUFFER", NULL },
    { 0x98, "READONLY_BUFFER", NULL },
};

ls_status ls__pickle_run(ls__pickle *p, const ls__pickle_value **out)
{
    enum { STOP = '.' };
    p->stack = ls__bump_room(p->bump, NULL, 0, 1, &p->stack_room, sizeof(*p->stack));
    if (!p->stack) return ls__pickle_fail_memory(p);
    for (;;) {
        const unsigned char *code;
        char number[8];
        p->op_at = p->at;
        p->op = "STOP";
        LS_TRY(take(p, 1, &code));
        if (*code == STOP) break;
        size_t i = 0;
        const size_t n = sizeof(opcodes) / sizeof(opcodes[0]);
        while (i < n && opcodes[i].code != *code) i++;
        snprintf(number, sizeof(number), "0x%02x", *code);
        p->op = i < n ? opcodes[i].name : number;
        if (i == n || !opcodes[i].run)
            return ls__pickle_fail(p, "not allowed: plain data does not need it");
        LS_TRY(opcodes[i].run(p));
    }
    if (p->n_stack != 1 || p->n_marks > 0)
        return ls__pickle_fail(p, "%zu values on the stack, expected 1", p->n_stack);
    *out = p->stack[0];
    return LS_OK;
}
