/* test_zip.c: zip archives as they are written where sizes may exceed 32 bits, whole and damaged.
 * test_torch_file.c has the others. */
#include "../suite.h"

#include <lockstep/lockstep.h>
#include <string.h>

static size_t put(unsigned char *out, size_t at, uint64_t value, int n)
{
    for (; n > 0; n--, value >>= 8) out[at++] = (unsigned char)value;
    return at;
}

/* An archive with one entry, an empty dict, as written where every number may exceed 32 bits: the
 * directory has its sizes and place in an extra field, after one of another kind, and a zip64 end
 * record has the directory's. Sets the offsets of the directory and of the end records. */
static size_t write_zip64(unsigned char *out, uint64_t size, size_t places[3])
{
    static const char name[] = "x/data.pkl", data[] = "\x80\2}.";
    size_t at = put(out, 0, 0x04034b50, 4); /* the local header, then the data */
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
    at = put(out, at, 0x06064b50, 4); /* the zip64 end record */
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
    at = put(out, at, 0x06054b50, 4); /* the end record */
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

    enum { LOCAL = -1, DIRECTORY, END64, END }; /* indices of places */
    static const struct {
        int part, offset; /* of a byte that is changed */
        const char *message;
    } damages[] = {
        { LOCAL, 26, "its local header is damaged, or another entry's" },
        { LOCAL, 29, "its data reach into the directory" },
        { LOCAL, 30, "its local header is damaged, or another entry's" },
        { LOCAL, 43, "its checksum is wrong" },
        { DIRECTORY, 0, "directory is damaged" },
        { DIRECTORY, 8, "compressed or encrypted" },  /* flags: encrypted */
        { DIRECTORY, 10, "compressed or encrypted" }, /* method */
        { DIRECTORY, 16, "its checksum is wrong" },
        { DIRECTORY, 28, "directory is damaged" }, /* length of the name */
        { DIRECTORY, 30, "directory is damaged" }, /* length of the extra fields */
        { DIRECTORY, 61, "extra field of sizes with 64 bits is missing or damaged" }, /* its kind */
        { DIRECTORY, 63, "extra field of sizes with 64 bits is missing or damaged" }, /* length */
        { DIRECTORY, 84, "beyond the end of the file" }, /* the local header's offset */
        { END64, 0, "zip64 end record is damaged" },
        { END64, 32, "directory of 65 entries is not before" },
        { END64, 40, "is not before its end record" }, /* bytes of the directory */
        { END64, 47, "directory of 1 entries is not before" },
        { END64, 48, "is not before its end record" },      /* the directory's offset */
        { END, -5, "zip64 end record is not in the file" }, /* in the locator */
        { END, 0, "has no end record: it is truncated" },
        { END, 20, "has no end record: it is truncated" }, /* length of the comment */
    };
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        n = write_zip64(bytes, 4, places);
        const size_t begin = damages[i].part == LOCAL ? 0 : places[damages[i].part];
        bytes[(int)begin + damages[i].offset] ^=
            damages[i].part == DIRECTORY && damages[i].offset == 8 ? 1 : 0x40;
        write_file(path, bytes, n);
        ls_tensor_file *opened = ls_tensor_file_open(ctx, path);
        ck_assert_msg(!opened, "damage %d", (int)i);
        ck_assert_msg(strstr(ls_context_message(ctx), damages[i].message), "damage %d: %s", (int)i,
                      ls_context_message(ctx));
        ls_context_clear_error(ctx);
    }
    static const struct {
        uint64_t size;
        const char *message;
    } sizes[] = { { UINT64_MAX, "beyond the end of the file" },
                  { INT64_MAX, "exceed the file" },
                  { 60, "reach into the directory" },
                  { 5, "reach into the directory" } };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        n = write_zip64(bytes, sizes[i].size, places);
        write_file(path, bytes, n);
        ck_assert_ptr_null(ls_tensor_file_open(ctx, path));
        expect_error(ctx, LS_ERR_FORMAT, "x.pt", sizes[i].message);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(zip)
{
    return RUN_SUITE("zip", archives_with_64_bits);
}
