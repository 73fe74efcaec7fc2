/* pickle.c: see pickle.h. */
#include "io/pickle.h"

#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Types on the stack ---- */

static ls_status pop_kind(ls__pickle *p, ls__pickle_kind kind, const char *expected,
                          const ls__pickle_value **out)
{
    char text[LS__PICKLE_KIND_TEXT];
    LS_TRY(ls__pickle_pop(p, out));
    if ((*out)->kind == kind) return LS_OK;
    return ls__pickle_fail(p, "found %s, expected %s", ls__pickle_kind_text(*out, text), expected);
}

/* Returns the container on top of the stack, which stays there: of that kind, or opaque. */
static ls_status top_container(ls__pickle *p, ls__pickle_kind kind, const char *expected,
                               const ls__pickle_value **out)
{
    char text[LS__PICKLE_KIND_TEXT];
    LS_TRY(ls__pickle_pop(p, out));
    p->n_stack++;
    if ((*out)->kind == kind || (*out)->kind == LS__PICKLE_OPAQUE) return LS_OK;
    return ls__pickle_fail(p, "found %s, expected %s", ls__pickle_kind_text(*out, text), expected);
}

/* ---- Numbers and texts ---- */

static ls_status op_proto(ls__pickle *p)
{
    uint64_t version;
    LS_TRY(ls__pickle_take_number(p, 1, &version));
    if (version >= 2 && version <= 5) return LS_OK;
    return ls__pickle_fail(p, "protocol %d, expected 2 to 5", (int)version);
}

/* The length of the frame, which begins here. */
static ls_status op_frame(ls__pickle *p)
{
    uint64_t length;
    return ls__pickle_take_number(p, 8, &length);
}

static ls_status op_none(ls__pickle *p)
{
    static const ls__pickle_value none = { .kind = LS__PICKLE_NONE };
    return ls__pickle_push(p, &none);
}

static ls_status op_true(ls__pickle *p)
{
    static const ls__pickle_value value = { .kind = LS__PICKLE_BOOL, .u.integer = 1 };
    return ls__pickle_push(p, &value);
}

static ls_status op_false(ls__pickle *p)
{
    static const ls__pickle_value value = { .kind = LS__PICKLE_BOOL };
    return ls__pickle_push(p, &value);
}

static ls_status op_float(ls__pickle *p)
{
    const unsigned char *bytes;
    LS_TRY(ls__pickle_take(p, sizeof(double), &bytes));
    return ls__pickle_push_opaque(p, NULL);
}

static ls_status op_integer4(ls__pickle *p)
{
    uint64_t n;
    LS_TRY(ls__pickle_take_number(p, 4, &n));
    return ls__pickle_push_integer(p, (int32_t)(uint32_t)n);
}

static ls_status op_integer2(ls__pickle *p)
{
    uint64_t n;
    LS_TRY(ls__pickle_take_number(p, 2, &n));
    return ls__pickle_push_integer(p, (int64_t)n);
}

static ls_status op_integer1(ls__pickle *p)
{
    uint64_t n;
    LS_TRY(ls__pickle_take_number(p, 1, &n));
    return ls__pickle_push_integer(p, (int64_t)n);
}

/* A two's complement number. One of more than 8 bytes, such as a seed, is opaque. */
static ls_status take_long(ls__pickle *p, size_t length_bytes)
{
    uint64_t length, n;
    const unsigned char *bytes;
    LS_TRY(ls__pickle_take_number(p, length_bytes, &length));
    if (length > sizeof(n)) {
        LS_TRY(ls__pickle_take(p, (size_t)length, &bytes));
        return ls__pickle_push_opaque(p, NULL);
    }
    LS_TRY(ls__pickle_take_number(p, (size_t)length, &n));
    const unsigned unused = 64 - 8 * (unsigned)length;
    const bool negative = length > 0 && n >> (8 * length - 1) & 1;
    if (negative && unused > 0) n |= UINT64_MAX << (8 * length);
    return ls__pickle_push_integer(p, (int64_t)n);
}

static ls_status op_long(ls__pickle *p)
{
    return take_long(p, 1);
}

static ls_status op_long4(ls__pickle *p)
{
    return take_long(p, 4);
}

static ls_status take_text(ls__pickle *p, size_t length_bytes)
{
    uint64_t length;
    const unsigned char *bytes;
    LS_TRY(ls__pickle_take_number(p, length_bytes, &length));
    LS_TRY(ls__pickle_take(p, (size_t)length, &bytes));
    return ls__pickle_push_text(p, (ls__pickle_text){ (const char *)bytes, (size_t)length });
}

static ls_status op_text1(ls__pickle *p)
{
    return take_text(p, 1);
}

static ls_status op_text4(ls__pickle *p)
{
    return take_text(p, 4);
}

static ls_status op_text8(ls__pickle *p)
{
    return take_text(p, 8);
}

static ls_status take_bytes(ls__pickle *p, size_t length_bytes)
{
    uint64_t length;
    const unsigned char *bytes;
    LS_TRY(ls__pickle_take_number(p, length_bytes, &length));
    LS_TRY(ls__pickle_take(p, (size_t)length, &bytes));
    return ls__pickle_push_opaque(p, NULL);
}

static ls_status op_bytes1(ls__pickle *p)
{
    return take_bytes(p, 1);
}

static ls_status op_bytes4(ls__pickle *p)
{
    return take_bytes(p, 4);
}

static ls_status op_bytes8(ls__pickle *p)
{
    return take_bytes(p, 8);
}

/* ---- Memo ---- */

/* Pickles number the memo from 0, without gaps. */
static ls_status memoize(ls__pickle *p, uint64_t i)
{
    if (i > p->n_memo)
        return ls__pickle_fail(p, "memo entry %" PRIu64 ", expected %zu at most", i, p->n_memo);
    if (ls__pickle_count_free(p) == 0) return ls__pickle_fail(p, "the stack is empty");
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
    LS_TRY(ls__pickle_take_number(p, index_bytes, &i));
    if (i >= p->n_memo) return ls__pickle_fail(p, "memo entry %" PRIu64 " of %zu", i, p->n_memo);
    return ls__pickle_push(p, p->memo[i]);
}

static ls_status op_put(ls__pickle *p)
{
    uint64_t i;
    LS_TRY(ls__pickle_take_number(p, 1, &i));
    return memoize(p, i);
}

static ls_status op_long_put(ls__pickle *p)
{
    uint64_t i;
    LS_TRY(ls__pickle_take_number(p, 4, &i));
    return memoize(p, i);
}

static ls_status op_memoize(ls__pickle *p)
{
    return memoize(p, p->n_memo);
}

static ls_status op_get(ls__pickle *p)
{
    return get(p, 1);
}

static ls_status op_long_get(ls__pickle *p)
{
    return get(p, 4);
}

/* ---- Containers ---- */

static ls_status op_pop(ls__pickle *p)
{
    const ls__pickle_value *v;
    return ls__pickle_pop(p, &v);
}

static ls_status op_pop_mark(ls__pickle *p)
{
    const ls__pickle_value *const *items;
    size_t n;
    return ls__pickle_pop_marked(p, &items, &n);
}

static ls_status op_list(ls__pickle *p)
{
    return ls__pickle_push_items(p, LS__PICKLE_LIST);
}

static ls_status op_dict(ls__pickle *p)
{
    return ls__pickle_push_items(p, LS__PICKLE_DICT);
}

static ls_status op_empty_set(ls__pickle *p)
{
    return ls__pickle_push_opaque(p, NULL);
}

static ls_status op_frozen_set(ls__pickle *p)
{
    LS_TRY(op_pop_mark(p));
    return ls__pickle_push_opaque(p, NULL);
}

static ls_status op_tuple(ls__pickle *p)
{
    const ls__pickle_value *const *items;
    size_t n;
    LS_TRY(ls__pickle_pop_marked(p, &items, &n));
    return ls__pickle_push_tuple(p, items, n);
}

static ls_status push_small_tuple(ls__pickle *p, size_t n)
{
    if (ls__pickle_count_free(p) < n) return ls__pickle_fail(p, "the stack is empty");
    p->n_stack -= n;
    return ls__pickle_push_tuple(p, p->stack + p->n_stack, n);
}

static ls_status op_empty_tuple(ls__pickle *p)
{
    return push_small_tuple(p, 0);
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

static ls_status append(ls__pickle *p, const ls__pickle_value *const *items, size_t n)
{
    const ls__pickle_value *list;
    LS_TRY(top_container(p, LS__PICKLE_LIST, "a list", &list));
    for (size_t i = 0; i < n && list->kind == LS__PICKLE_LIST; i++)
        LS_TRY(ls__pickle_add_item(p, list, NULL, items[i]));
    return LS_OK;
}

static ls_status op_append(ls__pickle *p)
{
    const ls__pickle_value *item;
    LS_TRY(ls__pickle_pop(p, &item));
    return append(p, &item, 1);
}

static ls_status op_appends(ls__pickle *p)
{
    const ls__pickle_value *const *items;
    size_t n;
    LS_TRY(ls__pickle_pop_marked(p, &items, &n));
    return append(p, items, n);
}

static ls_status op_add_items(ls__pickle *p)
{
    const ls__pickle_value *set;
    LS_TRY(op_pop_mark(p));
    return top_container(p, LS__PICKLE_OPAQUE, "a set", &set);
}

static ls_status add_pairs(ls__pickle *p, const ls__pickle_value *const *items, size_t n)
{
    const ls__pickle_value *dict;
    if (n % 2 != 0) return ls__pickle_fail(p, "a key without a value");
    LS_TRY(top_container(p, LS__PICKLE_DICT, "a dict", &dict));
    for (size_t i = 0; i < n && dict->kind == LS__PICKLE_DICT; i += 2)
        LS_TRY(ls__pickle_add_item(p, dict, items[i], items[i + 1]));
    return LS_OK;
}

static ls_status op_set_item(ls__pickle *p)
{
    if (ls__pickle_count_free(p) < 3) return ls__pickle_fail(p, "the stack is empty");
    p->n_stack -= 2;
    return add_pairs(p, p->stack + p->n_stack, 2);
}

static ls_status op_set_items(ls__pickle *p)
{
    const ls__pickle_value *const *items;
    size_t n;
    LS_TRY(ls__pickle_pop_marked(p, &items, &n));
    return add_pairs(p, items, n);
}

/* ---- Classes and functions ---- */

static ls_status push_global(ls__pickle *p, ls__pickle_text module, ls__pickle_text name)
{
    for (size_t i = 0; i < p->n_globals; i++) {
        const ls__pickle_global *global = &p->globals[i];
        if (ls__pickle_text_equals(module, global->module) &&
            ls__pickle_text_equals(name, global->name))
            return ls__pickle_push_global(p, global);
    }
    ls__pickle_class *class = ls__bump_alloc(p->bump, sizeof(*class));
    if (!class) return ls__pickle_fail_memory(p);
    *class = (ls__pickle_class){ module, name };
    return ls__pickle_push_opaque(p, class);
}

static ls_status op_global(ls__pickle *p)
{
    ls__pickle_text module, name;
    LS_TRY(ls__pickle_take_line(p, &module));
    LS_TRY(ls__pickle_take_line(p, &name));
    return push_global(p, module, name);
}

static ls_status op_stack_global(ls__pickle *p)
{
    const ls__pickle_value *module, *name;
    LS_TRY(pop_kind(p, LS__PICKLE_TEXT, "a str", &name));
    LS_TRY(pop_kind(p, LS__PICKLE_TEXT, "a str", &module));
    return push_global(p, module->u.text, name->u.text);
}

/* Pushes what a call or a constructor returns. */
static ls_status push_result(ls__pickle *p, const ls__pickle_value *callee,
                             const ls__pickle_value *args)
{
    char text[LS__PICKLE_KIND_TEXT];
    if (callee->kind == LS__PICKLE_GLOBAL && callee->u.global->call)
        return callee->u.global->call(p, args);
    if (callee->kind == LS__PICKLE_GLOBAL) return ls__pickle_push_opaque(p, NULL);
    if (callee->kind == LS__PICKLE_OPAQUE) return ls__pickle_push_opaque(p, callee->u.class);
    return ls__pickle_fail(p, "a call of %s", ls__pickle_kind_text(callee, text));
}

static ls_status op_reduce(ls__pickle *p)
{
    const ls__pickle_value *args, *callee;
    LS_TRY(pop_kind(p, LS__PICKLE_TUPLE, "a tuple", &args));
    LS_TRY(ls__pickle_pop(p, &callee));
    return push_result(p, callee, args);
}

static ls_status op_new_object_ex(ls__pickle *p)
{
    const ls__pickle_value *named;
    LS_TRY(ls__pickle_pop(p, &named));
    return op_reduce(p);
}

/* Sets attributes, such as _metadata of PyTorch's state dicts. They are dropped. */
static ls_status op_build(ls__pickle *p)
{
    const ls__pickle_value *state;
    LS_TRY(ls__pickle_pop(p, &state));
    if (ls__pickle_count_free(p) > 0) return LS_OK;
    return ls__pickle_fail(p, "the stack is empty");
}

static ls_status op_persistent_id(ls__pickle *p)
{
    const ls__pickle_value *id;
    LS_TRY(ls__pickle_pop(p, &id));
    return p->find(p, id);
}

/* Opcodes without a function are not supported: those of protocols 0 and 1, of numbered classes
 * (copyreg), and of buffers outside of the pickle. */
static const struct {
    unsigned char code;
    const char *name;
    ls_status (*run)(ls__pickle *p);
} opcodes[] = {
    { 0x80, "PROTO", op_proto },
    { 0x95, "FRAME", op_frame },
    { '(', "MARK", ls__pickle_push_mark },
    { '0', "POP", op_pop },
    { '1', "POP_MARK", op_pop_mark },
    { '}', "EMPTY_DICT", op_dict },
    { ']', "EMPTY_LIST", op_list },
    { 0x8f, "EMPTY_SET", op_empty_set },
    { 0x91, "FROZENSET", op_frozen_set },
    { ')', "EMPTY_TUPLE", op_empty_tuple },
    { 't', "TUPLE", op_tuple },
    { 0x85, "TUPLE1", op_tuple1 },
    { 0x86, "TUPLE2", op_tuple2 },
    { 0x87, "TUPLE3", op_tuple3 },
    { 'N', "NONE", op_none },
    { 0x88, "NEWTRUE", op_true },
    { 0x89, "NEWFALSE", op_false },
    { 'J', "BININT", op_integer4 },
    { 'M', "BININT2", op_integer2 },
    { 'K', "BININT1", op_integer1 },
    { 0x8a, "LONG1", op_long },
    { 0x8b, "LONG4", op_long4 },
    { 'G', "BINFLOAT", op_float },
    { 'U', "SHORT_BINSTRING", op_text1 }, /* Python 2's str */
    { 'T', "BINSTRING", op_text4 },
    { 0x8c, "SHORT_BINUNICODE", op_text1 },
    { 'X', "BINUNICODE", op_text4 },
    { 0x8d, "BINUNICODE8", op_text8 },
    { 'C', "SHORT_BINBYTES", op_bytes1 },
    { 'B', "BINBYTES", op_bytes4 },
    { 0x8e, "BINBYTES8", op_bytes8 },
    { 0x96, "BYTEARRAY8", op_bytes8 },
    { 'q', "BINPUT", op_put },
    { 'r', "LONG_BINPUT", op_long_put },
    { 0x94, "MEMOIZE", op_memoize },
    { 'h', "BINGET", op_get },
    { 'j', "LONG_BINGET", op_long_get },
    { 'a', "APPEND", op_append },
    { 'e', "APPENDS", op_appends },
    { 0x90, "ADDITEMS", op_add_items },
    { 's', "SETITEM", op_set_item },
    { 'u', "SETITEMS", op_set_items },
    { 'c', "GLOBAL", op_global },
    { 0x93, "STACK_GLOBAL", op_stack_global },
    { 'R', "REDUCE", op_reduce },
    { 0x81, "NEWOBJ", op_reduce },
    { 0x92, "NEWOBJ_EX", op_new_object_ex },
    { 'b', "BUILD", op_build },
    { 'Q', "BINPERSID", op_persistent_id },
    { '2', "DUP", NULL },
    { 'F', "FLOAT", NULL },
    { 'I', "INT", NULL },
    { 'L', "LONG", NULL },
    { 'S', "STRING", NULL },
    { 'V', "UNICODE", NULL },
    { 'd', "DICT", NULL },
    { 'l', "LIST", NULL },
    { 'p', "PUT", NULL },
    { 'g', "GET", NULL },
    { 'i', "INST", NULL },
    { 'o', "OBJ", NULL },
    { 'P', "PERSID", NULL },
    { 0x82, "EXT1", NULL },
    { 0x83, "EXT2", NULL },
    { 0x84, "EXT4", NULL },
    { 0x97, "NEXT_BUFFER", NULL },
    { 0x98, "READONLY_BUFFER", NULL },
};

ls_status ls__pickle_run(ls__pickle *p, const ls__pickle_value **out)
{
    enum { STOP = '.' };
    p->n_stack = p->n_memo = p->n_marks = 0;
    p->stack = ls__bump_room(p->bump, p->stack, 0, 1, &p->stack_room, sizeof(*p->stack));
    if (!p->stack) return ls__pickle_fail_memory(p);
    for (;;) {
        const unsigned char *code;
        char number[8];
        p->op_at = p->at;
        p->op = "STOP";
        LS_TRY(ls__pickle_take(p, 1, &code));
        if (*code == STOP) break;
        size_t i = 0;
        const size_t n = sizeof(opcodes) / sizeof(opcodes[0]);
        while (i < n && opcodes[i].code != *code) i++;
        snprintf(number, sizeof(number), "0x%02x", *code);
        p->op = i < n ? opcodes[i].name : number;
        if (i == n || !opcodes[i].run)
            return ls__pickle_fail(p, "not supported: torch.save does not write it");
        LS_TRY(opcodes[i].run(p));
    }
    if (p->n_stack != 1 || p->n_marks > 0)
        return ls__pickle_fail(p, "%zu values on the stack, expected 1", p->n_stack);
    *out = p->stack[0];
    return LS_OK;
}
