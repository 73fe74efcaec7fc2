/* torch_zip.c: a PyTorch file (.pt, .pth), as torch.save writes it since version 1.6: a zip
 * archive of stored entries. "NAME/data.pkl" is a pickle (torch_pickle.h), "NAME/data/KEY" a
 * storage, "NAME/byteorder" is "little" or "big". Storages are read when a tensor needs them. */
#include "base/alloc.h"
#include "base/bump.h"
#include "base/error.h"
#include "base/text.h"
#include "io/torch_tensors.h"
#include "io/zip.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longer paths in the archive are not found. The folder is the file's name, keys are numbers. */
enum { MAX_PATH = 1024 };

/* file->data. */
typedef struct torch_file {
    ls__zip zip;
    char *prefix;    /* "NAME/" */
    bool big_endian; /* the numbers in the storages */
} torch_file;

/* "NAME/" of the only entry "NAME/data.pkl". */
static ls_status find_prefix(ls_tensor_file *file, torch_file *torch)
{
    static const char pickle[] = "/data.pkl";
    const char *found = NULL;
    for (int64_t i = 0; i < torch->zip.n_entries; i++) {
        const char *name = torch->zip.entries[i].name, *slash = strchr(name, '/');
        if (!slash || slash - name >= MAX_PATH / 2 || strcmp(slash, pickle) != 0) continue;
        if (found)
            return ls__tensor_file_fail(file,
                                        "the zip archive has the entries '%.*s' and '%.*s', "
                                        "expected one of them",
                                        LS__CUT(found, 100), LS__CUT(name, 100));
        found = name;
    }
    if (!found) return ls__tensor_file_fail(file, "the zip archive has no entry 'NAME/data.pkl'");
    torch->prefix =
        ls__bump_format(&file->bump, "%.*s", (int)(strchr(found, '/') - found) + 1, found);
    return torch->prefix ? LS_OK : ls__fail_memory(file->owned.ctx, file->path, 0);
}

/* An error unless every entry is stored, and all of them together are no larger than the file. */
static ls_status check_stored(const ls_tensor_file *file, const ls__zip *zip)
{
    int64_t rest = file->file_bytes;
    for (const ls__zip_entry *e = zip->entries; e < zip->entries + zip->n_entries; e++) {
        if (!e->is_stored)
            return ls__tensor_file_fail(
                file, "zip entry '%.*s' is compressed or encrypted; torch.save stores entries",
                LS__CUT(e->name, 100));
        if (e->bytes > rest)
            return ls__tensor_file_fail(file, "the zip entries up to '%.*s' exceed the file",
                                        LS__CUT(e->name, 100));
        rest -= e->bytes;
    }
    return LS_OK;
}

/* NULL if there is none. */
static ls__zip_entry *find_entry(const torch_file *torch, const char *folder, const char *name)
{
    char path[MAX_PATH];
    const int length = snprintf(path, sizeof(path), "%s%s%s", torch->prefix, folder, name);
    return length > 0 && length < MAX_PATH ? ls__zip_find(&torch->zip, path) : NULL;
}

static ls_status read_byte_order(const ls_tensor_file *file, torch_file *torch)
{
    static const char little[] = "little", big[] = "big";
    char text[sizeof(little)] = "";
    ls__zip_entry *entry = find_entry(torch, "", "byteorder");
    if (!entry) return LS_OK; /* before version 2.1: little */
    if (entry->bytes < (int64_t)sizeof(text))
        LS_TRY(ls__zip_read(file, &torch->zip, entry, text, (size_t)entry->bytes, 0));
    torch->big_endian = strcmp(text, big) == 0;
    if (torch->big_endian || strcmp(text, little) == 0) return LS_OK;
    return ls__tensor_file_fail(file, "the byte order is '%s', expected 'little' or 'big'", text);
}

static void swap_bytes(void *elements, size_t element_bytes, size_t bytes)
{
    const size_t size = element_bytes;
    for (char *element = elements; bytes > 0; element += size, bytes -= size)
        for (size_t i = 0; i < size / 2; i++) {
            const char byte = element[i];
            element[i] = element[size - 1 - i];
            element[size - 1 - i] = byte;
        }
}

/* `bytes` and `offset` must be multiples of the element's size. */
static ls_status read_range(const ls_tensor_file *file, const ls__tensor_header *t, void *out,
                            size_t bytes, int64_t offset)
{
    torch_file *torch = file->data;
    LS_TRY(ls__zip_read(file, &torch->zip, &torch->zip.entries[t->storage], out, bytes,
                        t->begin + offset));
    if (torch->big_endian) swap_bytes(out, t->element_bytes, bytes);
    return LS_OK;
}

static void find_storage(const void *format, const ls__torch_storage *storage, int64_t *index,
                         uint64_t *bytes)
{
    const torch_file *torch = format;
    const ls__zip_entry *entry = find_entry(torch, "data/", storage->key);
    *index = entry ? entry - torch->zip.entries : -1;
    *bytes = entry ? (uint64_t)entry->bytes : 0;
}

/* TorchScript's archives hold pickles of modules, and their code, which may be compressed. */
static ls_status refuse_script(const ls_tensor_file *file, const torch_file *torch)
{
    if (!find_entry(torch, "", "constants.pkl")) return LS_OK;
    return ls__fail(file->owned.ctx, LS_ERR_UNSUPPORTED,
                    "'%s' is a TorchScript archive, expected a state dict. If you trust the file, "
                    "convert it with: python3 -c \"import sys, torch; torch.save(torch.jit.load("
                    "sys.argv[1], map_location='cpu').state_dict(), 'state_dict.pt')\" FILE",
                    file->path);
}

static ls_status read_state_dict(const ls_tensor_file *file, torch_file *torch, ls__bump *bump,
                                 const char *key, ls__torch_state_dict *out)
{
    ls__torch_pickle reader;
    ls__zip_entry *entry = find_entry(torch, "", "data.pkl"); /* found by find_prefix */
    if (entry->bytes > LS__PICKLE_MAX_BYTES)
        return ls__tensor_file_fail(file,
                                    "the pickle has %" PRId64 " bytes, expected %d at most; "
                                    "save the state dict alone",
                                    entry->bytes, LS__PICKLE_MAX_BYTES);
    const size_t bytes = (size_t)entry->bytes;
    void *pickle = ls__bump_alloc(bump, bytes);
    if (!pickle) return ls__fail_memory(file->owned.ctx, file->path, bytes);
    LS_TRY(ls__zip_read(file, &torch->zip, entry, pickle, bytes, 0));
    ls__torch_pickle_open(&reader, file->owned.ctx, bump, file->path, pickle, bytes);
    return ls__torch_read_state_dict(&reader, key, out);
}

static ls_status parse(ls_tensor_file *file, torch_file *torch, ls__bump *pickles, const char *key)
{
    ls__torch_state_dict dict;
    LS_TRY(ls__zip_open(file, &torch->zip));
    LS_TRY(find_prefix(file, torch));
    LS_TRY(refuse_script(file, torch));
    LS_TRY(check_stored(file, &torch->zip));
    LS_TRY(read_byte_order(file, torch));
    LS_TRY(read_state_dict(file, torch, pickles, key, &dict));
    return ls__torch_set_tensors(file, &dict, find_storage);
}

ls_status ls__torch_zip_parse(ls_tensor_file *file, ls__bump *pickles, const char *key)
{
    static const ls__tensor_format format = { .name = "PyTorch file", .read = read_range };
    file->format = &format;
    torch_file *torch = file->data = ls__bump_alloc(&file->bump, sizeof(*torch));
    return torch ? parse(file, torch, pickles, key)
                 : ls__fail_memory(file->owned.ctx, file->path, sizeof(*torch));
}
