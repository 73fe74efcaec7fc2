/* fuzz_torch_file.c: PyTorch files. The input is the pickle of an archive with two storages, or the
 * whole file if it begins as an archive or as a file of PyTorch before 1.6. */
#include "fuzz.h"

#include <string.h>
#include <zip.h>

static const char NAME[] = "x.pt";
static const unsigned char storage[64];

static void add(zip_t *zip, const char *name, const void *bytes, size_t n)
{
    zip_source_t *source = zip_source_buffer(zip, bytes, n, 0);
    const zip_int64_t i = zip_file_add(zip, name, source, 0);
    FUZZ_CHECK(i >= 0);
    FUZZ_CHECK(zip_set_file_compression(zip, (zip_uint64_t)i, ZIP_CM_STORE, 0) == 0);
}

static const char *write_archive(const uint8_t *pickle, size_t size)
{
    int code;
    const char *path = fuzz_path(NAME);
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    FUZZ_CHECK(zip);
    add(zip, "x/data.pkl", pickle, size);
    add(zip, "x/data/0", storage, sizeof(storage));
    add(zip, "x/data/1", storage, 8);
    FUZZ_CHECK(zip_close(zip) == 0);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool whole =
        size > 4 && (memcmp(data, "PK\3\4", 4) == 0 || memcmp(data, "\x80\2\x8a\x0a", 4) == 0);
    const char *path = whole ? fuzz_file(NAME, data, size) : write_archive(data, size);
    ls_context *ctx = fuzz_context();
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    FUZZ_CHECK((fuzz_error(NAME) == LS_OK) == (file != NULL));
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(file); i++) {
        const char *name = ls_tensor_file_name(file, i);
        const bool readable = ls_tensor_file_find(file, name, NULL);
        ls_tensor *tensor = ls_tensor_file_load(file, name);
        const ls_status status = fuzz_error(NAME);
        FUZZ_CHECK(tensor ? readable && status == LS_OK : status != LS_OK);
        FUZZ_CHECK(!tensor || ls_tensor_bytes(tensor) <= (whole ? size : sizeof(storage)));
        ls_tensor_close(&tensor);
    }
    ls_tensor_file_close(&file);
    return 0;
}
