/* safetensors files: round trips, foreign files, and every way in which a file can be wrong. */
#include "../backend/fake_backend.h"

#include <lockstep/tensor.h>

#include "../failing_allocator.h"
#include "../suite.h"
#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every test runs in an empty folder of its own. */
static char *folder;
static ls_context *ctx;

static void enter(void)
{
    ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    folder = new_folder();
    ck_assert_int_eq(chdir(folder), 0);
}

static void leave(void)
{
    ls_context_close(&ctx);
    ck_assert_int_eq(chdir("/"), 0);
    remove_folder(folder);
}

/* Writes a file of these parts as it is; length -1 = the header's. */
static void put_file(const char *path, int64_t length, const char *header, size_t header_bytes,
                     const void *data, size_t data_bytes)
{
    FILE *file = fopen(path, "wb");
    const uint64_t n = length < 0 ? header_bytes : (uint64_t)length;
    fwrite(&n, 8, 1, file);
    fwrite(header, 1, header_bytes, file);
    fwrite(data, 1, data_bytes, file);
    ck_assert_int_eq(fclose(file), 0);
}

static size_t get_file(const char *path, unsigned char *bytes, size_t size)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    const size_t n = fread(bytes, 1, size, file);
    ck_assert_uint_lt(n, size);
    fclose(file);
    return n;
}

/* One tensor of each type, a scalar and an empty one. */
enum { N_SAMPLES = 8 };
static const char *const sample_names[N_SAMPLES] = {
    "F32", "BF16", "F16", "I64", "I32", "U8", "scalar.\xc3\xa9\"\\\n", "empty"
};
static const char *const sample_metadata[] = { "classes", "[\"cat\",\"dog\"]", "", "empty key",
                                               NULL };

static void make_samples(ls_context *on, ls_tensor *tensors[N_SAMPLES])
{
    ls_tensor *random = ls_tensor_open(on, LS_F32, LS_SHAPE(3, 5));
    ls_tensor_random_uniform(random, 1, 0, 200);
    for (int i = 0; i < LS_N_DTYPES; i++) {
        tensors[i] = ls_tensor_open(on, (ls_dtype)i, LS_SHAPE(3, 5));
        ls_tensor_cast(tensors[i], random);
    }
    tensors[6] = ls_tensor_open(on, LS_I64, (ls_shape){ 0 });
    ls_tensor_fill(tensors[6], 123456789);
    tensors[7] = ls_tensor_open(on, LS_BF16, LS_SHAPE(4, 0, 2));
    ls_tensor_close(&random);
}

static ls_status save_samples(ls_context *on, const char *path)
{
    ls_tensor *tensors[N_SAMPLES];
    make_samples(on, tensors);
    const ls_status status = ls_tensors_save(on, path, N_SAMPLES, sample_names,
                                             (const ls_tensor *const *)tensors, sample_metadata);
    for (int i = 0; i < N_SAMPLES; i++) ls_tensor_close(&tensors[i]);
    return status;
}

static void check_samples(ls_context *on, const char *path)
{
    ls_tensor *tensors[N_SAMPLES];
    make_samples(on, tensors);
    ls_tensor_file *file = ls_tensor_file_open(on, path);
    ck_assert_msg(file, "%s", ls_context_message(on));
    ck_assert_int_eq(ls_tensor_file_tensor_count(file), N_SAMPLES);
    for (int i = 0; i < N_SAMPLES; i++) {
        ls_spec spec;
        ls_digest a, b, c;
        ck_assert(ls_tensor_file_find(file, sample_names[i], &spec));
        ck_assert(ls_tensor_file_find(file, sample_names[i], NULL));
        ck_assert_int_eq(spec.dtype, ls_tensor_dtype(tensors[i]));
        ck_assert(ls_shape_equal(&spec.shape, ls_tensor_shape(tensors[i])));
        ls_tensor *loaded = ls_tensor_file_load(file, sample_names[i]);
        ls_tensor *read = ls_tensor_open(on, spec.dtype, spec.shape);
        ck_assert_int_eq(ls_tensor_file_read(file, sample_names[i], read), LS_OK);
        ck_assert_int_eq(ls_tensor_digest(tensors[i], &a), LS_OK);
        ck_assert_int_eq(ls_tensor_digest(loaded, &b), LS_OK);
        ck_assert_int_eq(ls_tensor_digest(read, &c), LS_OK);
        ck_assert(ls_digest_equal(a, b) && ls_digest_equal(a, c));
    }
    ck_assert_str_eq(ls_tensor_file_metadata(file, "classes"), "[\"cat\",\"dog\"]");
    ck_assert_str_eq(ls_tensor_file_metadata(file, ""), "empty key");
    ck_assert_ptr_null(ls_tensor_file_metadata(file, "absent"));
    ls_tensor_file_close(&file);
    ck_assert_ptr_null(file);
}

START_TEST(round_trip)
{
    enter();
    ls_context *fake = fake_context_open(NULL);
    ck_assert_int_eq(save_samples(ctx, "a"), LS_OK);
    check_samples(ctx, "a");
    check_samples(fake, "a"); /* from one device to the other */
    ck_assert_int_eq(save_samples(fake, "b"), LS_OK);
    check_samples(ctx, "b");
    unsigned char a[4096], b[4096];
    ck_assert_uint_eq(get_file("a", a, sizeof(a)), get_file("b", b, sizeof(b)));
    ck_assert_int_eq(memcmp(a, b, get_file("b", b, sizeof(b))), 0);
    ls_context_close(&fake);
    leave();
}
END_TEST

START_TEST(larger_than_one_piece)
{
    enter();
    ls_context *fake = fake_context_open(NULL);
    ls_tensor *tensor = ls_tensor_open(fake, LS_F32, LS_SHAPE(100003));
    ls_tensor_random_normal(tensor, 0, 0, 1);
    const char *name = "w";
    const ls_tensor *const tensors[] = { tensor };
    ck_assert_int_eq(ls_tensors_save(fake, "a", 1, &name, tensors, NULL), LS_OK);
    ls_tensor_file *file = ls_tensor_file_open(fake, "a");
    ls_tensor *loaded = ls_tensor_file_load(file, "w");
    ls_difference difference;
    ck_assert_int_eq(ls_tensor_compare(tensor, loaded, &difference), LS_OK);
    ck_assert_int_eq(difference.n_different, 0);
    ls_context_close(&fake); /* closes the file and the tensors */
    leave();
}
END_TEST

START_TEST(layout_is_the_formats)
{
    enter();
    /* wide types first, then by name; the header is padded to a multiple of 8 */
    ls_tensor *u8 = ls_tensor_from_data(ctx, LS_U8, LS_SHAPE(3), "abc");
    ls_tensor *f32 = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(1), &(float){ 1.0f });
    ls_tensor *f32_too = ls_tensor_from_data(ctx, LS_F32, (ls_shape){ 0 }, &(float){ 2.0f });
    const char *const names[] = { "a", "z", "b" };
    const ls_tensor *const tensors[] = { u8, f32, f32_too };
    ck_assert_int_eq(
        ls_tensors_save(ctx, "x", 3, names, tensors, (const char *[]){ "k", "v", NULL }), LS_OK);
    static const char header[] = "{\"__metadata__\":{\"k\":\"v\"},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                                 "\"z\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
                                 "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]}}";
    unsigned char bytes[1000];
    const size_t n = get_file("x", bytes, sizeof(bytes));
    uint64_t length;
    memcpy(&length, bytes, 8);
    ck_assert_uint_eq(length % 8, 0);
    ck_assert_uint_eq(length, (sizeof(header) - 1 + 7) / 8 * 8);
    ck_assert_mem_eq(bytes + 8, header, sizeof(header) - 1);
    for (size_t i = 8 + sizeof(header) - 1; i < 8 + length; i++) ck_assert_uint_eq(bytes[i], ' ');
    ck_assert_uint_eq(n, 8 + length + 11);
    ck_assert_mem_eq(bytes + 8 + length,
                     "\0\0\0\x40\0\0\x80\x3f"
                     "abc",
                     11);
    leave();
}
END_TEST

/* Opens a file that may be anything and reads all of it. */
static bool try_file(const char *path)
{
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    const bool opened = file != NULL;
    for (int64_t i = 0; i < ls_tensor_file_tensor_count(file); i++) {
        ls_spec spec;
        const char *name = ls_tensor_file_name(file, i);
        const bool loadable = ls_tensor_file_find(file, name, &spec);
        ls_tensor *tensor = ls_tensor_file_load(file, name);
        ck_assert(loadable == (tensor != NULL));
        ls_tensor_close(&tensor);
        expect_error(ctx, loadable ? LS_OK : LS_ERR_UNSUPPORTED, "");
    }
    ls_tensor_file_close(&file);
    ck_assert(opened == (ls_context_status(ctx) == LS_OK));
    return opened;
}

START_TEST(headers_are_padded)
{
    enter();
    const ls_tensor *const tensors[] = { ls_tensor_open(ctx, LS_U8, LS_SHAPE(1)) };
    for (int i = 0; i < 8; i++) {
        const char *name = &"abcdefgh"[i];
        unsigned char bytes[1000];
        uint64_t length;
        ck_assert_int_eq(ls_tensors_save(ctx, "x", 1, &name, tensors, NULL), LS_OK);
        get_file("x", bytes, sizeof(bytes));
        memcpy(&length, bytes, 8);
        ck_assert_uint_eq(length % 8, 0);
        ck_assert(try_file("x"));
    }
    leave();
}
END_TEST

START_TEST(nothing_can_be_saved_too)
{
    enter();
    ck_assert_int_eq(ls_tensors_save(ctx, "x", 0, NULL, NULL, NULL), LS_OK);
    ls_tensor_file *file = ls_tensor_file_open(ctx, "x");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(ls_tensor_file_tensor_count(file), 0);
    ck_assert_ptr_null(ls_tensor_file_name(file, 0));
    ck_assert_ptr_null(ls_tensor_file_metadata(file, "x"));
    leave();
}
END_TEST

static int count_files(void)
{
    int n = -2; /* . and .. */
    DIR *dir = opendir(".");
    while (readdir(dir)) n++;
    closedir(dir);
    return n;
}

START_TEST(saving_misuse)
{
    enter();
    ls_context *other = ls_context_open(NULL);
    const ls_tensor *t = ls_tensor_open(ctx, LS_F32, LS_SHAPE(2));
    const ls_tensor *foreign = ls_tensor_open(other, LS_F32, LS_SHAPE(2));
    static const struct {
        int64_t n;
        const char *names[2];
        const char *metadata[4];
        const char *path;
        ls_status status;
        const char *message;
    } cases[] = {
        { -1, { "a" }, { 0 }, "x", LS_ERR_INVALID, "got -1 tensors" },
        { 1, { NULL }, { 0 }, "x", LS_ERR_INVALID, "the name of tensor 0 is NULL" },
        { 2, { "a", "a" }, { 0 }, "x", LS_ERR_INVALID, "writing 'x': there are two tensors 'a'" },
        { 1, { "__metadata__" }, { 0 }, "x", LS_ERR_INVALID, "'__metadata__'" },
        { 1, { "\xff" }, { 0 }, "x", LS_ERR_INVALID, "not UTF-8" },
        { 1,
          { "a" },
          { "k", NULL },
          "x",
          LS_ERR_INVALID,
          "writing 'x': metadata 'k' has no value" },
        { 1,
          { "a" },
          { "k", "v", "k", "w" },
          "x",
          LS_ERR_INVALID,
          "writing 'x': there are two metadata 'k'" },
        { 1, { "a" }, { "k", "\xff" }, "x", LS_ERR_INVALID, "'k': the value is not UTF-8" },
        { 1, { "a" }, { "\xff", "v" }, "x", LS_ERR_INVALID, "not UTF-8" },
        { 1, { "a" }, { 0 }, "none/x", LS_ERR_NOT_FOUND, "writing 'none/x': No such file" },
        { 1, { "a" }, { 0 }, ".", LS_ERR_IO, "writing '.': Is a directory" },
        { 1, { "a" }, { 0 }, "/dev/full", LS_ERR_IO, "'/dev/full': No space left on device" },
        { 1, { "a" }, { 0 }, NULL, LS_ERR_INVALID, "path is NULL" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *metadata[5] = { 0 };
        memcpy(metadata, cases[i].metadata, sizeof(cases[i].metadata));
        expect_failure(ls_tensors_save(ctx, cases[i].path, cases[i].n, cases[i].names,
                                       (const ls_tensor *[]){ t, t }, metadata),
                       ctx, cases[i].status, cases[i].message);
    }
    const char *const names[] = { "a", "b" };
    expect_failure(ls_tensors_save(ctx, "x", 1, NULL, &t, NULL), ctx, LS_ERR_INVALID, "is NULL");
    expect_failure(ls_tensors_save(ctx, "x", 1, names, NULL, NULL), ctx, LS_ERR_INVALID, "is NULL");
    expect_failure(ls_tensors_save(ctx, "x", 2, names, (const ls_tensor *[]){ t, NULL }, NULL), ctx,
                   LS_ERR_INVALID, "the memory of tensor 1 is NULL");
    expect_failure(ls_tensors_save(ctx, "x", 2, names, (const ls_tensor *[]){ t, foreign }, NULL),
                   ctx, LS_ERR_MISMATCH, "'b' belongs to another context");
    ck_assert_int_eq(count_files(), 0);
    ls_context_close(&other);
    leave();
}
END_TEST

START_TEST(foreign_types_can_be_listed_but_not_loaded)
{
    enter();
    static const char header[] =
        "{\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[8,9]},"
        "\"new\":{\"dtype\":\"F4_E2M1\",\"shape\":[2],\"data_offsets\":[9,10]},"
        "\"ours\":{\"data_offsets\":[10,11],\"shape\":[1],\"dtype\":\"U8\"}}   ";
    put_file("x", -1, header, sizeof(header) - 1, "12345678901", 11);
    ls_tensor_file *file = ls_tensor_file_open(ctx, "x");
    ck_assert_msg(file, "%s", ls_context_message(ctx));
    ck_assert_int_eq(ls_tensor_file_tensor_count(file), 4);
    static const char *const names[] = { "d", "deep", "new", "ours" }; /* in the order of names */
    ls_spec spec;
    for (int i = 0; i < 4; i++) {
        ck_assert_str_eq(ls_tensor_file_name(file, i), names[i]);
        ck_assert_int_eq(ls_tensor_file_find(file, names[i], &spec), i == 3);
    }
    ck_assert_ptr_null(ls_tensor_file_name(file, -1));
    ck_assert_ptr_null(ls_tensor_file_name(file, 4));
    ck_assert_ptr_null(ls_tensor_file_load(file, "d"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "'x': tensor 'd' (F64) has an unsupported type");
    ck_assert_ptr_null(ls_tensor_file_load(file, "deep"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "'deep' (U8) has an unsupported number of dimensions");
    ck_assert_ptr_null(ls_tensor_file_load(file, "absent"));
    expect_error(ctx, LS_ERR_NOT_FOUND, "'x' has no tensor 'absent'");
    ck_assert_ptr_null(ls_tensor_file_load(file, NULL));
    expect_error(ctx, LS_ERR_NOT_FOUND, "'x' has no tensor ''");
    ls_tensor *ours = ls_tensor_file_load(file, "ours");
    ck_assert_uint_eq(*(const unsigned char *)ls_tensor_data(ours), '1');

    ls_tensor *f32 = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1));
    ls_tensor *two = ls_tensor_open(ctx, LS_U8, LS_SHAPE(2));
    expect_failure(ls_tensor_file_read(file, "ours", f32), ctx, LS_ERR_TYPE,
                   "is U8 [1], expected F32 [1]");
    expect_failure(ls_tensor_file_read(file, "ours", two), ctx, LS_ERR_SHAPE,
                   "is U8 [1], expected U8 [2]");
    expect_failure(ls_tensor_file_read(file, "absent", two), ctx, LS_ERR_NOT_FOUND,
                   "no tensor 'absent'");
    expect_failure(ls_tensor_file_read(file, "new", two), ctx, LS_ERR_UNSUPPORTED, "F4_E2M1");
    ck_assert_int_eq(ls_tensor_file_read(file, "ours", NULL), LS_ERR_EARLIER);

    /* truncated while it is open */
    ck_assert_int_eq(truncate("x", 100), 0);
    ck_assert_int_eq(ls_tensor_file_read(file, "ours", ours), LS_ERR_IO);
    ck_assert_str_eq(ls_context_message(ctx), "reading 'x': truncated while it was open");
    ls_context_clear_error(ctx);
    leave();
}
END_TEST

#define TENSOR(name, dtype, shape, begin, end)                                                     \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
    "]}"

START_TEST(wrong_files_are_refused)
{
    enter();
    static const struct {
        const char *header;
        size_t data_bytes;
        const char *message; /* NULL: the file is right */
    } cases[] = {
        { "{" TENSOR("a", "U8", "[4]", 0, 4) "}", 4, NULL },
        { "{}", 0, NULL },
        { "{} \t\n\r", 0, NULL },
        { "{\"__metadata__\":{}}", 0, NULL },
        { "{" TENSOR("a", "U8", "[0]", 0, 0) "," TENSOR("b", "U8", "[1]", 0,
                                                        1) "," TENSOR("c", "U8", "[0]", 1, 1) "}",
          1, NULL },
        { "{" TENSOR("b", "U8", "[1]", 1, 2) "," TENSOR("a", "U8", "[1]", 0, 1) "}", 2, NULL },
        { "{}", 1, "tensors end at byte 10 of 11" },
        { "{" TENSOR("a", "U8", "[4]", 0, 4) "}", 5, "tensors end at" },
        { "{" TENSOR("a", "U8", "[4]", 0, 4) "}", 3, "0 <= begin <= end <= 3" },
        { "{" TENSOR("a", "U8", "[1]", 1, 2) "}", 2, "'a' begins at byte" },
        { "{" TENSOR("a", "U8", "[1]", 0, 1) "," TENSOR("b", "U8", "[1]", 2, 3) "}", 3,
          "'b' begins at byte" },
        { "{" TENSOR("a", "U8", "[2]", 0, 2) "," TENSOR("b", "U8", "[2]", 1, 3) "}", 3,
          "'b' begins at byte" },
        { "{" TENSOR("a", "U8", "[1]", 0, 1) "," TENSOR("b", "U8", "[1]", 0, 1) "}", 1,
          "begins at byte" },
        { "{" TENSOR("a", "F32", "[4]", 0, 4) "}", 4, "4 elements of F32 in 4 bytes" },
        { "{" TENSOR("a", "F64", "[4]", 0, 4) "}", 4, "4 elements of F64 in 4 bytes" },
        { "{" TENSOR("a", "U8", "[4]", 4, 0) "}", 4, "begin <= end" },
        { "{" TENSOR("a", "U8", "[4]", -1, 3) "}", 4, "0 <= begin" },
        { "{" TENSOR("a", "U8", "[4]", 0.0, 4) "}", 4, "0 <= begin" },
        { "{" TENSOR("a", "U8", "[4]", 0, 4.0) "}", 4, "0 <= begin" },
        { "{" TENSOR("a", "U8", "[4]", "0", 4) "}", 4, "0 <= begin" },
        { "{" TENSOR("a", "U8", "[-4]", 0, 4) "}", 4, "dimension 0 is no number" },
        { "{" TENSOR("a", "U8", "[2,2.0]", 0, 4) "}", 4, "dimension 1 is no number" },
        { "{" TENSOR("a", "U8", "[null]", 0, 4) "}", 4, "dimension 0 is no number" },
        { "{" TENSOR("a", "U8", "4", 0, 4) "}", 4, "expected a dtype, a shape" },
        { "{" TENSOR("a", "U8", "[4294967296,4294967296]", 0, 0) "}", 0, "more than 2^64" },
        { "{" TENSOR("a", "F32", "[4611686018427387904]", 0, 0) "}", 0, "in 0 bytes" },
        { "{" TENSOR("a", "U8", "[9223372036854775808]", 0, 0) "}", 0, "header: too big integer" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "two data_offsets" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, "two data" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "two data_offsets" },
        { "{\"a\":{\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "expected a dtype" },
        { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "expected a dtype" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1,
          "nothing else" },
        { "{\"a\":7}", 0, "expected a dtype" },
        { "{\"a\":[]}", 0, "expected a dtype" },
        { "{\"a\":null}", 0, "expected a dtype" },
        { "{" TENSOR("a", "U8", "[1]", 0, 1) "," TENSOR("a", "U8", "[1]", 0, 1) "}", 1,
          "duplicate object key" },
        { "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "duplicate object key" },
        { "{\"__metadata__\":{\"k\":\"v\",\"k\":\"v\"}}", 0, "duplicate object key" },
        { "{\"__metadata__\":{\"k\":1}}", 0, "metadata 'k' is no text" },
        { "{\"__metadata__\":{\"k\":{}}}", 0, "metadata 'k' is no text" },
        { "{\"__metadata__\":[]}", 0, "is no object" },
        { "{\"__metadata__\":null}", 0, "is no object" },
        { "{\"\xff\":{}}", 0, "unable to decode byte 0xff" },
        { "{\"\\u0000\":{}}", 0, "NUL byte in object key" },
        { "{\"\\ud800\":{}}", 0, "Unicode" },
        { "{}x", 0, "end of file expected" },
        { "{", 0, "header of 1 bytes" },
        { "[]", 0, "does not begin with '{'" },
        { " {}", 0, "does not begin with '{'" },
        { "{]", 0, "header:" },
        { "{\"a\"", 0, "header:" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_file("x", -1, cases[i].header, strlen(cases[i].header), "12345678",
                 cases[i].data_bytes);
        ls_tensor_file *file = ls_tensor_file_open(ctx, "x");
        if (!cases[i].message) {
            ck_assert_msg(file, "case %zu: %s", i, ls_context_message(ctx));
            ls_tensor_file_close(&file);
            continue;
        }
        ck_assert_msg(!file, "case %zu was opened", i);
        expect_error(ctx, LS_ERR_FORMAT, cases[i].message, "'x' is no safetensors file: ");
    }
    leave();
}
END_TEST

START_TEST(names_files_of_other_kinds)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *kind;
    } cases[] = {
        { "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", 50, "a Git LFS pointer" },
        { "<!DOCTYPE html><html></html>", 28, "a web page" },
        { "\x1f\x8b\x08", 3, "compressed by gzip" },
        { "\x89HDF\r\n\x1a\n", 8, "an HDF5 file" },
        { "\x08\x07\x12\x07pytorch", 11, "an ONNX file; its weights can't be read" },
        { "\x08\x0a\x3a\x02\x12\x00", 6, "an ONNX file" },
        { "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22, "an empty zip archive" },
    };
    enter();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        FILE *out = fopen("x", "w");
        fwrite(cases[i].bytes, 1, cases[i].n, out);
        fclose(out);
        ck_assert_ptr_null(ls_tensor_file_open(ctx, "x"));
        expect_error(ctx, LS_ERR_FORMAT, cases[i].kind,
                     "'x' is no safetensors or PyTorch file, but ");
    }
    leave();
}
END_TEST

START_TEST(wrong_lengths_and_places_are_refused)
{
    enter();
    static const struct {
        int64_t length;
        const char *message;
    } cases[] = { { 0, "header of 0 bytes" },
                  { 1, "header of 1 bytes" },
                  { 3, "expected 2 to 2" },
                  { 100000001, "header of 100000001 bytes" },
                  { INT64_MAX, "header of 9223372036854775807 bytes" } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put_file("x", cases[i].length, "{}", 2, "", 0);
        ck_assert_ptr_null(ls_tensor_file_open(ctx, "x"));
        expect_error(ctx, LS_ERR_FORMAT, cases[i].message);
    }
    /* the format's limit holds for a file that is large enough, too */
    put_file("x", 100000001, "{}", 2, "", 0);
    ck_assert_int_eq(truncate("x", 200000000), 0);
    ck_assert_ptr_null(ls_tensor_file_open(ctx, "x"));
    expect_error(ctx, LS_ERR_FORMAT, "at most 100000000");

    ck_assert_int_eq(truncate("x", 0), 0);
    ck_assert_ptr_null(ls_tensor_file_open(ctx, "x"));
    expect_error(ctx, LS_ERR_FORMAT, "it has 0 bytes");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, "missing"));
    expect_error(ctx, LS_ERR_NOT_FOUND, "reading 'missing': No such file");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, "."));
    expect_error(ctx, LS_ERR_IO, "reading '.': not a regular file");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, "/dev/zero"));
    expect_error(ctx, LS_ERR_IO, "not a regular file");
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    ck_assert_ptr_null(ls_tensor_file_open(ctx, "pipe"));
    expect_error(ctx, LS_ERR_IO, "not a regular file");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, NULL));
    expect_error(ctx, LS_ERR_INVALID, "path is NULL");
    leave();
}
END_TEST

START_TEST(nesting_bombs_are_refused)
{
    enter();
    enum { DEPTH = 200000 };
    static char bomb[2 * DEPTH + 8];
    for (int kind = 0; kind < 2; kind++) {
        char *at = bomb;
        at += sprintf(at, "{\"a\":");
        for (int i = 0; i < DEPTH / 5; i++) at += sprintf(at, kind ? "{\"a\":" : "[[[[[");
        put_file("x", -1, bomb, (size_t)(at - bomb), "", 0);
        ck_assert_ptr_null(ls_tensor_file_open(ctx, "x"));
        expect_error(ctx, LS_ERR_FORMAT, "maximum parsing depth reached");
    }
    leave();
}
END_TEST

START_TEST(flipped_and_truncated_files_do_no_harm)
{
    enter();
    ck_assert_int_eq(save_samples(ctx, "good"), LS_OK);
    unsigned char bytes[4096];
    const size_t n = get_file("good", bytes, sizeof(bytes));
    uint64_t header_bytes;
    memcpy(&header_bytes, bytes, 8);
    FILE *file = fopen("bad", "wb+");
    setbuf(file, NULL);
    fwrite(bytes, 1, n, file);
    ck_assert(try_file("bad"));
    int n_opened = 0;
    for (size_t i = 0; i < 8 + header_bytes; i++) {
        for (int bit = 0; bit < 8; bit++) {
            fseek(file, (long)i, SEEK_SET);
            fputc(bytes[i] ^ 1 << bit, file);
            n_opened += try_file("bad"); /* another name or padding is no harm */
        }
        fseek(file, (long)i, SEEK_SET);
        fputc(bytes[i], file);
    }
    ck_assert_int_lt(n_opened, (int)header_bytes * 8 / 4);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(truncate("bad", (off_t)(n - 1 - i)), 0);
        ck_assert(!try_file("bad"));
    }
    fclose(file);
    leave();
}
END_TEST

START_TEST(every_allocation_fails_in_turn)
{
    enter();
    ck_assert_int_eq(save_samples(ctx, "a"), LS_OK);
    for (int64_t fail_at = 1;; fail_at++) {
        failing_allocator a;
        failing_allocator_init(&a, fail_at);
        ls_context *small =
            ls_context_open(&(ls_context_config){ .allocator = &a.allocator, .threads = 1 });
        if (small) {
            save_samples(small, "a");
            ls_tensor_file *file = ls_tensor_file_open(small, "a");
            ls_tensor_file_load(file, "F32");
            const ls_status status = ls_context_status(small);
            ck_assert_msg(status == (failing_allocator_failed(&a) ? LS_ERR_MEMORY : LS_OK), "%s",
                          ls_context_message(small));
        }
        ls_context_close(&small);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        ck_assert_int_eq(count_files(), 1);
        check_samples(ctx, "a"); /* whole whatever happened */
        if (!failing_allocator_failed(&a)) break;
    }
    leave();
}
END_TEST

/* The JSON library takes its memory from the C library, unless told otherwise. */
static int64_t json_requests, json_fail_at;

static void *json_allocate(size_t bytes)
{
    return ++json_requests == json_fail_at ? NULL : malloc(bytes);
}

START_TEST(every_allocation_of_json_fails_in_turn)
{
    enter();
    ck_assert_int_eq(save_samples(ctx, "a"), LS_OK);
    for (json_fail_at = 1;; json_fail_at++) {
        json_requests = 0;
        json_set_alloc_funcs(json_allocate, free);
        const ls_status saved = save_samples(ctx, "a");
        expect_error(ctx, saved, "");
        ls_tensor_file *file = ls_tensor_file_open(ctx, "a");
        ls_tensor_file_close(&file);
        const ls_status read = ls_context_status(ctx);
        ls_context_clear_error(ctx);
        json_set_alloc_funcs(malloc, free);
        ck_assert(saved == LS_OK || saved == LS_ERR_MEMORY || saved == LS_ERR_INVALID);
        /* jansson takes some of its failed requests for errors in the text */
        ck_assert(read == LS_OK || read == LS_ERR_MEMORY || read == LS_ERR_FORMAT);
        ck_assert_int_eq(count_files(), 1);
        check_samples(ctx, "a");
        if (json_requests < json_fail_at) break;
    }
    leave();
}
END_TEST

TEST_PROGRAM(safetensors)
{
    return RUN_SUITE("safetensors", round_trip, larger_than_one_piece, layout_is_the_formats,
                     headers_are_padded, nothing_can_be_saved_too, saving_misuse,
                     foreign_types_can_be_listed_but_not_loaded, wrong_files_are_refused,
                     names_files_of_other_kinds, wrong_lengths_and_places_are_refused,
                     nesting_bombs_are_refused, flipped_and_truncated_files_do_no_harm,
                     every_allocation_fails_in_turn, every_allocation_of_json_fails_in_turn);
}
