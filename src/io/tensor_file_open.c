/* tensor_file_open.c: opens and closes a file of tensors, whose format it recognizes. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "io/tensor_file.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What people save, download or rename in place of a file of tensors, by its first bytes. */
static const struct {
    size_t at, n;
    const char *bytes, *what;
} foreign[] = {
    { 0, 8, "version ", "a Git LFS pointer; 'git lfs pull' fetches the file it stands for" },
    { 0, 1, "<", "a web page or XML; the download needs another address, or a login" },
    { 0, 2, "\x1f\x8b", "compressed by gzip; uncompress it first" },
    { 0, 6, "\xfd\x37zXZ", "compressed by xz; uncompress it first" },
    { 0, 4, "\x28\xb5\x2f\xfd", "compressed by zstd; uncompress it first" },
    { 257, 5, "ustar", "a tar archive; extract it first" },
    { 0, 8, "\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes it; its weights can't be read" },
    { 0, 6, "\x93NUMPY", "an array of NumPy; save a state dict with torch.save" },
    { 0, 4, "GGUF", "a GGUF file; its weights can't be read" },
    { 0, 4, "PK\5\6", "an empty zip archive" },
};

/* An ONNX model begins with the version of the format, field 1, which is 3 to 14 up to ONNX 1.20,
 * and then has the name of the program that wrote it, field 2, or the graph, field 7. */
static bool is_onnx(const char *begin, size_t n)
{
    enum { VERSION = 1 << 3, PRODUCER = 2 << 3 | 2, GRAPH = 7 << 3 | 2 };
    return n > 2 && begin[0] == VERSION && begin[1] >= 3 && begin[1] <= 14 &&
           (begin[2] == PRODUCER || begin[2] == GRAPH);
}

/* A safetensors file has a '{' after the 8 bytes of its header's length, which may be any. */
static ls_status refuse_foreign(const ls_tensor_file *file)
{
    enum { SAFETENSORS_HEADER = 8 };
    char begin[257 + 5] = "";
    const size_t n =
        file->file_bytes < (int64_t)sizeof(begin) ? (size_t)file->file_bytes : sizeof(begin);
    LS_TRY(ls__tensor_file_read_at(file, begin, n, 0));
    if (n > SAFETENSORS_HEADER && begin[SAFETENSORS_HEADER] == '{') return LS_OK;
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
        if (foreign[i].at + foreign[i].n <= n &&
            memcmp(begin + foreign[i].at, foreign[i].bytes, foreign[i].n) == 0)
            return ls__fail(file->owned.ctx, LS_ERR_FORMAT,
                            "'%s' is no safetensors or PyTorch file, but %s", file->path,
                            foreign[i].what);
    if (is_onnx(begin, n))
        return ls__fail(file->owned.ctx, LS_ERR_FORMAT,
                        "'%s' is no safetensors or PyTorch file, but an ONNX file; its weights "
                        "can't be read",
                        file->path);
    return LS_OK;
}

static ls_status parse(ls_tensor_file *file, ls__bump *pickles, const char *key)
{
    static const unsigned char zip[] = { 'P', 'K', 3, 4 };
    /* The magic number of torch.save before version 1.6, pickled. */
    static const unsigned char pickle[] = { 0x80, 2,    0x8a, 0x0a, 0x6c, 0xfc, 0x9c,
                                            0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19 };
    unsigned char begin[sizeof(pickle)] = { 0 };
    const size_t n =
        file->file_bytes < (int64_t)sizeof(begin) ? (size_t)file->file_bytes : sizeof(begin);
    LS_TRY(ls__tensor_file_read_at(file, begin, n, 0));
    if (memcmp(begin, pickle, sizeof(pickle)) == 0)
        return ls__torch_legacy_parse(file, pickles, key);
    if (memcmp(begin, zip, sizeof(zip)) == 0) return ls__torch_zip_parse(file, pickles, key);
    LS_TRY(refuse_foreign(file));
    return ls__safetensors_parse(file);
}

static ls_status read_file(ls_tensor_file *file, const char *path, const char *key)
{
    char reason[LS__ERRNO_TEXT_SIZE];
    file->fd = -1;
    ls__bump_open(&file->bump, file->owned.ctx);
    file->path = ls__bump_strdup(&file->bump, path);
    if (!file->path) return ls__fail_memory(file->owned.ctx, path, strlen(path) + 1);
    const ls_status status = ls__open_regular(path, O_RDONLY, &file->fd, &file->file_bytes, reason);
    if (status != LS_OK) return ls__tensor_file_fail_read(file, status, reason);
    ls__bump pickles;
    ls__bump_open(&pickles, file->owned.ctx);
    const ls_status parsed = parse(file, &pickles, key);
    ls__bump_close(&pickles);
    LS_TRY(parsed);
    qsort(file->tensors, (size_t)file->n_tensors, sizeof(*file->tensors),
          ls__tensor_header_compare);
    for (int64_t i = 1; i < file->n_tensors; i++)
        if (ls__tensor_header_compare(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return ls__tensor_file_fail(file, "two tensors have the name '%.*s'",
                                        LS__CUT(file->tensors[i].name, 100));
    return LS_OK;
}

static void close_owned(ls__owned *self)
{
    ls_tensor_file *file = (ls_tensor_file *)self;
    if (file->format && file->format->close) file->format->close(file);
    if (file->fd >= 0) close(file->fd);
    ls__bump_close(&file->bump);
    ls__free(self->ctx, file);
}

ls_tensor_file *ls_tensor_file_open(ls_context *ctx, const char *path)
{
    return ls__tensor_file_open(ctx, path, NULL);
}

ls_tensor_file *ls__tensor_file_open(ls_context *ctx, const char *path, const char *key)
{
    LS__ENTER_NULL(ctx);
    if (!path) return ls__fail_null(ctx, "ls_tensor_file_open", "path"), NULL;
    ls_tensor_file *file = ls__open_owned(ctx, path, sizeof(*file), close_owned);
    if (file && read_file(file, path, key) != LS_OK) ls_tensor_file_close(&file);
    return file;
}

void ls_tensor_file_close(ls_tensor_file **file)
{
    LS__CLOSE_OWNED(file);
}
