/* torch_pickle.c: PyTorch's tensors and storages in a pickle; see torch_pickle.h. */
#include "io/torch_pickle.h"

#include "base/error.h"
#include "io/pickle.h"
#include "io/torch_search.h"

#include <string.h>

/* ---- Copies ---- */

/* Counts memory for copies of values. A pickle refers to a value any number of times by a few
 * bytes, so all copies together have a limit, far above what a state dict needs. */
static ls_status count_copied(ls__pickle *p, size_t bytes)
{
    enum { PER_BYTE = 16, ALWAYS = 1 << 16 };
    p->n_copied += bytes;
    if (p->n_copied <= PER_BYTE * p->size + ALWAYS) return LS_OK;
    return ls__pickle_fail(p, "names and shapes of tensors take more than %zu bytes",
                           PER_BYTE * p->size + ALWAYS);
}

static ls_status allocate(ls__pickle *p, size_t bytes, void **out)
{
    LS_TRY(count_copied(p, bytes));
    *out = ls__bump_alloc(p->bump, bytes);
    return *out ? LS_OK : ls__pickle_fail_memory(p);
}

/* A name: a text that is not empty and has no 0 byte. */
static ls_status copy_text(ls__pickle *p, const ls__pickle_value *v, const char **out)
{
    enum { MAX_LENGTH = 1 << 15 };
    const size_t n = v->kind == LS__PICKLE_TEXT ? v->u.text.n : 0;
    if (n == 0 || n > MAX_LENGTH || memchr(v->u.text.bytes, 0, n))
        return ls__pickle_fail(p, "a tensor or storage without a usable name");
    void *text;
    LS_TRY(allocate(p, n + 1, &text));
    memcpy(text, v->u.text.bytes, n); /* the memory is zeroed */
    *out = text;
    return LS_OK;
}

/* ---- Tensors ---- */

/* A tuple of n integers >= 0. */
static ls_status get_counts(ls__pickle *p, const ls__pickle_value *v, size_t n, int64_t **out)
{
    bool ok = v->kind == LS__PICKLE_TUPLE && v->u.tuple.n == n;
    void *counts = NULL;
    if (ok) LS_TRY(allocate(p, n * sizeof(**out), &counts));
    *out = counts;
    for (size_t i = 0; i < n && ok; i++) {
        const ls__pickle_value *item = v->u.tuple.items[i];
        ok = item->kind == LS__PICKLE_INTEGER && item->u.integer >= 0;
        (*out)[i] = item->u.integer;
    }
    return ok ? LS_OK : ls__pickle_fail(p, "malformed sizes or strides of a tensor");
}

/* (storage, offset, sizes, strides, requires_grad, backward_hooks[, metadata]); the first four in
 * the files of PyTorch 0.3 and earlier. */
static ls_status rebuild_tensor(ls__pickle *p, const ls__pickle_value *args)
{
    enum { MAX_DIMS = 64 };
    const ls__pickle_value *const *a = args->u.tuple.items;
    const size_t n = args->u.tuple.n;
    if (n > 0 && a[0]->kind == LS__PICKLE_OPAQUE) return ls__pickle_push_opaque(p, NULL);
    if ((n != 4 && n != 6 && n != 7) || !ls__pickle_object(a[0], LS__TORCH_STORAGE) ||
        a[1]->kind != LS__PICKLE_INTEGER || a[1]->u.integer < 0 || a[2]->kind != LS__PICKLE_TUPLE ||
        a[2]->u.tuple.n > MAX_DIMS)
        return ls__pickle_fail(p, "malformed arguments of _rebuild_tensor_v2");
    if (n == 7 && a[6]->kind == LS__PICKLE_DICT && a[6]->u.items->first)
        return ls__fail(p->ctx, LS_ERR_UNSUPPORTED,
                        "a tensor that is a negated or conjugated view");
    int64_t *sizes, *strides;
    const size_t n_dims = a[2]->u.tuple.n;
    void *memory;
    LS_TRY(get_counts(p, a[2], n_dims, &sizes));
    LS_TRY(get_counts(p, a[3], n_dims, &strides));
    LS_TRY(allocate(p, sizeof(ls__torch_tensor), &memory));
    ls__torch_tensor *tensor = memory;
    *tensor = (ls__torch_tensor){ .storage = ls__pickle_object(a[0], LS__TORCH_STORAGE),
                                  .offset = a[1]->u.integer,
                                  .n_dims = (int)n_dims,
                                  .sizes = sizes,
                                  .strides = strides };
    return ls__pickle_push_object(p, LS__TORCH_TENSOR, tensor);
}

/* (data, requires_grad, backward_hooks[, state]) */
static ls_status rebuild_parameter(ls__pickle *p, const ls__pickle_value *args)
{
    const size_t n = args->u.tuple.n;
    if (n < 3 || n > 4 || !ls__pickle_object(args->u.tuple.items[0], LS__TORCH_TENSOR))
        return ls__pickle_fail(p, "malformed arguments of _rebuild_parameter");
    return ls__pickle_push(p, args->u.tuple.items[0]);
}

/* (function, type, arguments, state): a tensor of a subclass, or with attributes. */
static ls_status rebuild_from_type(ls__pickle *p, const ls__pickle_value *args)
{
    const ls__pickle_value *const *a = args->u.tuple.items;
    if (args->u.tuple.n != 4 || a[2]->kind != LS__PICKLE_TUPLE)
        return ls__pickle_fail(p, "malformed arguments of _rebuild_from_type_v2");
    if (a[0]->kind != LS__PICKLE_GLOBAL || !a[0]->u.global->call ||
        a[0]->u.global->call == rebuild_from_type)
        return ls__pickle_push_opaque(p, NULL);
    return a[0]->u.global->call(p, a[2]);
}

/* ---- Containers ---- */

/* An OrderedDict's argument is a list of pairs, in the files of Python 2. */
static ls_status make_ordered_dict(ls__pickle *p, const ls__pickle_value *args)
{
    LS_TRY(ls__pickle_push_items(p, LS__PICKLE_DICT));
    if (args->u.tuple.n == 0) return LS_OK;
    const ls__pickle_value *dict = p->stack[p->n_stack - 1], *list = args->u.tuple.items[0];
    const ls__pickle_item *pair = list->kind == LS__PICKLE_LIST ? list->u.items->first : NULL;
    bool ok = args->u.tuple.n == 1 && list->kind == LS__PICKLE_LIST;
    for (; pair && ok; pair = pair->next) {
        const ls__pickle_value *two = pair->value, *key = NULL, *value = NULL;
        if (two->kind == LS__PICKLE_LIST && two->u.items->first && two->u.items->first->next) {
            key = two->u.items->first->value;
            value = two->u.items->first->next->value;
        } else if (two->kind == LS__PICKLE_TUPLE && two->u.tuple.n == 2) {
            key = two->u.tuple.items[0];
            value = two->u.tuple.items[1];
        }
        ok = key != NULL;
        if (ok) LS_TRY(count_copied(p, sizeof(ls__pickle_item)));
        if (ok) LS_TRY(ls__pickle_add_item(p, dict, key, value));
    }
    return ok ? LS_OK : ls__pickle_fail(p, "malformed arguments of OrderedDict");
}

/* The argument is the function for missing keys. */
static ls_status make_default_dict(ls__pickle *p, const ls__pickle_value *args)
{
    (void)args;
    return ls__pickle_push_items(p, LS__PICKLE_DICT);
}

static const ls__pickle_global globals[] = {
    { "collections", "OrderedDict", make_ordered_dict, NULL },
    { "collections", "defaultdict", make_default_dict, NULL },
    { "torch._utils", "_rebuild_tensor", rebuild_tensor, NULL },
    { "torch._utils", "_rebuild_tensor_v2", rebuild_tensor, NULL },
    { "torch._utils", "_rebuild_parameter", rebuild_parameter, NULL },
    { "torch._utils", "_rebuild_parameter_with_state", rebuild_parameter, NULL },
    { "torch._tensor", "_rebuild_from_type_v2", rebuild_from_type, NULL },
    { "torch", "FloatStorage", NULL, "F32" },
    { "torch", "HalfStorage", NULL, "F16" },
    { "torch", "BFloat16Storage", NULL, "BF16" },
    { "torch", "DoubleStorage", NULL, "F64" },
    { "torch", "LongStorage", NULL, "I64" },
    { "torch", "IntStorage", NULL, "I32" },
    { "torch", "ShortStorage", NULL, "I16" },
    { "torch", "CharStorage", NULL, "I8" },
    { "torch", "ByteStorage", NULL, "U8" },
    { "torch", "BoolStorage", NULL, "BOOL" },
    { "torch", "ComplexFloatStorage", NULL, "C64" },
    { "torch", "UntypedStorage", NULL, "U8" },
    { "torch.storage", "UntypedStorage", NULL, "U8" },
};

/* ---- Storages ---- */

/* A storage: ("storage", class, key, location, number of elements[, view]), or an object of a class
 * that a file of PyTorch before 1.6 has with its source: ("module", class, file, source). */
static ls_status find_storage(ls__pickle *p, const ls__pickle_value *id)
{
    const ls__pickle_value *const *a = id->u.tuple.items;
    const size_t n = id->kind == LS__PICKLE_TUPLE ? id->u.tuple.n : 0;
    if (n == 4 && ls__pickle_is_text(a[0], "module")) return ls__pickle_push(p, a[1]);
    const bool is_storage = n >= 5 && n <= 6 && ls__pickle_is_text(a[0], "storage");
    if (is_storage && a[1]->kind == LS__PICKLE_OPAQUE)
        return ls__pickle_push_opaque(p, NULL); /* of a type that no net has */
    if (n == 6 && a[5]->kind != LS__PICKLE_NONE)
        return ls__fail(p->ctx, LS_ERR_UNSUPPORTED, "a storage that is a view of another one");
    if (!is_storage || a[1]->kind != LS__PICKLE_GLOBAL || !a[1]->u.global->text ||
        a[2]->kind != LS__PICKLE_TEXT || a[4]->kind != LS__PICKLE_INTEGER || a[4]->u.integer < 0)
        return ls__pickle_fail(p, "malformed persistent id of a storage");
    ls__torch_pickle *t = (ls__torch_pickle *)p;
    void *memory;
    LS_TRY(allocate(p, sizeof(ls__torch_storage), &memory));
    ls__torch_storage *storage = memory;
    LS_TRY(copy_text(p, a[2], &storage->key));
    storage->dtype = a[1]->u.global->text;
    storage->count = a[4]->u.integer;
    storage->next = t->storages;
    t->storages = storage;
    return ls__pickle_push_object(p, LS__TORCH_STORAGE, storage);
}

void ls__torch_pickle_open(ls__torch_pickle *t, ls_context *ctx, ls__bump *bump, const char *path,
                           const void *bytes, size_t size)
{
    *t = (ls__torch_pickle){ .path = path,
                             .p = { .ctx = ctx,
                                    .bump = bump,
                                    .bytes = bytes,
                                    .size = size,
                                    .globals = globals,
                                    .n_globals = sizeof(globals) / sizeof(globals[0]),
                                    .find = find_storage } };
}

/* ---- The state dict ---- */

/* NULL if the item is no tensor with a name. */
static const ls__torch_tensor *named_tensor(const ls__pickle_item *item)
{
    return item->key->kind == LS__PICKLE_TEXT ? ls__pickle_object(item->value, LS__TORCH_TENSOR)
                                              : NULL;
}

static ls_status read_state_dict(ls__torch_pickle *t, const char *key, ls__torch_state_dict *out)
{
    ls__pickle *p = &t->p;
    const ls__pickle_value *root, *dict;
    LS_TRY(ls__pickle_run(p, &root));
    LS_TRY(ls__torch_search(p, root, key, &dict, &out->key));
    size_t n = 0;
    const ls__pickle_item *item;
    for (item = dict->u.items->first; item; item = item->next) n += named_tensor(item) != NULL;
    out->tensors = ls__bump_alloc(p->bump, n * sizeof(*out->tensors));
    if (!out->tensors) return ls__pickle_fail_memory(p);
    for (item = dict->u.items->first; item; item = item->next) {
        const ls__torch_tensor *tensor = named_tensor(item);
        if (!tensor) continue;
        out->tensors[out->n] = *tensor;
        LS_TRY(copy_text(p, item->key, &out->tensors[out->n++].name));
    }
    return LS_OK;
}

ls_status ls__torch_read_state_dict(ls__torch_pickle *t, const char *key, ls__torch_state_dict *out)
{
    *out = (ls__torch_state_dict){ 0 };
    const ls_status status = read_state_dict(t, key, out);
    if (status == LS_ERR_FORMAT)
        ls__error_in(t->p.ctx, "'%s' is no readable PyTorch state dict", t->path);
    else if (status != LS_OK && status != LS_ERR_MEMORY)
        ls__error_in(t->p.ctx, "'%s'", t->path);
    return status;
}
