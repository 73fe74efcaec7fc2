/* torch_file.c: a PyTorch file (.pt, .pth), as torch.save writes it since version 1.6: a zip
 * archive of stored entries. "NAME/data.pkl" is a pickle (torch_pickle.h), "NAME/data/KEY" a
 * storage, "NAME/byteorder" is "little" or "big". Storages are read when a tensor needs them. */
#include "base/alloc.h"
#include "base/bump.h"
#include "base/error.h"
#include "base/text.h"
#include "io/tensor_file.h"
#include "io/torch_pickle.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

/* Longer paths in the archive are not found. The folder is the file's name, keys are numbers. */
enum { MAX_PATH = 1024 };

/* file->data. */
typedef struct torch_file {
    ls__bump bump; /* names */
    zip_t *zip;
    char *prefix;        /* "NAME/" */
    bool big_endian;     /* the numbers in the storages */
    zip_file_t *entry;   /* the one that was read last, or NULL */
    zip_int64_t storage; /* its index */
} torch_file;

/* ---- Entries ---- */

static ls_status fail_zip(const ls_tensor_file *file, const char *what, zip_error_t *error)
{
    if (zip_error_code_zip(error) == ZIP_ER_MEMORY)
        return ls__fail_memory(file->owned.ctx, what, 0);
    return ls__tensor_file_fail(file, "%s: %s", what, zip_error_strerror(error));
}

/* Every entry is stored, so that all of them together are no larger than the file. */
static ls_status check_entries(const ls_tensor_file *file)
{
    const torch_file *torch = file->data;
    const zip_uint64_t known = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                               ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    uint64_t rest = (uint64_t)file->file_bytes;
    for (zip_int64_t i = 0; i < zip_get_num_entries(torch->zip, 0); i++) {
        zip_stat_t stat;
        if (zip_stat_index(torch->zip, (zip_uint64_t)i, 0, &stat) != 0)
            return fail_zip(file, "zip entry", zip_get_error(torch->zip));
        if ((stat.valid & known) != known)
            return ls__tensor_file_fail(file, "zip entry %" PRId64 " has no size", (int64_t)i);
        if (stat.comp_method != ZIP_CM_STORE || stat.encryption_method != ZIP_EM_NONE ||
            stat.comp_size != stat.size)
            return ls__tensor_file_fail(
                file, "zip entry '%.*s' is compressed or encrypted; torch.save stores entries",
                LS__CUT(stat.name, 100));
        if (stat.size > rest)
            return ls__tensor_file_fail(file, "the zip entries up to '%.*s' exceed the file",
                                        LS__CUT(stat.name, 100));
        rest -= stat.size;
    }
    return LS_OK;
}

static ls_status open_zip(const ls_tensor_file *file, torch_file *torch)
{
    int code = 0;
    const int fd = dup(file->fd); /* libzip closes it, unless it fails */
    if (fd < 0) return ls__tensor_file_fail_read(file, LS_ERR_DEVICE, "no file handle");
    torch->zip = zip_fdopen(fd, 0, &code);
    if (torch->zip) return check_entries(file);
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const ls_status status = fail_zip(file, "zip archive", &error);
    zip_error_fini(&error);
    close(fd);
    return status;
}

/* "NAME/" of the entry "NAME/data.pkl". */
static ls_status find_prefix(const ls_tensor_file *file, torch_file *torch)
{
    static const char pickle[] = "/data.pkl";
    for (zip_int64_t i = 0; i < zip_get_num_entries(torch->zip, 0); i++) {
        const char *name = zip_get_name(torch->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        const char *slash = name ? strchr(name, '/') : NULL;
        if (!slash || slash - name >= MAX_PATH / 2 || strcmp(slash, pickle) != 0) continue;
        torch->prefix = ls__bump_format(&torch->bump, "%.*s", (int)(slash - name) + 1, name);
        return torch->prefix ? LS_OK : ls__fail_memory(file->owned.ctx, file->path, 0);
    }
    return ls__tensor_file_fail(file, "the zip archive has no entry 'NAME/data.pkl'");
}

/* The index of an entry and its size; -1 if there is none. */
static zip_int64_t find_entry(const torch_file *torch, const char *folder, const char *name,
                              uint64_t *bytes)
{
    zip_stat_t stat;
    char path[MAX_PATH];
    const int length = snprintf(path, sizeof(path), "%s%s%s", torch->prefix, folder, name);
    const zip_int64_t i =
        length > 0 && length < MAX_PATH ? zip_name_locate(torch->zip, path, ZIP_FL_ENC_RAW) : -1;
    if (i < 0 || zip_stat_index(torch->zip, (zip_uint64_t)i, 0, &stat) != 0) return -1;
    *bytes = stat.size;
    return i;
}

/* Bytes of an entry. After the last one, libzip compares the entry's CRC if all were read in order.
 */
static ls_status read_entry(const ls_tensor_file *file, zip_int64_t i, void *out, size_t bytes,
                            int64_t offset)
{
    torch_file *torch = file->data;
    char end;
    if (torch->entry && torch->storage != i) {
        zip_fclose(torch->entry);
        torch->entry = NULL;
    }
    if (!torch->entry) torch->entry = zip_fopen_index(torch->zip, (zip_uint64_t)i, 0);
    torch->storage = i;
    zip_stat_t stat;
    if (!torch->entry || zip_stat_index(torch->zip, (zip_uint64_t)i, 0, &stat) != 0)
        return fail_zip(file, "zip entry", zip_get_error(torch->zip));
    zip_int64_t n = zip_ftell(torch->entry) == offset
                        ? 0
                        : zip_fseek(torch->entry, (zip_int64_t)offset, SEEK_SET);
    for (size_t done = 0; done < bytes && n >= 0; done += (size_t)n) {
        n = zip_fread(torch->entry, (char *)out + done, bytes - done);
        if (n == 0)
            return ls__tensor_file_fail(file, "zip entry '%.*s' ends after %zu of %zu bytes",
                                        LS__CUT(stat.name, 100), done, bytes);
    }
    if (n >= 0 && zip_ftell(torch->entry) == (zip_int64_t)stat.size)
        n = zip_fread(torch->entry, &end, 1);
    if (n >= 0) return LS_OK;
    const ls_status status = fail_zip(file, stat.name, zip_file_get_error(torch->entry));
    zip_fclose(torch->entry);
    torch->entry = NULL;
    return status;
}

static ls_status read_byte_order(const ls_tensor_file *file, torch_file *torch)
{
    static const char little[] = "little", big[] = "big";
    char text[sizeof(little)] = "";
    uint64_t bytes;
    const zip_int64_t i = find_entry(torch, "", "byteorder", &bytes);
    if (i < 0) return LS_OK; /* before version 2.1: little */
    if (bytes < sizeof(text)) LS_TRY(read_entry(file, i, text, (size_t)bytes, 0));
    torch->big_endian = strcmp(text, big) == 0;
    if (torch->big_endian || strcmp(text, little) == 0) return LS_OK;
    return ls__tensor_file_fail(file, "the byte order is '%s', expected 'little' or 'big'", text);
}

/* The range begins and ends with an element. */
static ls_status read_range(const ls_tensor_file *file, const ls__tensor_header *t, void *out,
                            size_t bytes, int64_t offset)
{
    const torch_file *torch = file->data;
    const size_t size = t->element_bytes;
    LS_TRY(read_entry(file, t->storage, out, bytes, t->begin + offset));
    for (char *element = out; torch->big_endian && bytes > 0; element += size, bytes -= size)
        for (size_t i = 0; i < size / 2; i++) {
            const char byte = element[i];
            element[i] = element[size - 1 - i];
            element[size - 1 - i] = byte;
        }
    return LS_OK;
}

/* ---- Tensors ---- */

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

static ls_status make_header(const ls_tensor_file *file, const torch_file *torch,
                             const ls__torch_tensor *t, ls__tensor_header *h)
{
    uint64_t bytes;
    size_t expected;
    *h = (ls__tensor_header){ .name = t->name, .dtype = t->storage->dtype };
    ls__tensor_header_set_type(h);
    h->storage = find_entry(torch, "data/", t->storage->key, &bytes);
    if (h->storage < 0)
        return ls__tensor_file_fail(file, "tensor '%.*s': the zip archive has no storage '%.*s'",
                                    LS__CUT(h->name, 100), LS__CUT(t->storage->key, 100));
    if (!ls__mul_size((size_t)t->storage->count, h->element_bytes, &expected) || bytes != expected)
        return ls__tensor_file_fail(
            file, "tensor '%.*s': its storage has %" PRIu64 " bytes, expected %" PRId64 " x %zu",
            LS__CUT(h->name, 100), bytes, t->storage->count, h->element_bytes);
    return set_place(file, h, t);
}

static ls_status read_state_dict(const ls_tensor_file *file, const torch_file *torch,
                                 ls__bump *bump, ls__torch_state_dict *out)
{
    uint64_t bytes = 0;
    const zip_int64_t i = find_entry(torch, "", "data.pkl", &bytes);
    if (i < 0 || bytes > LS__PICKLE_MAX_BYTES)
        return ls__tensor_file_fail(file, "the pickle has %" PRIu64 " bytes, expected %d at most",
                                    bytes, LS__PICKLE_MAX_BYTES);
    void *pickle = ls__bump_alloc(bump, (size_t)bytes);
    if (!pickle) return ls__fail_memory(file->owned.ctx, file->path, (size_t)bytes);
    LS_TRY(read_entry(file, i, pickle, (size_t)bytes, 0));
    const ls_status status = ls__torch_unpickle(file->owned.ctx, bump, pickle, (size_t)bytes, out);
    if (status != LS_OK)
        ls__error_in(file->owned.ctx, "'%s' is no readable PyTorch state dict", file->path);
    return status;
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

static ls_status parse(ls_tensor_file *file, torch_file *torch, ls__bump *bump)
{
    ls__torch_state_dict dict;
    LS_TRY(open_zip(file, torch));
    LS_TRY(find_prefix(file, torch));
    LS_TRY(read_byte_order(file, torch));
    LS_TRY(read_state_dict(file, torch, bump, &dict));
    const size_t size = (size_t)dict.n * sizeof(*file->tensors);
    file->tensors = ls__alloc(file->owned.ctx, size);
    if (!file->tensors) return ls__fail_memory(file->owned.ctx, file->path, size);
    int64_t total = 0;
    for (int64_t i = 0; i < dict.n; i++) {
        ls__tensor_header *h = &file->tensors[file->n_tensors++];
        LS_TRY(make_header(file, torch, &dict.tensors[i], h));
        LS_TRY(add_to_total(file, h, &total));
        h->name = ls__bump_strdup(&torch->bump, h->name);
        if (!h->name) return ls__fail_memory(file->owned.ctx, file->path, 0);
    }
    return LS_OK;
}

static void close_format(ls_tensor_file *file)
{
    torch_file *torch = file->data;
    if (!torch) return;
    if (torch->entry) zip_fclose(torch->entry);
    if (torch->zip) zip_discard(torch->zip);
    ls__bump_close(&torch->bump);
    ls__free(file->owned.ctx, torch);
}

static const ls__tensor_format torch_format = { .name = "PyTorch file",
                                                .read = read_range,
                                                .close = close_format };

ls_status ls__torch_file_parse(ls_tensor_file *file)
{
    file->format = &torch_format;
    torch_file *torch = file->data = ls__zalloc(file->owned.ctx, sizeof(*torch));
    if (!torch) return ls__fail_memory(file->owned.ctx, file->path, sizeof(*torch));
    ls__bump_open(&torch->bump, file->owned.ctx);
    ls__bump bump; /* the pickle and its values */
    ls__bump_open(&bump, file->owned.ctx);
    const ls_status status = parse(file, torch, &bump);
    ls__bump_close(&bump);
    return status;
}
