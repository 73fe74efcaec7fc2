/* Eager tensors, on the CPU and on a device whose memory the host cannot read. */
#include "../backend/fake_backend.h"
#include "tensor/tensor.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <math.h>
#include <string.h>

static ls_context *open_cpu(const ls_context_config *config)
{
    return ls_context_open(config);
}

static ls_context *(*const openers[])(const ls_context_config *config) = { open_cpu,
                                                                           fake_context_open };
enum { N_OPENERS = sizeof(openers) / sizeof(openers[0]) };

static ls_context *ctx;

/* The body of a test for each kind of device. */
static void on_each_device(void (*body)(void))
{
    for (int i = 0; i < N_OPENERS; i++) {
        ctx = openers[i](&(ls_context_config){ .threads = 2, .seed = 5 });
        ck_assert_int_eq(ls_context_status(ctx), LS_OK);
        body();
        ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
        ls_context_close(&ctx);
    }
}

static void body_open_and_transfer(void)
{
    ls_tensor *zeros = ls_tensor_open(ctx, LS_I32, LS_SHAPE(2, 3));
    ck_assert_int_eq(ls_tensor_dtype(zeros), LS_I32);
    ck_assert(ls_shape_equal(ls_tensor_shape(zeros), &LS_SHAPE(2, 3)));
    ck_assert_int_eq(ls_tensor_element_count(zeros), 6);
    ck_assert_uint_eq(ls_tensor_bytes(zeros), 24);
    int32_t host[6] = { 9, 9, 9, 9, 9, 9 };
    ck_assert_int_eq(ls_tensor_read(zeros, host, sizeof(host)), LS_OK);
    for (int i = 0; i < 6; i++) ck_assert_int_eq(host[i], 0);

    const int32_t numbers[6] = { 1, -2, 3, -4, 5, -6 };
    ls_tensor *tensor = ls_tensor_from_data(ctx, LS_I32, LS_SHAPE(2, 3), numbers);
    ck_assert_int_eq(ls_tensor_read(tensor, host, sizeof(host)), LS_OK);
    ck_assert_mem_eq(host, numbers, sizeof(host));
    ck_assert_int_eq(ls_tensor_write(zeros, numbers, sizeof(numbers)), LS_OK);
    memset(host, 0, sizeof(host));
    ck_assert_int_eq(ls_tensor_read(zeros, host, sizeof(host)), LS_OK);
    ck_assert_mem_eq(host, numbers, sizeof(host));
    if (ctx->device->backend->host_memory) {
        ck_assert_mem_eq(ls_tensor_data(tensor), numbers, sizeof(host));
        ck_assert_ptr_eq(ls_tensor_data_const(tensor), ls_tensor_data(tensor));
    } else {
        ck_assert_ptr_null(ls_tensor_data(tensor));
        ck_assert_ptr_null(ls_tensor_data_const(tensor));
    }

    ls_tensor *empty = ls_tensor_open(ctx, LS_F32, LS_SHAPE(4, 0));
    ck_assert_int_eq(ls_tensor_element_count(empty), 0);
    ck_assert_int_eq(ls_tensor_read(empty, NULL, 0), LS_OK);
    ck_assert_int_eq(ls_tensor_fill(empty, 1), LS_OK);
    ck_assert_ptr_nonnull(ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(0), NULL));

    const int64_t n_blocks = ls_context_memory(ctx).n_blocks;
    ls_tensor_close(&tensor);
    ck_assert_ptr_null(tensor);
    ck_assert_int_eq(ls_context_memory(ctx).n_blocks, n_blocks - 1);
}

START_TEST(open_and_transfer)
{
    on_each_device(body_open_and_transfer);
}
END_TEST

static void body_misuse(void)
{
    char host[64] = { 0 };
    ls_difference difference;
    ls_tensor *a = ls_tensor_open(ctx, LS_F32, LS_SHAPE(2, 3));
    ls_tensor *b = ls_tensor_open(ctx, LS_F32, LS_SHAPE(3, 2));
    ls_tensor *c = ls_tensor_open(ctx, LS_I32, LS_SHAPE(2, 3));
    ck_assert_ptr_null(ls_tensor_open(ctx, (ls_dtype)42, LS_SHAPE(1)));
    expect_error(ctx, LS_ERR_TYPE, "no data type 42");
    ck_assert_ptr_null(ls_tensor_open(ctx, LS_F32, LS_SHAPE(2, -3)));
    expect_error(ctx, LS_ERR_SHAPE, "shape [2,-3]");
    ck_assert_ptr_null(ls_tensor_open(ctx, LS_F32, (ls_shape){ .n_dims = 7 }));
    expect_error(ctx, LS_ERR_SHAPE, "7 dimensions");
    ck_assert_ptr_null(ls_tensor_open(ctx, LS_I64, LS_SHAPE(INT64_MAX / 4)));
    expect_error(ctx, LS_ERR_SHAPE, "fewer than 2^63 bytes");
    ck_assert_ptr_null(ls_tensor_open(ctx, LS_U8, LS_SHAPE(INT64_MAX)));
    expect_error(ctx, LS_ERR_MEMORY, "U8 [9223372036854775807]: out of device memory");
    ck_assert_ptr_null(ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(1), NULL));
    expect_error(ctx, LS_ERR_INVALID, "data is NULL");
    expect_failure(ls_tensor_read(a, host, 23), ctx, LS_ERR_INVALID,
                   "got 23 bytes, the tensor has 24");
    expect_failure(ls_tensor_read(a, NULL, 24), ctx, LS_ERR_INVALID, "host memory is NULL");
    expect_failure(ls_tensor_write(a, host, 25), ctx, LS_ERR_INVALID,
                   "got 25 bytes, the tensor has 24");
    expect_failure(ls_tensor_write(a, NULL, 24), ctx, LS_ERR_INVALID, "host memory is NULL");
    expect_failure(ls_tensor_copy(a, b), ctx, LS_ERR_SHAPE, "shapes [2,3] and [3,2]");
    expect_failure(ls_tensor_copy(a, c), ctx, LS_ERR_TYPE, "F32 and I32");
    expect_failure(ls_tensor_cast(a, b), ctx, LS_ERR_SHAPE, "shapes [2,3] and [3,2]");
    expect_failure(ls_tensor_compare(a, c, &difference), ctx, LS_ERR_TYPE, "F32 and I32");
    expect_failure(ls_tensor_compare(a, a, NULL), ctx, LS_ERR_INVALID, "out is NULL");
    expect_failure(ls_tensor_digest(a, NULL), ctx, LS_ERR_INVALID, "out is NULL");
    expect_failure(ls_tensor_random_uniform(c, 0, 0, 1), ctx, LS_ERR_TYPE, "I32, expected F32");
    expect_failure(ls_tensor_random_normal(c, 0, 0, 1), ctx, LS_ERR_TYPE, "I32, expected F32");
    expect_failure(ls_tensor_random_uniform(a, 0, 1, 1), ctx, LS_ERR_INVALID, "low 1, high 1");
    expect_failure(ls_tensor_random_uniform(a, 0, 0, NAN), ctx, LS_ERR_INVALID, "high nan");
    expect_failure(ls_tensor_random_uniform(a, 0, -3e38f, 3e38f), ctx, LS_ERR_INVALID,
                   "finite difference");
    expect_failure(ls_tensor_random_normal(a, 0, 0, -1), ctx, LS_ERR_INVALID, "std -1");
    expect_failure(ls_tensor_random_normal(a, 0, INFINITY, 1), ctx, LS_ERR_INVALID, "mean inf");

    ls_context *other = ls_context_open(NULL);
    ls_tensor *foreign = ls_tensor_open(other, LS_F32, LS_SHAPE(2, 3));
    expect_failure(ls_tensor_copy(a, foreign), ctx, LS_ERR_MISMATCH, "different contexts");
    ls_context_close(&other);
}

START_TEST(misuse)
{
    on_each_device(body_misuse);
}
END_TEST

/* Fills a tensor of `dtype` and reads it back through a cast to f32 and as it is. */
static void check_fill(ls_dtype dtype, double value, const void *wanted)
{
    enum { N = 3001 }; /* beyond one pattern */
    static unsigned char host[N * 8];
    const size_t bytes = ls_dtype_bytes(dtype);
    ls_tensor *tensor = ls_tensor_open(ctx, dtype, LS_SHAPE(N));
    ck_assert_int_eq(ls_tensor_fill(tensor, value), LS_OK);
    ck_assert_int_eq(ls_tensor_read(tensor, host, N * bytes), LS_OK);
    for (int i = 0; i < N; i++) ck_assert_mem_eq(host + (size_t)i * bytes, wanted, bytes);
    ls_tensor_close(&tensor);
}

static void body_fill(void)
{
    check_fill(LS_F32, 1.5, &(float){ 1.5f });
    check_fill(LS_F32, -0.0, &(float){ -0.0f });
    check_fill(LS_F32, 1e300, &(float){ INFINITY });
    check_fill(LS_F16, 1.0, &(uint16_t){ 0x3c00 });
    check_fill(LS_F16, 1e9, &(uint16_t){ 0x7c00 });
    check_fill(LS_BF16, -2.0, &(uint16_t){ 0xc000 });
    /* just above the middle of two neighbours: rounding by way of f32 would hit the middle */
    check_fill(LS_F16, 1.0 + 0x1p-11 + 0x1p-40, &(uint16_t){ 0x3c01 });
    check_fill(LS_F16, 1.0 + 0x3p-11 - 0x1p-40, &(uint16_t){ 0x3c01 });
    check_fill(LS_BF16, 1.0 + 0x1p-8 + 0x1p-40, &(uint16_t){ 0x3f81 });
    check_fill(LS_F16, -(0x1p-25 + 0x1p-60), &(uint16_t){ 0x8001 });
    check_fill(LS_I64, -3.99, &(int64_t){ -3 });
    check_fill(LS_I64, 1e30, &(int64_t){ INT64_MAX });
    check_fill(LS_I64, -1e30, &(int64_t){ INT64_MIN });
    check_fill(LS_I64, NAN, &(int64_t){ 0 });
    check_fill(LS_I64, -9007199254740993.0, &(int64_t){ -9007199254740992 });
    check_fill(LS_I32, 2147483646.9, &(int32_t){ 2147483646 });
    check_fill(LS_I32, 3e9, &(int32_t){ INT32_MAX });
    check_fill(LS_I32, -3e9, &(int32_t){ INT32_MIN });
    check_fill(LS_U8, 255.9, &(uint8_t){ 255 });
    check_fill(LS_U8, 256, &(uint8_t){ 255 });
    check_fill(LS_U8, -1, &(uint8_t){ 0 });
}

START_TEST(fill)
{
    on_each_device(body_fill);
}
END_TEST

static void body_copy_and_cast(void)
{
    const float numbers[6] = { 1.75f, -1.75f, 300.0f, 1e10f, NAN, 0.0f };
    ls_tensor *source = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(6), numbers);
    ls_tensor *copy = ls_tensor_open(ctx, LS_F32, LS_SHAPE(6));
    float host[6];
    ck_assert_int_eq(ls_tensor_copy(copy, source), LS_OK);
    ck_assert_int_eq(ls_tensor_read(copy, host, sizeof(host)), LS_OK);
    ck_assert_mem_eq(host, numbers, sizeof(host));
    ck_assert_int_eq(ls_tensor_copy(copy, copy), LS_OK);
    ck_assert_int_eq(ls_tensor_fill(copy, 0), LS_OK);
    ck_assert_int_eq(ls_tensor_cast(copy, source), LS_OK); /* of the same type: a copy */
    ck_assert_int_eq(ls_tensor_read(copy, host, sizeof(host)), LS_OK);
    ck_assert_mem_eq(host, numbers, sizeof(host));

    const int32_t wanted_i32[6] = { 1, -1, 300, INT32_MAX, 0, 0 };
    const uint8_t wanted_u8[6] = { 1, 0, 255, 255, 0, 0 };
    ls_tensor *i32 = ls_tensor_open(ctx, LS_I32, LS_SHAPE(6));
    ls_tensor *u8 = ls_tensor_open(ctx, LS_U8, LS_SHAPE(6));
    int32_t got_i32[6];
    uint8_t got_u8[6];
    ck_assert_int_eq(ls_tensor_cast(i32, source), LS_OK);
    ck_assert_int_eq(ls_tensor_read(i32, got_i32, sizeof(got_i32)), LS_OK);
    ck_assert_mem_eq(got_i32, wanted_i32, sizeof(got_i32));
    ck_assert_int_eq(ls_tensor_cast(u8, source), LS_OK);
    ck_assert_int_eq(ls_tensor_read(u8, got_u8, sizeof(got_u8)), LS_OK);
    ck_assert_mem_eq(got_u8, wanted_u8, sizeof(got_u8));

    /* filling and casting agree for every pair of types */
    static const double values[] = { 0, 1, -1, 2.5, 200, 70000, 1e12, -1e12, 1e-7 };
    for (int to = 0; to < LS_N_DTYPES; to++) {
        for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
            ls_tensor *filled = ls_tensor_open(ctx, (ls_dtype)to, LS_SHAPE(3));
            ls_tensor *cast = ls_tensor_open(ctx, (ls_dtype)to, LS_SHAPE(3));
            ls_tensor *f32 = ls_tensor_open(ctx, LS_F32, LS_SHAPE(3));
            const float value = (float)values[v];
            ls_tensor_fill(f32, value);
            ls_tensor_fill(filled, value);
            ls_tensor_cast(cast, f32);
            ls_difference d;
            ck_assert_int_eq(ls_tensor_compare(filled, cast, &d), LS_OK);
            ck_assert_msg(d.n_different == 0, "%s of %g", ls_dtype_name((ls_dtype)to),
                          (double)value);
            ls_tensor_close(&filled);
            ls_tensor_close(&cast);
            ls_tensor_close(&f32);
        }
    }
}

START_TEST(copy_and_cast)
{
    on_each_device(body_copy_and_cast);
}
END_TEST

static void body_random(void)
{
    enum { N = 50000 };
    static float a[N], b[N];
    ls_tensor *tensor = ls_tensor_open(ctx, LS_F32, LS_SHAPE(N));
    ck_assert_int_eq(ls_tensor_random_uniform(tensor, 3, -1.0f, 3.0f), LS_OK);
    ls_tensor_read(tensor, a, sizeof(a));
    double mean = 0;
    for (int i = 0; i < N; i++) {
        ck_assert(a[i] >= -1.0f && a[i] < 3.0f);
        mean += (double)a[i] / N;
    }
    ck_assert_double_eq_tol(mean, 1.0, 5 * 4 / sqrt(12.0 * N));

    /* an element is a function of seed, draw and number: not of the shape */
    ls_tensor *shorter = ls_tensor_open(ctx, LS_F32, LS_SHAPE(10, 70));
    ls_tensor_random_uniform(shorter, 3, -1.0f, 3.0f);
    ls_tensor_read(shorter, b, 700 * sizeof(float));
    ck_assert_mem_eq(a, b, 700 * sizeof(float));

    /* every bit of draw counts */
    for (int bit = 0; bit < 64; bit++) {
        ls_tensor_random_uniform(shorter, 3 ^ UINT64_C(1) << bit, -1.0f, 3.0f);
        ls_tensor_read(shorter, b, 700 * sizeof(float));
        ck_assert_int_ne(memcmp(a, b, 700 * sizeof(float)), 0);
    }

    /* one rounding up to high must not happen */
    ls_tensor_random_uniform(tensor, 3, 1.0f, nextafterf(1.0f, 2.0f));
    ls_tensor_read(tensor, b, sizeof(b));
    for (int i = 0; i < N; i++) ck_assert_float_eq(b[i], 1.0f);

    ck_assert_int_eq(ls_tensor_random_normal(tensor, 4, 2.0f, 0.5f), LS_OK);
    ls_tensor_read(tensor, b, sizeof(b));
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        sum += ((double)b[i] - 2.0) / 0.5;
        squares += pow(((double)b[i] - 2.0) / 0.5, 2);
    }
    ck_assert_double_eq_tol(sum / N, 0.0, 5 / sqrt(N));
    ck_assert_double_eq_tol(squares / N, 1.0, 5 * sqrt(2.0 / N));
}

START_TEST(random_numbers)
{
    on_each_device(body_random);
}
END_TEST

START_TEST(random_numbers_depend_on_the_seed_only)
{
    ls_digest digests[3];
    for (int i = 0; i < 3; i++) {
        ctx = ls_context_open(&(ls_context_config){ .threads = 1 + i, .seed = i == 2 ? 6 : 5 });
        ls_tensor *tensor = ls_tensor_open(ctx, LS_F32, LS_SHAPE(1000));
        ls_tensor_random_normal(tensor, 0, 0, 1);
        ck_assert_int_eq(ls_tensor_digest(tensor, &digests[i]), LS_OK);
        ls_context_close(&ctx);
    }
    ck_assert(ls_digest_equal(digests[0], digests[1]));
    ck_assert(!ls_digest_equal(digests[0], digests[2]));
    char text[LS_DIGEST_TEXT_SIZE]; /* the same on every machine */
    ls_digest_text(digests[0], text);
    ck_assert_str_eq(text, "3ee84d58f52d607ad16de4804f29b3ee");
}
END_TEST

static void body_compare(void)
{
    enum { N = 10000 };
    static float a[N], b[N];
    for (int i = 0; i < N; i++) a[i] = b[i] = (float)i;
    b[5000] += 3.0f;
    b[7000] -= 4.0f;
    ls_tensor *x = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(N), a);
    ls_tensor *y = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(N), b);
    ls_difference d;
    ck_assert_int_eq(ls_tensor_compare(x, y, &d), LS_OK);
    ck_assert_int_eq(d.n_different, 2);
    ck_assert_int_eq(d.first, 5000);
    ck_assert_double_eq(d.max_absolute, 4.0);
    double squares = 0;
    for (int i = 0; i < N; i++) squares += (double)b[i] * (double)b[i];
    ck_assert_double_eq_tol(d.relative_l2, 5.0 / sqrt(squares), 1e-15);
    ck_assert_int_eq(ls_tensor_compare(x, x, &d), LS_OK);
    ck_assert(d.n_different == 0 && d.first == -1 && d.max_absolute == 0 && d.relative_l2 == 0);

    static const struct {
        float a[2], b[2];
        int64_t n_different;
        double max_absolute, relative_l2;
    } cases[] = {
        { { 0, 0 }, { 0, 0 }, 0, 0, 0 },
        { { 0, 0 }, { -0.0f, 0 }, 1, 0, 0 }, /* other bits, no distance */
        { { 1, 0 }, { 0, 0 }, 1, 1, INFINITY },
        { { 0, 0 }, { 1, 0 }, 1, 1, 1 },
        { { NAN, 1 }, { NAN, 1 }, 0, 0, 0 },
        { { NAN, 1 }, { 1, 1 }, 1, INFINITY, INFINITY },
        { { 1, 1 }, { NAN, 1 }, 1, INFINITY, INFINITY },
        { { INFINITY, 1 }, { INFINITY, 1 }, 0, 0, 0 },
        { { INFINITY, 1 }, { -INFINITY, 1 }, 1, INFINITY, INFINITY },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ls_tensor *p = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(2), cases[i].a);
        ls_tensor *q = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(2), cases[i].b);
        ck_assert_int_eq(ls_tensor_compare(p, q, &d), LS_OK);
        ck_assert_int_eq(d.n_different, cases[i].n_different);
        ck_assert_int_eq(d.first, cases[i].n_different ? 0 : -1);
        ck_assert_double_eq(d.max_absolute, cases[i].max_absolute);
        ck_assert_double_eq(d.relative_l2, cases[i].relative_l2);
    }

    const int64_t big[2] = { INT64_MAX, INT64_MIN }, near[2] = { INT64_MAX - 1, INT64_MIN };
    ls_tensor *p = ls_tensor_from_data(ctx, LS_I64, LS_SHAPE(2), big);
    ls_tensor *q = ls_tensor_from_data(ctx, LS_I64, LS_SHAPE(2), near);
    ck_assert_int_eq(ls_tensor_compare(p, q, &d), LS_OK);
    ck_assert_double_eq(d.max_absolute, 1.0);
    ck_assert_int_eq(d.n_different, 1);
}

START_TEST(compare)
{
    on_each_device(body_compare);
}
END_TEST

static ls_digest digest_of(ls_dtype dtype, ls_shape shape, const void *data)
{
    ls_tensor *tensor = ls_tensor_from_data(ctx, dtype, shape, data);
    ls_digest digest;
    ck_assert_int_eq(ls_tensor_digest(tensor, &digest), LS_OK);
    ls_tensor_close(&tensor);
    return digest;
}

static void body_digest(void)
{
    const float numbers[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, other[8] = { 1, 2, 3, 4, 5, 6, 8, 7 };
    const ls_digest digest = digest_of(LS_F32, LS_SHAPE(2, 4), numbers);
    ck_assert(ls_digest_equal(digest, digest_of(LS_F32, LS_SHAPE(2, 4), numbers)));
    ck_assert(!ls_digest_equal(digest, digest_of(LS_F32, LS_SHAPE(2, 4), other)));
    ck_assert(!ls_digest_equal(digest, digest_of(LS_F32, LS_SHAPE(4, 2), numbers)));
    ck_assert(!ls_digest_equal(digest, digest_of(LS_F32, LS_SHAPE(2, 4, 1), numbers)));
    ck_assert(!ls_digest_equal(digest, digest_of(LS_I32, LS_SHAPE(2, 4), numbers)));
    ck_assert(!ls_digest_equal(digest_of(LS_F32, LS_SHAPE(0), numbers),
                               digest_of(LS_F32, LS_SHAPE(0, 0), numbers)));
    uint32_t nans[3][2] = { { 0x7fc00000, 0x3f800000 },
                            { 0xffc00000, 0x3f800000 },
                            { 0x7fc12345, 0x3f800000 } };
    for (int i = 1; i < 3; i++) {
        ck_assert(ls_digest_equal(digest_of(LS_F32, LS_SHAPE(2), nans[0]),
                                  digest_of(LS_F32, LS_SHAPE(2), nans[i])));
        ck_assert(!ls_digest_equal(digest_of(LS_I32, LS_SHAPE(2), nans[0]),
                                   digest_of(LS_I32, LS_SHAPE(2), nans[i])));
    }
    char text[LS_DIGEST_TEXT_SIZE];
    ck_assert_str_eq(ls_digest_text((ls_digest){ { 0xabc, 1 } }, text),
                     "0000000000000abc0000000000000001");
}

START_TEST(digest)
{
    on_each_device(body_digest);
}
END_TEST

static void check_format(ls_dtype dtype, ls_shape shape, const void *data, const char *wanted)
{
    char text[1000];
    ls_tensor *tensor = ls_tensor_from_data(ctx, dtype, shape, data);
    ck_assert_int_eq(ls_tensor_format(tensor, text, sizeof(text)), (int)strlen(wanted));
    ck_assert_str_eq(text, wanted);
    ck_assert_int_eq(ls_tensor_format(tensor, NULL, 0), (int)strlen(wanted));
    char small[12];
    ck_assert_int_eq(ls_tensor_format(tensor, small, sizeof(small)), (int)strlen(wanted));
    ck_assert_uint_eq(strlen(small), strlen(wanted) < 11 ? strlen(wanted) : 11);
    ck_assert_int_eq(strncmp(small, wanted, 11), 0);
    ls_tensor_close(&tensor);
}

static void body_format(void)
{
    const float numbers[6] = { 0.5f, -1, 1e-9f, NAN, INFINITY, 1234567 };
    const uint8_t bytes[24] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 255 };
    check_format(LS_F32, LS_SHAPE(2, 3), numbers,
                 "F32 [2,3]\n[[0.5, -1, 1e-09],\n [nan, inf, 1.23457e+06]]");
    check_format(LS_U8, LS_SHAPE(7), bytes, "U8 [7]\n[0, 1, 2, ..., 4, 5, 6]");
    check_format(LS_U8, LS_SHAPE(6), bytes, "U8 [6]\n[0, 1, 2, 3, 4, 5]");
    check_format(LS_U8, LS_SHAPE(8, 1, 3), bytes,
                 "U8 [8,1,3]\n[[[0, 1, 2]],\n [[3, 4, 5]],\n [[6, 7, 8]],\n ...,\n "
                 "[[15, 16, 17]],\n [[18, 19, 20]],\n [[21, 22, 255]]]");
    check_format(LS_I64, (ls_shape){ 0 }, &(int64_t){ INT64_MAX }, "I64 []\n9223372036854775807");
    check_format(LS_F16, (ls_shape){ 0 }, &(uint16_t){ 0x3c00 }, "F16 []\n1");
    check_format(LS_F32, LS_SHAPE(2, 0), NULL, "F32 [2,0]\n[[],\n []]");
}

START_TEST(format)
{
    on_each_device(body_format);
}
END_TEST

START_TEST(views_borrow_their_memory)
{
    ctx = ls_context_open(NULL);
    float numbers[6] = { 1, 2, 3, 4, 5, 6 };
    ls_tensor view, *pointer = &view;
    ls__tensor_view(ctx, &view, LS_F32, LS_SHAPE(3, 2), numbers);
    ck_assert_int_eq(ls_tensor_element_count(&view), 6);
    ck_assert_uint_eq(ls_tensor_bytes(&view), sizeof(numbers));
    ck_assert_int_eq(ls_tensor_fill(&view, 7), LS_OK);
    ck_assert_float_eq(numbers[5], 7.0f);
    ls_tensor_close(&pointer); /* lies inside another object: nothing is freed */
    ck_assert_ptr_null(pointer);
    ls_context_close(&ctx);
}
END_TEST

/* Everything that calls the device, on one pair of tensors. */
static ls_status all_calls(void)
{
    float host[4] = { 1, 2, 3, 4 };
    ls_difference difference;
    ls_digest digest_out;
    char text[100];
    ls_tensor *a = ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(2, 2), host);
    ls_tensor *b = ls_tensor_open(ctx, LS_I32, LS_SHAPE(2, 2));
    ls_tensor *c = ls_tensor_open(ctx, LS_F32, LS_SHAPE(2, 2));
    ls_tensor_cast(b, a);
    ls_tensor_copy(c, a);
    ls_tensor_fill(b, 2);
    ls_tensor_random_normal(c, 0, 0, 1);
    ls_tensor_compare(a, c, &difference);
    ls_tensor_digest(a, &digest_out);
    ls_tensor_format(b, text, sizeof(text));
    ls_tensor_read(a, host, sizeof(host));
    return ls_context_status(ctx);
}

START_TEST(a_failing_device_is_reported)
{
    for (int64_t fail_at = 1;; fail_at++) {
        ctx = fake_context_open(NULL);
        fake_device_of(ctx)->fail_at = fail_at;
        const ls_status status = all_calls();
        const bool failed = fake_device_of(ctx)->n_calls >= fail_at;
        ck_assert_int_eq(status, failed ? LS_ERR_DEVICE : LS_OK);
        ls_context_close(&ctx);
        if (!failed) break;
    }
}
END_TEST

START_TEST(every_allocation_fails_in_turn)
{
    for (int k = 0; k < N_OPENERS; k++) {
        for (int64_t fail_at = 1;; fail_at++) {
            failing_allocator a;
            failing_allocator_init(&a, fail_at);
            ctx = openers[k](&(ls_context_config){ .allocator = &a.allocator, .threads = 2 });
            if (ctx) {
                const ls_status status = all_calls();
                ck_assert_int_eq(status, failing_allocator_failed(&a) ? LS_ERR_MEMORY : LS_OK);
            }
            ls_context_close(&ctx);
            ck_assert_int_eq(failing_allocator_live(&a), 0);
            if (!failing_allocator_failed(&a)) break;
        }
    }
}
END_TEST

TEST_PROGRAM(tensor)
{
    return RUN_SUITE("tensor", open_and_transfer, misuse, fill, copy_and_cast, random_numbers,
                     random_numbers_depend_on_the_seed_only, compare, digest, format,
                     views_borrow_their_memory, a_failing_device_is_reported,
                     every_allocation_fails_in_turn);
}
