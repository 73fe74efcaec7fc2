/* torch_pickle.c: see torch_pickle.h. */
#include "io/torch_pickle.h"

#include "base/error.h"
#include "io/pickle.h"

#include <string.h>

/* Types of objects. */
enum { STORAGE, TENSOR };

/* ---- Tensors ---- */

/* Memory for a copy of values. A pickle refers to a value any number of times by a few bytes, so
 * all copies together have a limit, far above what a state dict needs. */
static ls_status allocate(ls__pickle *p, size_t bytes, void **out)
{
    enum { PER_BYTE = 16, ALWAYS = 1 << 16 };
    p->n_copied += bytes;
    if (p->n_copied > PER_BYTE * p->size + ALWAYS)
        return ls__pickle_fail(p, "names and shapes of tensors take more than %zu bytes",
                               PER_BYTE * p->size + ALWAYS);
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

/* A tuple of n integers >= 0. */
static ls_status get_counts(ls__pickle *p, const ls__pickle_value *v, size_t n, int64_t **out)
{
    bool good = v->kind == LS__PICKLE_TUPLE && v->u.tuple.n == n;
    void *counts = NULL;
    if (good) LS_TRY(allocate(p, n * sizeof(**out), &counts));
    *out = counts;
    for (size_t i = 0; i < n && good; i++) {
        const ls__pickle_value *item = v->u.tuple.items[i];
        good = item->kind == LS__PICKLE_INTEGER && item->u.integer >= 0;
        (*out)[i] = item->u.integer;
    }
    return good ? LS_OK : ls__pickle_fail(p, "malformed sizes or strides of a tensor");
}

/* (storage, offset, sizes, strides, requires_grad, backward_hooks[, metadata]) */
static ls_status rebuild_tensor(ls__pickle *p, const ls__pickle_value *args)
{
    enum { MAX_DIMS = 64 };
    const ls__pickle_value *const *a = args->u.tuple.items;
    const size_t n = args->u.tuple.n;
    if (n < 6 || n > 7 || !ls__pickle_object(a[0], STORAGE) || a[1]->kind != LS__PICKLE_INTEGER ||
        a[1]->u.integer < 0 || a[2]->kind != LS__PICKLE_TUPLE || a[2]->u.tuple.n > MAX_DIMS)
        return ls__pickle_fail(p, "malformed arguments of _rebuild_tensor_v2");
    int64_t *sizes, *strides;
    const size_t n_dims = a[2]->u.tuple.n;
    void *memory;
    LS_TRY(get_counts(p, a[2], n_dims, &sizes));
    LS_TRY(get_counts(p, a[3], n_dims, &strides));
    LS_TRY(allocate(p, sizeof(ls__torch_tensor), &memory));
    ls__torch_tensor *tensor = memory;
    *tensor = (ls__torch_tensor){ .storage = ls__pickle_object(a[0], STORAGE),
                                  .offset = a[1]->u.integer,
                                  .n_dims = (int)n_dims,
                                  .sizes = sizes,
                                  .strides = strides };
    return ls__pickle_push_object(p, TENSOR, tensor);
}

/* (data, requires_grad, backward_hooks) */
static ls_status rebuild_parameter(ls__pickle *p, const ls__pickle_value *args)
{
    if (args->u.tuple.n != 3 || !ls__pickle_object(args->u.tuple.items[0], TENSOR))
        return ls__pickle_fail(p, "malformed arguments of _rebuild_parameter");
    return ls__pickle_push(p, args->u.tuple.items[0]);
}

static ls_status make_dict(ls__pickle *p, const ls__pickle_value *args)
{
    return args->u.tuple.n == 0 ? ls__pickle_push_dict(p)
                                : ls__pickle_fail(p, "an OrderedDict with arguments");
}

static const ls__pickle_global globals[] = {
    { "collections", "OrderedDict", make_dict, NULL },
    { "torch._utils", "_rebuild_tensor_v2", rebuild_tensor, NULL },
    { "torch._utils", "_rebuild_parameter", rebuild_parameter, NULL },
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

/* A storage: ("storage", class, key, location, number of elements). */
static ls_status find_storage(ls__pickle *p, const ls__pickle_value *id)
{
    const ls__pickle_value *const *a = id->u.tuple.items;
    if (id->kind != LS__PICKLE_TUPLE || id->u.tuple.n != 5 ||
        !ls__pickle_is_text(a[0], "storage") || a[1]->kind != LS__PICKLE_GLOBAL ||
        !a[1]->u.global->text || a[2]->kind != LS__PICKLE_TEXT ||
        a[4]->kind != LS__PICKLE_INTEGER || a[4]->u.integer < 0)
        return ls__pickle_fail(p, "malformed persistent id of a storage");
    void *memory;
    LS_TRY(allocate(p, sizeof(ls__torch_storage), &memory));
    ls__torch_storage *storage = memory;
    LS_TRY(copy_text(p, a[2], &storage->key));
    storage->dtype = a[1]->u.global->text;
    storage->count = a[4]->u.integer;
    return ls__pickle_push_object(p, STORAGE, storage);
}

/* ---- The state dict ---- */

static const ls__pickle_value *find_dict(const ls__pickle_value *v, const char *key)
{
    const ls__pickle_value *found = NULL;
    for (const ls__pickle_pair *pair = v->u.dict->first; pair; pair = pair->next)
        if (ls__pickle_is_text(pair->key, key)) found = pair->item; /* as in Python, the last one */
    return found && found->kind == LS__PICKLE_DICT ? found : NULL;
}

static ls_status read_state_dict(ls__pickle *p, const ls__pickle_value *v,
                                 ls__torch_state_dict *out)
{
    int64_t n = 0;
    const ls__pickle_pair *const first = v->u.dict->first, *pair;
    for (pair = first; pair; pair = pair->next) n += ls__pickle_object(pair->item, TENSOR) != NULL;
    if (n == 0) return ls__pickle_fail(p, "the pickle has no state dict: it names no tensor");
    out->tensors = ls__bump_alloc(p->bump, (size_t)n * sizeof(*out->tensors));
    if (!out->tensors) return ls__pickle_fail_memory(p);
    for (pair = first; pair; pair = pair->next) {
        const ls__torch_tensor *tensor = ls__pickle_object(pair->item, TENSOR);
        if (!tensor) continue;
        out->tensors[out->n] = *tensor;
        LS_TRY(copy_text(p, pair->key, &out->tensors[out->n++].name));
    }
    return LS_OK;
}

ls_status ls__torch_unpickle(ls_context *ctx, ls__bump *bump, const void *bytes, size_t size,
                             ls__torch_state_dict *out)
{
    ls__pickle p = { .ctx = ctx,
                     .bump = bump,
                     .bytes = bytes,
                     .size = size,
                     .globals = globals,
                     .n_globals = sizeof(globals) / sizeof(globals[0]),
                     .find = find_storage };
    const ls__pickle_value *root;
    *out = (ls__torch_state_dict){ 0 };
    LS_TRY(ls__pickle_run(&p, &root));
    if (root->kind != LS__PICKLE_DICT)
        return ls__pickle_fail(&p, "the pickle is a %s, expected a state dict",
                               ls__pickle_kind_names[root->kind]);
    const ls__pickle_value *inner = find_dict(root, "state_dict");
    if (!inner) inner = find_dict(root, "model");
    return read_state_dict(&p, inner ? inner : root, out);
}
