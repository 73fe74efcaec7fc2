/* torch_tensors.c: see torch_tensors.h. */
#include "io/torch_tensors.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>

static ls_status fail_tensor(const ls_tensor_file *file, const char *name, const char *what)
{
    return ls__tensor_file_fail(file, "tensor '%.*s': %s", LS__CUT(name, 100), what);
}

/* Sets shape, strides and the bytes in the storage, which must contain all elements. A tensor with
 * more elements than its storage (expanded) is not supported, so that no tensor is larger than the
 * file. */
static ls_status set_place(const ls_tensor_file *file, ls__tensor_header *h,
                           const ls__torch_tensor *t)
{
    static const char large[] = "its sizes, strides and offset exceed its storage";
    size_t count = 1, last = (size_t)t->offset, contiguous = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (!ls__mul_size(count, (size_t)t->sizes[i], &count))
            return fail_tensor(file, h->name, large);
    for (int i = t->n_dims - 1; i >= 0; i--) {
        size_t span;
        if (count > 0 && (!ls__mul_size((size_t)t->sizes[i] - 1, (size_t)t->strides[i], &span) ||
                          !ls__add_size(last, span, &last)))
            return fail_tensor(file, h->name, large);
        if (t->sizes[i] > 1 && (size_t)t->strides[i] != contiguous) h->strided = true;
        contiguous *= (size_t)t->sizes[i];
        if (t->n_dims > LS_MAX_DIMS) continue;
        h->spec.shape.dims[i] = t->sizes[i];
        h->strides[i] = t->strides[i];
    }
    if (count > 0 && last >= (size_t)t->storage->count) return fail_tensor(file, h->name, large);
    h->begin = count > 0 ? t->offset * (int64_t)h->element_bytes : 0;
    h->end = count > 0 ? (int64_t)(last + 1) * (int64_t)h->element_bytes : 0;
    h->strided = h->strided && count > 0;
    h->spec.shape.n_dims = t->n_dims > LS_MAX_DIMS ? 0 : t->n_dims;
    if (t->n_dims > LS_MAX_DIMS)
        h->obstacle = "number of dimensions";
    else if (count > (size_t)t->storage->count)
        h->obstacle = "stride: it is an expanded tensor";
    return LS_OK;
}

static ls_status make_header(const ls_tensor_file *file, const ls__torch_tensor *t,
                             ls__torch_find_storage *find, ls__tensor_header *h)
{
    uint64_t bytes = 0;
    size_t expected;
    *h = (ls__tensor_header){ .name = t->name, .dtype = t->storage->dtype };
    ls__tensor_header_set_type(h);
    find(file->data, t->storage, &h->storage, &bytes);
    if (h->storage < 0)
        return ls__tensor_file_fail(file, "tensor '%.*s': there is no storage '%.*s'",
                                    LS__CUT(h->name, 100), LS__CUT(t->storage->key, 100));
    if (!ls__mul_size((size_t)t->storage->count, h->element_bytes, &expected) || bytes != expected)
        return ls__tensor_file_fail(
            file, "tensor '%.*s': its storage has %" PRIu64 " bytes, expected %" PRId64 " x %zu",
            LS__CUT(h->name, 100), bytes, t->storage->count, h->element_bytes);
    return set_place(file, h, t);
}

/* Several names may share a storage (tied weights). A pickle can name one any number of times by a
 * few bytes each, so all tensors together have a limit, far above what a state dict needs.
 * *total: bytes of the tensors so far. */
static ls_status add_to_total(const ls_tensor_file *file, const ls__tensor_header *h,
                              int64_t *total)
{
    enum { PER_BYTE = 16 };
    const int64_t read = h->end - h->begin;
    const int64_t elements = ls_shape_element_count(&h->spec.shape) * (int64_t)h->element_bytes;
    *total += h->obstacle || read > elements ? read : elements;
    if (*total <= PER_BYTE * file->file_bytes) return LS_OK;
    return ls__tensor_file_fail(file,
                                "the tensors up to '%.*s' have more than %d times the bytes of "
                                "the file, because they share storages",
                                LS__CUT(h->name, 100), (int)PER_BYTE);
}

ls_status ls__torch_set_tensors(ls_tensor_file *file, const ls__torch_state_dict *dict,
                                ls__torch_find_storage *find)
{
    const size_t size = (size_t)dict->n * sizeof(*file->tensors);
    file->key = ls__bump_strdup(&file->bump, dict->key);
    file->tensors = ls__bump_alloc(&file->bump, size);
    if (!file->key || !file->tensors) return ls__fail_memory(file->owned.ctx, file->path, size);
    int64_t total = 0;
    for (int64_t i = 0; i < dict->n; i++) {
        ls__tensor_header *h = &file->tensors[file->n_tensors++];
        LS_TRY(make_header(file, &dict->tensors[i], find, h));
        LS_TRY(add_to_total(file, h, &total));
        h->name = ls__bump_strdup(&file->bump, h->name);
        if (!h->name) return ls__fail_memory(file->owned.ctx, file->path, 0);
    }
    return LS_OK;
}
