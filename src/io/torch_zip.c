/* torch_zip.c: a PyTorch file (.pt, .pth), as torch.save writes it since version 1.6: a zip
 * archive of stored entries. "NAME/data.pkl" is a pickle (torch_pickle.h), "NAME/data/KEY" a
 * storage, "NAME/byteorder" is "little" or "big". Storages are read when a tensor needs them. */
#include "base/alloc.h"
#include "base/bump.h"
#include "base/error.h"
#include "base/text.h"
#include "io/torch_tensors.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zip.h>

/* Longer paths in the archive are not found. The folder is the file's name, keys are numbers. */
enum { MAX_PATH = 1024 };

/* file->data. */
typedef struct torch_file {
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
    if (torch->zip) return LS_OK;
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const ls_status status = fail_zip(file, "zip archive", &error);
    zip_error_fini(&error);
    close(fd);
    return status;
}

/* "NAME/" of the entry "NAME/data.pkl". */
static ls_status find_prefix(ls_tensor_file *file, torch_file *torch)
{
    static const char pickle[] = "/data.pkl";
    for (zip_int64_t i = 0; i < zip_get_num_entries(torch->zip, 0); i++) {
        const char *name = zip_get_name(torch->zip, (zip_uint64_t)i, ZIP_FL_ENC_RAW);
        const char *slash = name ? strchr(name, '/') : NULL;
        if (!slash || slash - name >= MAX_PATH / 2 || strcmp(slash, pickle) != 0) continue;
        torch->prefix = ls__bump_format(&file->bump, "%.*s", (int)(slash - name) + 1, name);
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
    const torch_file *torch = file->data;
    LS_TRY(read_entry(file, t->storage, out, bytes, t->begin + offset));
    if (torch->big_endian) swap_bytes(out, t->element_bytes, bytes);
    return LS_OK;
}

static void find_storage(const void *format, const ls__torch_storage *storage, int64_t *index,
                         uint64_t *bytes)
{
    *index = find_entry(format, "data/", storage->key, bytes);
}

/* TorchScript's archives hold pickles of modules, and their code, which may be compressed. */
static ls_status refuse_script(const ls_tensor_file *file, const torch_file *torch)
{
    uint64_t bytes;
    if (find_entry(torch, "", "constants.pkl", &bytes) < 0) return LS_OK;
    return ls__fail(file->owned.ctx, LS_ERR_UNSUPPORTED,
                    "'%s' is a TorchScript archive, expected a state dict. If you trust the file, "
                    "convert it with: python3 -c \"import sys, torch; torch.save(torch.jit.load("
                    "sys.argv[1], map_location='cpu').state_dict(), 'state_dict.pt')\" FILE",
                    file->path);
}

static ls_status read_state_dict(const ls_tensor_file *file, const torch_file *torch,
                                 ls__bump *bump, const char *key, ls__torch_state_dict *out)
{
    ls__torch_pickle reader;
    uint64_t bytes = 0;
    const zip_int64_t i = find_entry(torch, "", "data.pkl", &bytes);
    if (i < 0 || bytes > LS__PICKLE_MAX_BYTES)
        return ls__tensor_file_fail(file,
                                    "the pickle has %" PRIu64 " bytes, expected %d at most; "
                                    "save the state dict alone",
                                    bytes, LS__PICKLE_MAX_BYTES);
    void *pickle = ls__bump_alloc(bump, (size_t)bytes);
    if (!pickle) return ls__fail_memory(file->owned.ctx, file->path, (size_t)bytes);
    LS_TRY(read_entry(file, i, pickle, (size_t)bytes, 0));
    ls__torch_pickle_open(&reader, file->owned.ctx, bump, file->path, pickle, (size_t)bytes);
    return ls__torch_read_state_dict(&reader, key, out);
}

static ls_status parse(ls_tensor_file *file, torch_file *torch, ls__bump *pickles, const char *key)
{
    ls__torch_state_dict dict;
    LS_TRY(open_zip(file, torch));
    LS_TRY(find_prefix(file, torch));
    LS_TRY(refuse_script(file, torch));
    LS_TRY(check_entries(file));
    LS_TRY(read_byte_order(file, torch));
    LS_TRY(read_state_dict(file, torch, pickles, key, &dict));
    return ls__torch_set_tensors(file, &dict, find_storage);
}

static void close_format(ls_tensor_file *file)
{
    const torch_file *torch = file->data;
    if (torch && torch->entry) zip_fclose(torch->entry);
    if (torch && torch->zip) zip_discard(torch->zip);
}

ls_status ls__torch_zip_parse(ls_tensor_file *file, ls__bump *pickles, const char *key)
{
    static const ls__tensor_format format = { .name = "PyTorch file",
                                              .read = read_range,
                                              .close = close_format };
    file->format = &format;
    torch_file *torch = file->data = ls__bump_alloc(&file->bump, sizeof(*torch));
    return torch ? parse(file, torch, pickles, key)
                 : ls__fail_memory(file->owned.ctx, file->path, sizeof(*torch));
}
