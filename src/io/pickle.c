/* pickle.c: see pickle.h. */
#include "io/pickle.h"

#include "base/error.h"

#include <inttypes.h>
#include <string.h>

/* ---- Types on the stack ---- */

static ls_status check_kind(ls__pickle *p, const ls__pickle_value *v, bool is_right,
                            const char *expected)
{
    char text[LS__PICKLE_KIND_TEXT];
    if (is_right) return LS_OK;
    return ls__pickle_fail(p, "found %s, expected %s", ls__pickle_kind_text(v, text), expected);
}

static ls_status pop_kind(ls__pickle *p, ls__pickle_kind kind, const char *expected,
                          const ls__pickle_value **out)
{
    LS_TRY(ls__pickle_pop(p, out));
    return check_kind(p, *out, (*out)->kind == kind, expected);
}

/* Returns the container on top of the stack, which stays there: of that kind, or opaque. */
static ls_status top_container(ls__pickle *p, ls__pickle_kind kind, const char *expected,
                               const ls__pickle_value **out)
{
    LS_TRY(ls__pickle_pop(p, out));
    p->n_stack++;
    return check_kind(p, *out, (*out)->kind == kind || (*out)->kind == LS__PICKLE_OPAQUE, expected);
}

/* ---- Numbers and texts ---- */

static ls_status op_proto(ls__pickle *p)
{
    uint64_t version;
    LS_TRY(ls__pickle_take_number(p, 1, &version));
    if (version >= 2 && version <= 5) return LS_OK;
    return ls__pickle_fail(p, "protocol %d, expected 2 to 5", (int)version);
}

/* Skips the frame's length: in memory frames have no meaning. */
static ls_status op_frame(ls__pickle *p)
{
    uint64_t length;
    return ls__pickle_take_number(p, 8, &length);
}

/* Pushes None, False or True. */
static ls_status op_constant(ls__pickle *p, size_t i)
{
    static const ls__pickle_value values[] = { { .kind = LS__PICKLE_NONE },
                                               { .kind = LS__PICKLE_BOOL },
                                               { .kind = LS__PICKLE_BOOL, .u.integer = 1 } };
    return ls__pickle_push(p, &values[i]);
}

/* A float, or an empty set: no value that is needed, after so many bytes. */
static ls_status op_opaque(ls__pickle *p, size_t n)
{
    const unsigned char *bytes;
    LS_TRY(ls__pickle_take(p, n, &bytes));
    return ls__pickle_push_opaque(p, NULL);
}

/* A number of 1 or 2 bytes has no sign. */
static ls_status op_integer(ls__pickle *p, size_t bytes)
{
    uint64_t n;
    LS_TRY(ls__pickle_take_number(p, bytes, &n));
    return ls__pickle_push_integer(p, bytes == 4 ? (int32_t)(uint32_t)n : (int64_t)n);
}

/* The length of a value, in so many bytes, and then its bytes. */
static ls_status take_counted(ls__pickle *p, size_t length_bytes, ls__pickle_text *out)
{
    uint64_t length;
    const unsigned char *bytes;
    LS_TRY(ls__pickle_take_number(p, length_bytes, &length));
    LS_TRY(ls__pickle_take(p, (size_t)length, &bytes));
    *out = (ls__pickle_text){ (const char *)bytes, (size_t)length };
    return LS_OK;
}

/* A two's complement number. One of more than 8 bytes, such as a seed, is opaque. */
static ls_status op_long(ls__pickle *p, size_t length_bytes)
{
    ls__pickle_text bytes;
    LS_TRY(take_counted(p, length_bytes, &bytes));
    const bool negative = bytes.n > 0 && bytes.bytes[bytes.n - 1] & 0x80;
    uint64_t n = negative ? UINT64_MAX : 0;
    if (bytes.n > sizeof(n)) return ls__pickle_push_opaque(p, NULL);
    memcpy(&n, bytes.bytes, bytes.n); /* little-endian, as this machine's numbers */
    return ls__pickle_push_integer(p, (int64_t)n);
}

static ls_status op_text(ls__pickle *p, size_t length_bytes)
{
    ls__pickle_text text;
    LS_TRY(take_counted(p, length_bytes, &text));
    return ls__pickle_push_text(p, text);
}

static ls_status op_bytes(ls__pickle *p, size_t length_bytes)
{
    ls__pickle_text bytes;
    LS_TRY(take_counted(p, length_bytes, &bytes));
    return ls__pickle_push_opaque(p, NULL);
}

/* ---- Memo ---- */

/* Pickles number the memo from 0, without gaps. */
static ls_status memoize(ls__pickle *p, uint64_t i)
{
    if (i > p->n_memo)
        return ls__pickle_fail(p, "memo entry %" PRIu64 ", expected %zu at most", i, p->n_memo);
    if (ls__pickle_count_free(p) == 0) return ls__pickle_fail(p, "the stack is empty");
    const ls__pickle_value **memo =
        ls__bump_room(p->bump, p->memo, p->n_memo, 1, &p->memo_capacity, sizeof(*memo));
    if (!memo) return ls__pickle_fail_memory(p);
    p->memo = memo;
    memo[i] = p->stack[p->n_stack - 1];
    if (i == p->n_memo) p->n_memo++;
    return LS_OK;
}

static ls_status op_put(ls__pickle *p, size_t index_bytes)
{
    uint64_t i;
    LS_TRY(ls__pickle_take_number(p, index_bytes, &i));
    return memoize(p, i);
}

static ls_status op_memoize(ls__pickle *p)
{
    return memoize(p, p->n_memo);
}

static ls_status op_get(ls__pickle *p, size_t index_bytes)
{
    uint64_t i;
    LS_TRY(ls__pickle_take_number(p, index_bytes, &i));
    if (i >= p->n_memo) return ls__pickle_fail(p, "memo entry %" PRIu64 " of %zu", i, p->n_memo);
    return ls__pickle_push(p, p->memo[i]);
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

/* An empty list or dict. */
static ls_status op_items(ls__pickle *p, size_t kind)
{
    return ls__pickle_push_items(p, (ls__pickle_kind)kind);
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

static ls_status op_small_tuple(ls__pickle *p, size_t n)
{
    if (ls__pickle_count_free(p) < n) return ls__pickle_fail(p, "the stack is empty");
    p->n_stack -= n;
    return ls__pickle_push_tuple(p, p->stack + p->n_stack, n);
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
    return ls__pickle_fail(p, "found %s, expected a function or class",
                           ls__pickle_kind_text(callee, text));
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

/* An opcode, and the function that runs it: `run`, or `run_with` and its argument n, mostly the
 * bytes of the number that follows. Opcodes without either are not supported: those of protocols 0
 * and 1, of numbered classes (copyreg), and of buffers outside of the pickle. */
static const struct {
    unsigned char code;
    const char *name;
    ls_status (*run)(ls__pickle *p);
    ls_status (*run_with)(ls__pickle *p, size_t n);
    size_t n;
} opcodes[] = {
    { 0x80, "PROTO", op_proto, NULL, 0 },
    { 0x95, "FRAME", op_frame, NULL, 0 },
    { '(', "MARK", ls__pickle_push_mark, NULL, 0 },
    { '0', "POP", op_pop, NULL, 0 },
    { '1', "POP_MARK", op_pop_mark, NULL, 0 },
    { '}', "EMPTY_DICT", NULL, op_items, LS__PICKLE_DICT },
    { ']', "EMPTY_LIST", NULL, op_items, LS__PICKLE_LIST },
    { 0x8f, "EMPTY_SET", NULL, op_opaque, 0 },
    { 0x91, "FROZENSET", op_frozen_set, NULL, 0 },
    { ')', "EMPTY_TUPLE", NULL, op_small_tuple, 0 },
    { 't', "TUPLE", op_tuple, NULL, 0 },
    { 0x85, "TUPLE1", NULL, op_small_tuple, 1 },
    { 0x86, "TUPLE2", NULL, op_small_tuple, 2 },
    { 0x87, "TUPLE3", NULL, op_small_tuple, 3 },
    { 'N', "NONE", NULL, op_constant, 0 },
    { 0x88, "NEWTRUE", NULL, op_constant, 2 },
    { 0x89, "NEWFALSE", NULL, op_constant, 1 },
    { 'J', "BININT", NULL, op_integer, 4 },
    { 'M', "BININT2", NULL, op_integer, 2 },
    { 'K', "BININT1", NULL, op_integer, 1 },
    { 0x8a, "LONG1", NULL, op_long, 1 },
    { 0x8b, "LONG4", NULL, op_long, 4 },
    { 'G', "BINFLOAT", NULL, op_opaque, 8 },
    { 'U', "SHORT_BINSTRING", NULL, op_text, 1 }, /* Python 2's str */
    { 'T', "BINSTRING", NULL, op_text, 4 },
    { 0x8c, "SHORT_BINUNICODE", NULL, op_text, 1 },
    { 'X', "BINUNICODE", NULL, op_text, 4 },
    { 0x8d, "BINUNICODE8", NULL, op_text, 8 },
    { 'C', "SHORT_BINBYTES", NULL, op_bytes, 1 },
    { 'B', "BINBYTES", NULL, op_bytes, 4 },
    { 0x8e, "BINBYTES8", NULL, op_bytes, 8 },
    { 0x96, "BYTEARRAY8", NULL, op_bytes, 8 },
    { 'q', "BINPUT", NULL, op_put, 1 },
    { 'r', "LONG_BINPUT", NULL, op_put, 4 },
    { 0x94, "MEMOIZE", op_memoize, NULL, 0 },
    { 'h', "BINGET", NULL, op_get, 1 },
    { 'j', "LONG_BINGET", NULL, op_get, 4 },
    { 'a', "APPEND", op_append, NULL, 0 },
    { 'e', "APPENDS", op_appends, NULL, 0 },
    { 0x90, "ADDITEMS", op_add_items, NULL, 0 },
    { 's', "SETITEM", op_set_item, NULL, 0 },
    { 'u', "SETITEMS", op_set_items, NULL, 0 },
    { 'c', "GLOBAL", op_global, NULL, 0 },
    { 0x93, "STACK_GLOBAL", op_stack_global, NULL, 0 },
    { 'R', "REDUCE", op_reduce, NULL, 0 },
    { 0x81, "NEWOBJ", op_reduce, NULL, 0 },
    { 0x92, "NEWOBJ_EX", op_new_object_ex, NULL, 0 },
    { 'b', "BUILD", op_build, NULL, 0 },
    { 'Q', "BINPERSID", op_persistent_id, NULL, 0 },
    { '2', "DUP", NULL, NULL, 0 },
    { 'F', "FLOAT", NULL, NULL, 0 },
    { 'I', "INT", NULL, NULL, 0 },
    { 'L', "LONG", NULL, NULL, 0 },
    { 'S', "STRING", NULL, NULL, 0 },
    { 'V', "UNICODE", NULL, NULL, 0 },
    { 'd', "DICT", NULL, NULL, 0 },
    { 'l', "LIST", NULL, NULL, 0 },
    { 'p', "PUT", NULL, NULL, 0 },
    { 'g', "GET", NULL, NULL, 0 },
    { 'i', "INST", NULL, NULL, 0 },
    { 'o', "OBJ", NULL, NULL, 0 },
    { 'P', "PERSID", NULL, NULL, 0 },
    { 0x82, "EXT1", NULL, NULL, 0 },
    { 0x83, "EXT2", NULL, NULL, 0 },
    { 0x84, "EXT4", NULL, NULL, 0 },
    { 0x97, "NEXT_BUFFER", NULL, NULL, 0 },
    { 0x98, "READONLY_BUFFER", NULL, NULL, 0 },
};
enum { N_OPCODES = sizeof(opcodes) / sizeof(opcodes[0]) };

ls_status ls__pickle_run(ls__pickle *p, const ls__pickle_value **out)
{
    enum { STOP = '.' };
    p->n_stack = p->n_memo = p->n_marks = 0;
    p->stack = ls__bump_room(p->bump, p->stack, 0, 1, &p->stack_capacity, sizeof(*p->stack));
    if (!p->stack) return ls__pickle_fail_memory(p);
    for (;;) {
        const unsigned char *code;
        p->op_at = p->at;
        p->op = "STOP";
        LS_TRY(ls__pickle_take(p, 1, &code));
        if (*code == STOP) break;
        size_t i = 0;
        while (i < N_OPCODES && opcodes[i].code != *code) i++;
        p->op = i < N_OPCODES ? opcodes[i].name : "unknown";
        if (i == N_OPCODES || (!opcodes[i].run && !opcodes[i].run_with))
            return ls__pickle_fail(p, "0x%02x is not supported: torch.save does not write it",
                                   *code);
        LS_TRY(opcodes[i].run ? opcodes[i].run(p) : opcodes[i].run_with(p, opcodes[i].n));
    }
    if (p->n_stack != 1 || p->n_marks > 0)
        return ls__pickle_fail(p, "%zu values on the stack, expected 1", p->n_stack);
    *out = p->stack[0];
    return LS_OK;
}
