/* test_zip.c: zip archives as they are written where sizes may exceed 32 bits, whole and damaged.
 * test_torch_file.c has the others. */
#include "../suite.h"

#include <lockstep/lockstep.h>
#include <string.h>

static size_t put(unsigned char *out, size_t at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) out[at + (size_t)i] = (unsigned char)(value >> 8 * i);
    return at + (size_t)n;
}

/* An archive with one entry, an empty dict, as written where every number may exceed 32 bits: the
 * directory has its sizes and place in an extra field, after one of another kind, and a second end
 * has the directory's. Sets the directory's, the second end's and the first end's offset. */
static size_t write_zip64(unsigned char *out, uint64_t size, size_t places[3])
{
    static const char name[] = "x/data.pkl", data[] = "\x80\2}.";
    size_t at = put(out, 0, 0x04034b50, 4); /* a header, then the data */
    at = put(out, at, 0, 22);
    at = put(out, at, 10, 2);
    at = put(out, at, 3, 2); /* padding */
    memcpy(out + at, name, 10);
    memcpy(out + at + 13, data, 4);
    at = places[0] = at + 17;
    at = put(out, at, 0x02014b50, 4); /* the directory */
    at = put(out, at, 0, 12);
    at = put(out, at, 0x89deb73d, 4);
    at = put(out, at, UINT64_MAX, 8);
    at = put(out, at, 10, 2);
    at = put(out, at, 5 + 28, 2);
    at = put(out, at, 0, 10);
    at = put(out, at, UINT32_MAX, 4);
    memcpy(out + at, name, 10);
    at = put(out, at + 10, 0x0001cafe, 4); /* extra fields */
    at = put(out, at, 0, 1);
    at = put(out, at, 24 << 16 | 1, 4);
    at = put(out, at, size, 8);
    at = put(out, at, size, 8);
    at = put(out, at, 0, 8);
    const size_t directory_bytes = at - places[0];
    places[1] = at;
    at = put(out, at, 0x06064b50, 4); /* the second end */
    at = put(out, at, 44, 8);
    at = put(out, at, 0, 12);
    at = put(out, at, 1, 8);
    at = put(out, at, 1, 8);
    at = put(out, at, directory_bytes, 8);
    at = put(out, at, places[0], 8);
    at = put(out, at, 0x07064b50, 4); /* its locator */
    at = put(out, at, 0, 4);
    at = put(out, at, places[1], 8);
    at = put(out, at, 1, 4);
    places[2] = at;
    at = put(out, at, 0x06054b50, 4); /* the end */
    at = put(out, at, 0, 4);
    at = put(out, at, UINT32_MAX, 4);
    at = put(out, at, UINT64_MAX, 8);
    return put(out, at, 0, 2);
}

START_TEST(archives_with_64_bits)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    char *folder = new_folder();
    unsigned char bytes[512] = { 0 };
    size_t places[3];
    const char *path = path_in(folder, "x.pt");
    size_t n = write_zip64(bytes, 4, places);
    write_file(path, bytes, n);
    ck_assert_ptr_null(ls_tensor_file_open(ctx, path));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "names no tensor"); /* an empty dict */

    write_file(path, bytes, n + 100); /* zeros follow */
    ck_assert_ptr_null(ls_tensor_file_open(ctx, path));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "names no tensor");

    static const struct {
        int place, offset; /* of a byte that is changed */
        const char *message;
    } damages[] = {
        { 0, 0, "directory is damaged" },           { 0, 28, "directory is damaged" },
        { 0, 62, "entry 'x/data.pkl' is damaged" }, { 1, 0, "second end is damaged" },
        { 1, 48, "directory is damaged" },          { 1, 47, "directory of 1 entries is not in" },
        { 2, -5, "second end is not in" },          { 2, 0, "the file is truncated" },
        { 2, 20, "the file is truncated" },
    };
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        n = write_zip64(bytes, 4, places);
        bytes[(int)places[damages[i].place] + damages[i].offset] ^= 0x40;
        write_file(path, bytes, n);
        ck_assert_ptr_null(ls_tensor_file_open(ctx, path));
        expect_error(ctx, LS_ERR_FORMAT, "x.pt", damages[i].message);
    }
    n = write_zip64(bytes, UINT64_MAX, places);
    write_file(path, bytes, n);
    ck_assert_ptr_null(ls_tensor_file_open(ctx, path));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "zip entry 'x/data.pkl' is damaged");
    n = write_zip64(bytes, 5, places);
    write_file(path, bytes, n);
    ck_assert_ptr_null(ls_tensor_file_open(ctx, path));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "zip entry 'x/data.pkl' is damaged");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(zip)
{
    return RUN_SUITE("zip", archives_with_64_bits);
}
