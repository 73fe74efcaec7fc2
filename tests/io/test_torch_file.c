/* test_torch_file.c: PyTorch files that torch.save wrote (tests/reference/torch_files.py), and
 * hostile ones, of which nothing may be executed and little allocated. */
#include "../failing_allocator.h"
#include "../suite.h"

#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>
#include <zip.h>

#define FIXTURES LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/"

static ls_context *ctx;
static char *folder;

static void setup(void)
{
    ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    folder = new_folder();
}

static void teardown(void)
{
    ls_context_close(&ctx);
    remove_folder(folder);
}

/* ---- Files of torch.save ---- */

/* The value of element i in the scripts. */
static float number(int64_t i)
{
    return (float)i / 4 - 3;
}

/* Compares a tensor with the element numbers i0 + i * step0 + j * step1 of its rows and columns. */
static void expect_rows(ls_tensor_file *file, const char *name, ls_shape shape, int64_t first,
                        int64_t row_step, int64_t column_step)
{
    ls_tensor *tensor = ls_tensor_file_load(file, name);
    expect_ok(ctx);
    ck_assert_msg(ls_shape_equal(ls_tensor_shape(tensor), &shape), "%s", name);
    const float *data = ls_tensor_data_const(tensor);
    const int64_t columns = shape.dims[shape.n_dims - 1];
    for (int64_t i = 0; i < ls_tensor_element_count(tensor); i++)
        ck_assert_msg(data[i] == number(first + i / columns * row_step + i % columns * column_step),
                      "%s: element %d is %g", name, (int)i, (double)data[i]);
}

START_TEST(reads_strides_and_views)
{
    ls_tensor_file *file = ls_tensor_file_open(ctx, FIXTURES "layouts.pt");
    expect_ok(ctx);
    expect_rows(file, "base", LS_SHAPE(4, 6), 0, 6, 1);
    expect_rows(file, "rows", LS_SHAPE(2, 6), 6, 6, 1);
    expect_rows(file, "columns", LS_SHAPE(4, 3), 1, 6, 2);
    expect_rows(file, "transposed", LS_SHAPE(6, 4), 0, 1, 6);
    expect_rows(file, "channels_last", LS_SHAPE(2, 3, 4, 5), 0, 5, 1);
    expect_rows(file, "empty", LS_SHAPE(0, 3), 0, 0, 0);
    expect_rows(file, "parameter", LS_SHAPE(3), 0, 0, 1);
    ls_tensor *scalar = ls_tensor_file_load(file, "scalar");
    ck_assert(*(const float *)ls_tensor_data_const(scalar) == 1.5f);
    ck_assert_ptr_null(ls_tensor_file_load(file, "expanded"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "layouts.pt", "'expanded'", "expanded tensor");
    ck_assert_ptr_null(ls_tensor_file_load(file, "seven_dims"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "'seven_dims'", "number of dimensions");
    ck_assert_ptr_null(ls_tensor_file_metadata(file, "epoch"));
    ck_assert_int_eq(ls_tensor_file_tensor_count(file), 10);
}
END_TEST

START_TEST(reads_types)
{
    static const struct {
        const char *name;
        ls_dtype dtype;
    } known[] = { { "f32", LS_F32 },   { "f16", LS_F16 },   { "bf16", LS_BF16 },
                  { "int64", LS_I64 }, { "int32", LS_I32 }, { "uint8", LS_U8 } };
    static const char *const unknown[] = { "f64", "int16", "int8", "bool" };
    ls_tensor_file *file = ls_tensor_file_open(ctx, FIXTURES "types.pt");
    expect_ok(ctx);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ls_tensor *tensor = ls_tensor_file_load(file, known[i].name);
        ck_assert_int_eq(ls_tensor_dtype(tensor), known[i].dtype);
        ls_tensor *f32 = ls_tensor_open(ctx, LS_F32, LS_SHAPE(5));
        ck_assert_int_eq(ls_tensor_cast(f32, tensor), LS_OK);
        const float *data = ls_tensor_data_const(f32);
        const bool is_float = known[i].dtype <= LS_F16;
        for (int k = 0; k < 5; k++) ck_assert(data[k] == (is_float ? number(k) : (float)k));
    }
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        ck_assert(!ls_tensor_file_find(file, unknown[i], NULL));
        ck_assert_ptr_null(ls_tensor_file_load(file, unknown[i]));
        expect_error(ctx, LS_ERR_UNSUPPORTED, unknown[i], "unsupported type");
    }
}
END_TEST

START_TEST(finds_state_dicts)
{
    static const struct {
        const char *file, *tensor;
        int count;
    } files[] = { { "state_dict.pt", "conv1.weight", 10 },
                  { "torch2.pt", "conv1.weight", 10 },
                  { "nested.pt", "module.conv1.weight", 10 },
                  { "model.pt", "fc.bias", 10 },
                  { "before_1.6.pt", "conv1.weight", 10 },
                  { "checkpoint_before_1.6.pt", "_orig_mod.fc.bias", 10 },
                  { "checkpoint.pt", "module.fc.bias", 11 }, /* of model_ema */
                  { "unusual_key.pt", "conv1.weight", 10 },
                  { "shared.pt", "conv1.weight", 10 },
                  { "mean_inside.pt", "conv1.weight", 10 },
                  { "module.pt", "1.running_var", 7 } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        snprintf(path, sizeof path, FIXTURES "%s", files[i].file);
        ls_tensor_file *file = ls_tensor_file_open(ctx, path);
        expect_ok(ctx);
        ck_assert_int_eq(ls_tensor_file_tensor_count(file), files[i].count);
        ck_assert(ls_tensor_file_find(file, files[i].tensor, NULL));
        ls_tensor_file_close(&file);
    }
}
END_TEST

START_TEST(refuses_other_files)
{
    ck_assert_ptr_null(ls_tensor_file_open(ctx, FIXTURES "whole_model.pt"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "whole_model.pt",
                 "an object of the class 'torch.nn.modules.linear.Linear'",
                 "If you trust the file, whose code this executes, ",
                 "torch.load(sys.argv[1], map_location='cpu', weights_only=False).state_dict(),");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, FIXTURES "model_object.pt"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "model_object.pt",
                 "'torch.nn.modules.linear.Linear' at the key 'model'",
                 "weights_only=False)['model'].state_dict(),");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, FIXTURES "script.pt"));
    expect_error(ctx, LS_ERR_UNSUPPORTED, "script.pt", "is a TorchScript archive",
                 "torch.jit.load(sys.argv[1], ");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, FIXTURES "no_tensor.pt"));
    expect_error(ctx, LS_ERR_FORMAT, "no_tensor.pt", "names no tensor");
    ck_assert_ptr_null(ls_tensor_file_open(ctx, FIXTURES "two_nets.pt"));
    expect_error(ctx, LS_ERR_MISMATCH, "two_nets.pt",
                 "'student' (10 tensors), 'teacher' (10 tensors)");
}
END_TEST

/* ---- Hostile files ---- */

typedef struct entry {
    const char *name;
    const void *bytes;
    size_t n;
    bool compressed;
} entry;

static const char *write_zip(int n, const entry *entries)
{
    int code;
    const char *path = path_in(folder, "x.pt");
    zip_t *zip = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    ck_assert_ptr_nonnull(zip);
    for (int i = 0; i < n; i++) {
        const zip_int64_t at = zip_file_add(
            zip, entries[i].name, zip_source_buffer(zip, entries[i].bytes, entries[i].n, 0), 0);
        ck_assert(at >= 0);
        zip_set_file_compression(zip, (zip_uint64_t)at,
                                 entries[i].compressed ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    ck_assert_int_eq(zip_close(zip), 0);
    return path;
}

static const unsigned char STORAGE[16];

/* A file with this pickle and a storage "0" of 4 floats. */
static ls_tensor_file *open_pickle(const void *pickle, size_t n)
{
    const entry entries[] = { { "x/data.pkl", pickle, n, false },
                              { "x/data/0", STORAGE, sizeof STORAGE, false } };
    return ls_tensor_file_open(ctx, write_zip(2, entries));
}

#define STORAGE_ID(key, count)                                                                     \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" key "X\3\0\0\0cpuK" count "tQ"
#define TENSOR(key, count, offset, sizes, strides)                                                 \
    "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE_ID(key, count) offset sizes strides             \
        "\x89"                                                                                     \
        "ccollections\nOrderedDict\n)RtR"
#define DICT_OF(tensor) "\x80\2}X\1\0\0\0w" tensor "s."

/* Each pickle and a part of the error. */
static const struct {
    const char *bytes;
    size_t n;
    const char *part;
} hostile[] = {
#define CASE(bytes, part)                                                                          \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, part                                                             \
    }
    CASE("\x80\2(X\4\0\0\0trueios\nsystem\n.", "opcode INST at byte 12: 0x69 is not supported"),
    CASE("\x80\2ctorch\nFloatStorage\n)R.", "holds a float, bytes or set, expected a state dict"),
    CASE("\x80\2ccollections\nOrderedDict\n)\x81.", "names no tensor"),
    CASE("\x80\2K\1K\2\x93.", "opcode STACK_GLOBAL at byte 6: found an int, expected a str"),
    CASE("\x80\2K\1)R.", "opcode REDUCE at byte 5: found an int, expected a function or class"),
    CASE("\x80\2}]\x90.", "opcode ADDITEMS at byte 4: the stack has no mark"),
    CASE("\x80\2](\x90.", "opcode ADDITEMS at byte 4: found a list, expected a set"),
    CASE("\x80\2\xff.", "opcode unknown at byte 2: 0xff is not supported"),
    CASE("\x80\6}.", "protocol 6, expected 2 to 5"),
    CASE("\x80\2X\xff\xff\xff\xff.", "4294967295 bytes expected, the pickle has 1 more"),
    CASE("\x80\2}q\1.", "memo entry 1, expected 0 at most"),
    CASE("\x80\2}r\xff\xff\xff\xff.", "memo entry 4294967295"),
    CASE("\x80\2h\0.", "memo entry 0 of 0"),
    CASE("\x80\2R.", "the stack is empty"),
    CASE("\x80\2(}u.", "a key without a value"),
    CASE("\x80\2u.", "the stack has no mark"),
    CASE("\x80\2}(N(Nu.", "a key without a value"),
    CASE("\x80\2NNs.", "the stack is empty"),
    CASE("\x80\2]NNs.", "found a list, expected a dict"),
    CASE("\x80\2}}", "1 bytes expected"),
    CASE("\x80\2}}.", "2 values on the stack"),
    CASE("\x80\2N.", "holds None, expected a state dict"),
    CASE("\x80\2\x8a\x09"
         "12345678.",
         "1 bytes expected"), /* the number includes the opcode STOP */
    CASE("\x80\2ccollections\nOrderedDict", "the line does not end"),
    CASE("\x80\2ccollections\nOrderedDict\nN\x85R.", "malformed arguments of OrderedDict"),
    CASE("\x80\2ccollections\nOrderedDict\n]K\1a\x85R.", "malformed arguments of OrderedDict"),
    CASE("\x80\2ctorch._utils\n_rebuild_tensor_v2\n)R.",
         "malformed arguments of _rebuild_tensor_v2"),
    CASE("\x80\2K\1Q.", "malformed persistent id"),
    CASE(DICT_OF(TENSOR("1", "\4", "K\0", "K\4\x85", "K\1\x85")), "no storage '1'"),
    CASE(DICT_OF(TENSOR("0", "\5", "K\0", "K\4\x85", "K\1\x85")), "16 bytes, expected 5 x 4"),
    CASE(DICT_OF(TENSOR("0", "\4", "K\0", "K\5\x85", "K\1\x85")), "exceed its storage"),
    CASE(DICT_OF(TENSOR("0", "\4", "K\1", "K\4\x85", "K\1\x85")), "exceed its storage"),
    CASE(DICT_OF(TENSOR("0", "\4", "K\0", "K\2\x85", "K\4\x85")), "exceed its storage"),
    CASE(DICT_OF(TENSOR("0", "\4", "K\0", "J\xff\xff\xff\xff\x85", "K\1\x85")), "malformed sizes"),
    CASE(DICT_OF(TENSOR("0", "\4", "K\0", "K\4\x85", "J\xff\xff\xff\xff\x85")), "malformed sizes"),
    CASE(DICT_OF(TENSOR("0", "\4", "J\xff\xff\xff\xff", "K\4\x85", "K\1\x85")),
         "malformed arguments"),
    CASE(DICT_OF(
             TENSOR("0", "\4", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", "K\2\x85", "K\1\x85")),
         "exceed its storage"),
    CASE(DICT_OF(TENSOR("0", "\4", "K\0", "\x8a\x08\0\0\0\0\0\0\0\x7fK\x10\x86", "K\0K\0\x86")),
         "exceed its storage"),
    CASE("\x80\2}"
         "K\1" TENSOR("0", "\4", "K\0", "K\4\x85", "K\1\x85") "s.",
         "names no tensor"),
    CASE(DICT_OF(STORAGE_ID("0", "\4")), "names no tensor"),
    CASE("\x80\2}(X\1\0\0\0w" TENSOR("0", "\4", "K\0", "K\4\x85", "K\1\x85") "X\1\0\0\0w" TENSOR(
             "0", "\4", "K\0", "K\4\x85", "K\1\x85") "u.",
         "two tensors have the name 'w'"),
};

/* Nothing is called: what functions that are not known return is opaque. */
START_TEST(calls_nothing)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *part;
    } cases[] = {
        CASE("\x80\2cposix\nsystem\nX\4\0\0\0true\x85R.", "the class 'posix.system'"),
        CASE("\x80\2c__builtin__\neval\nX\1\0\0\0001\x85R.", "the class '__builtin__.eval'"),
        CASE("\x80\4\x8c\2os\x8c\6system\x93\x8c\4true\x85R.", "the class 'os.system'"),
        CASE("\x80\2cos\nX\n)\x81}b.", "the class 'os.X'"),
        CASE("\x80\4cos\nX\n)}\x92(u}b.", "the class 'os.X'"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_msg(!open_pickle(cases[i].bytes, cases[i].n), "%s", cases[i].part);
        expect_error(ctx, LS_ERR_UNSUPPORTED, "x.pt", cases[i].part, "expected a state dict");
    }
}
END_TEST

#define GOOD TENSOR("0", "\4", "K\0", "K\4\x85", "K\1\x85")

/* Values of all kinds beside a tensor, and dicts of other kinds. */
START_TEST(accepts_other_values)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } cases[] = {
        CASE(DICT_OF(GOOD), "as it is"),
        CASE("\x80\2}(X\1\0\0\0a\x8a\x09"
             "123456789"
             "X\1\0\0\0w" GOOD "u.",
             "a long int"),
        CASE("\x80\2}(X\1\0\0\0a\x8b\3\0\0\0"
             "123"
             "X\1\0\0\0w" GOOD "u.",
             "LONG4"),
        CASE("\x80\2}(X\1\0\0\0aG12345678X\1\0\0\0w" GOOD "u.", "a float"),
        CASE("\x80\3}(X\1\0\0\0aC\2xyX\1\0\0\0w" GOOD "u.", "bytes"),
        CASE("\x80\3}(X\1\0\0\0aB\2\0\0\0xyX\1\0\0\0w" GOOD "u.", "long bytes"),
        CASE("\x80\4}(X\1\0\0\0a\x8f(K\1K\2\x90X\1\0\0\0w" GOOD "u.", "a set"),
        CASE("\x80\4}(X\1\0\0\0a(K\1\x91X\1\0\0\0w" GOOD "u.", "a frozenset"),
        CASE("\x80\5}(X\1\0\0\0a\x96\2\0\0\0\0\0\0\0xyX\1\0\0\0w" GOOD "u.", "a bytearray"),
        CASE("\x80\4\x95\0\0\0\0\0\0\0\0}\x94\x8c\1w\x94" GOOD "s.", "frames and MEMOIZE"),
        CASE("\x80\4}\x8d\1\0\0\0\0\0\0\0w" GOOD "s.", "BINUNICODE8"),
        CASE("\x80\2}U\1w" GOOD "s.", "Python 2's str"),
        CASE("\x80\2}T\1\0\0\0w" GOOD "s.", "Python 2's long str"),
        CASE("\x80\2ccollections\nOrderedDict\n](](U\1w" GOOD "eeX\0\0\0\0"
             "0\x85R.",
             "Python 2's OrderedDict"),
        CASE("\x80\2ccollections\nOrderedDict\n]X\1\0\0\0w" GOOD "\x86"
             "a\x85R.",
             "an OrderedDict of tuples"),
        CASE("\x80\2ccollections\ndefaultdict\nc__builtin__\nlist\n\x85RX\1\0\0\0w" GOOD "s.",
             "a defaultdict"),
        CASE("\x80\2}X\1\0\0\0w"
             "ctorch._tensor\n_rebuild_from_type_v2\n("
             "ctorch._utils\n_rebuild_tensor_v2\n"
             "cmy\nTensor\n(" STORAGE_ID("0", "\4") "K\0K\4\x85K\1\x85\x89}t}tRs.",
             "a tensor of a subclass"),
        CASE("\x80\2}X\1\0\0\0w"
             "ctorch._utils\n_rebuild_parameter_with_state\n(" GOOD "\x88}}tRs.",
             "a parameter with attributes"),
        CASE("\x80\2}X\1\0\0\0w"
             "ctorch._utils\n_rebuild_tensor\n(" STORAGE_ID("0", "\4") "K\0K\4\x85K\1\x85tRs.",
             "a tensor of PyTorch 0.3"),
        CASE("\x80\2}X\1\0\0\0w" GOOD "sK\1\x86.", "a tuple of a state dict and a number"),
        CASE("\x80\2]}X\1\0\0\0w" GOOD "sa.", "a list"),
        CASE("\x80\2}X\1\0\0\0a]}X\1\0\0\0w" GOOD "sas.", "a list in a dict"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_tensor_file *file = open_pickle(cases[i].bytes, cases[i].n);
        ck_assert_msg(file != NULL, "%s: %s", cases[i].what, ls_context_message(ctx));
        ck_assert_int_eq(ls_tensor_file_tensor_count(file), 1);
        ck_assert_msg(ls_tensor_file_find(file, "w", NULL), "%s", cases[i].what);
        ls_tensor_file_close(&file);
    }
}
END_TEST

START_TEST(refuses_hostile_pickles)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        ck_assert_msg(!open_pickle(hostile[i].bytes, hostile[i].n), "%s", hostile[i].part);
        expect_error(ctx, LS_ERR_FORMAT, "x.pt", hostile[i].part);
    }
    static const char good[] = DICT_OF(TENSOR("0", "\4", "K\0", "K\4\x85", "K\1\x85"));
    ck_assert_ptr_nonnull(open_pickle(good, sizeof good - 1)); /* the table's pattern is valid */
    expect_ok(ctx);
    for (size_t n = 0; n < sizeof good - 1; n++) {
        ck_assert_msg(!open_pickle(good, n), "the first %zu bytes", n);
        expect_error(ctx, LS_ERR_FORMAT, "x.pt");
    }
}
END_TEST

/* Lists in lists, and a memo entry that each level refers to twice: 2^100000 lists. */
START_TEST(nesting_costs_nothing)
{
    enum { LEVELS = 100000 };
    static char pickle[4 * LEVELS + 64] = "\x80\2}";
    size_t n = 3;
    for (int i = 0; i < LEVELS; i++) pickle[n++] = ']';
    for (int i = 0; i < LEVELS; i++) pickle[n++] = 'a';
    pickle[n - 1] = '2'; /* DUP */
    ck_assert_ptr_null(open_pickle(pickle, n));
    expect_error(ctx, LS_ERR_FORMAT, "opcode DUP");
    pickle[n - 1] = '.'; /* lists in a list in a dict, which is not in a list */
    ck_assert_ptr_null(open_pickle(pickle, n));
    expect_error(ctx, LS_ERR_FORMAT, "2 values on the stack");
    pickle[n - 1] = '0'; /* only the dict is left */
    pickle[n] = '.';
    ck_assert_ptr_null(open_pickle(pickle, n + 1));
    expect_error(ctx, LS_ERR_FORMAT, "names no tensor");
    n = 3;
    static const char two[] = "\x85q\0h\0";
    pickle[n++] = 'N';
    for (int i = 0; i < LEVELS / 2; i++) {
        memcpy(pickle + n, two, 5);
        pickle[n + 5] = '\x86';
        n += 6;
    }
    pickle[n++] = '.';
    ck_assert_ptr_null(open_pickle(pickle, n));
    expect_error(ctx, LS_ERR_FORMAT, "2 values on the stack");
}
END_TEST

/* An optimizer's state of many items, to which a list refers many times: 10^10 items in all. */
START_TEST(references_are_not_walked_again)
{
    enum { ITEMS = 100000, REFERENCES = 100000 };
    static char pickle[2 * ITEMS + 2 * REFERENCES + 128];
    static const char optimizer[] = "\x80\2]}q\0(X\5\0\0\0stateNX\x0c\0\0\0param_groupsN";
    size_t n = sizeof optimizer - 1;
    memcpy(pickle, optimizer, n);
    memset(pickle + n, 'N', 2 * ITEMS);
    n += 2 * ITEMS;
    memcpy(pickle + n, "ua(", 3);
    n += 3;
    for (int i = 0; i < REFERENCES; i++, n += 2) memcpy(pickle + n, "h", 2);
    memcpy(pickle + n, "e.", 2);
    ck_assert_ptr_null(open_pickle(pickle, n + 2));
    expect_error(ctx, LS_ERR_FORMAT, "the file holds a list, expected a state dict");
}
END_TEST

/* A storage with a name of 30,000 bytes, 1,000 times by 3 bytes: 30 MB of names. */
START_TEST(repeated_references_have_a_limit)
{
    enum { NAME = 30000, TIMES = 1000 };
    static char pickle[NAME + 3 * TIMES + 256];
    static const char before[] = "\x80\2(X\7\0\0\0storagectorch\nFloatStorage\nX\x30\x75\0\0";
    static const char after[] = "X\3\0\0\0cpuK\4tq\0";
    size_t n = sizeof before - 1;
    memcpy(pickle, before, n);
    memset(pickle + n, 'a', NAME);
    n += NAME;
    memcpy(pickle + n, after, sizeof after); /* ends with a 0, the number of the memo entry */
    n += sizeof after - 1;
    for (int i = 0; i < TIMES; i++, n += 3) memcpy(pickle + n, "Qh", 3);
    ck_assert_ptr_null(open_pickle(pickle, n));
    expect_error(ctx, LS_ERR_FORMAT, "names and shapes of tensors take more than");
}
END_TEST

/* A storage of 250 floats that n tensors of 2 or 250 elements share; a name takes 11 bytes. */
static ls_tensor_file *open_tied(ls_context *context, int n, int elements, const char *directory)
{
    enum { MOST = 2000 };
    static char pickle[11 * MOST + 256], name[600], data[600];
    static const char large[] =
        "\x80\2}(X\4\0\0\0w000" TENSOR("0", "\xfa", "K\0", "K\xfa\x85", "K\1\x85") "q\0";
    static const char small[] =
        "\x80\2}(X\4\0\0\0w000" TENSOR("0", "\xfa", "K\0", "K\2\x85", "K\1\x85") "q\0";
    static const float storage[250];
    _Static_assert(sizeof large == sizeof small, "they differ in one number");
    size_t size = sizeof large - 1;
    memcpy(pickle, elements > 2 ? large : small, size);
    for (int i = 1; i < n; i++, size += 11) {
        memcpy(pickle + size, "X\4\0\0\0wxxxh", 11); /* and the 0 of the memo entry */
        for (int k = 0, rest = i; k < 3; k++, rest /= 26)
            pickle[size + 6 + (size_t)k] = (char)('a' + rest % 26);
    }
    memcpy(pickle + size, "u.", 2);
    snprintf(name, sizeof name, "%s/data.pkl", directory);
    snprintf(data, sizeof data, "%s/data/0", directory);
    const entry entries[] = { { name, pickle, size + 2, false },
                              { data, storage, sizeof storage, false } };
    return ls_tensor_file_open(context, write_zip(2, entries));
}

START_TEST(tied_tensors_have_a_limit)
{
    ls_tensor_file *file = open_tied(ctx, 16, 250, "x");
    expect_ok(ctx);
    ck_assert_int_eq(ls_tensor_file_tensor_count(file), 16);
    ck_assert_ptr_null(open_tied(ctx, 2000, 250, "x")); /* 2 MB, of a file of 23 KB */
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "have more than 16 times the bytes of the file");
}
END_TEST

/* The archive's folder has up to 511 characters, and is not copied for each tensor. */
START_TEST(long_folders_take_no_memory)
{
    static char directory[520];
    int64_t n_requests[2];
    for (int i = 0; i < 2; i++) {
        failing_allocator a;
        failing_allocator_init(&a, 0);
        memset(directory, 'x', i ? 511 : 1);
        ls_context *other =
            ls_context_open(&(ls_context_config){ .threads = 1, .allocator = &a.allocator });
        ck_assert_ptr_nonnull(open_tied(other, 2000, 2, directory));
        n_requests[i] = atomic_load(&a.n_requests);
        ls_context_close(&other);
    }
    ck_assert_int_eq(n_requests[0], n_requests[1]);
    directory[511] = 'x';
    ck_assert_ptr_null(open_tied(ctx, 1, 2, directory));
    expect_error(ctx, LS_ERR_FORMAT, "no entry 'NAME/data.pkl'");
}
END_TEST

START_TEST(refuses_hostile_archives)
{
    static const char zeros[1 << 20];
    static const char good[] = DICT_OF(TENSOR("0", "\4", "K\0", "K\4\x85", "K\1\x85"));
    const entry bomb[] = { { "x/data.pkl", zeros, sizeof zeros, true } };
    ck_assert_ptr_null(ls_tensor_file_open(ctx, write_zip(1, bomb)));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "'x/data.pkl' is compressed");
    const entry without[] = { { "data.pkl", good, sizeof good - 1, false } };
    ck_assert_ptr_null(ls_tensor_file_open(ctx, write_zip(1, without)));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "no entry 'NAME/data.pkl'");
    const entry two[] = { { "m/data.pkl", good, sizeof good - 1, false },
                          { "a/data.pkl", good, sizeof good - 1, false } };
    ck_assert_ptr_null(ls_tensor_file_open(ctx, write_zip(2, two)));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "the entries 'a/data.pkl' and 'm/data.pkl'");
    const entry middle[] = { { "x/data.pkl", good, sizeof good - 1, false },
                             { "x/byteorder", "middle", 6, false } };
    ck_assert_ptr_null(ls_tensor_file_open(ctx, write_zip(2, middle)));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "byte order is 'middle'");
    const entry longer[] = { { "x/data.pkl", good, sizeof good - 1, false },
                             { "x/byteorder", "littler", 7, false } };
    ck_assert_ptr_null(ls_tensor_file_open(ctx, write_zip(2, longer)));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "byte order is ''");
    const entry similar[] = { { "x/data.pkl", good, sizeof good - 1, false },
                              { "x/data.pkm", good, sizeof good - 1, false } };
    const char *path = write_zip(2, similar);
    size_t size;
    char *bytes = read_file(path, &size), *at = bytes;
    while ((at = memmem(at, size - (size_t)(at - bytes), "pkm", 3))) memcpy(at, "pkl", 3);
    write_file(path, bytes, size);
    ck_assert_ptr_null(ls_tensor_file_open(ctx, path));
    expect_error(ctx, LS_ERR_FORMAT, "x.pt", "two zip entries have the name 'x/data.pkl'");
    free(bytes);
}
END_TEST

/* As PyTorch 2.1 writes on a big-endian machine: 1, 2, 3, 4 as floats. */
START_TEST(big_endian_numbers)
{
    static const char pickle[] = DICT_OF(TENSOR("0", "\4", "K\0", "K\4\x85", "K\1\x85"));
    static const char numbers[] = "\x3f\x80\0\0\x40\0\0\0\x40\x40\0\0\x40\x80\0\0";
    const entry entries[] = { { "x/data.pkl", pickle, sizeof pickle - 1, false },
                              { "x/byteorder", "big", 3, false },
                              { "x/data/0", numbers, 16, false } };
    ls_tensor_file *file = ls_tensor_file_open(ctx, write_zip(3, entries));
    const float *values = ls_tensor_data_const(ls_tensor_file_load(file, "w"));
    expect_ok(ctx);
    for (int i = 0; i < 4; i++) ck_assert(values[i] == (float)(i + 1));
}
END_TEST

/* By the CRC of the storage. */
START_TEST(a_changed_element_is_found)
{
    static const char pickle[] = DICT_OF(TENSOR("0", "\4", "K\0", "K\4\x85", "K\1\x85"));
    static const char numbers[] = "0123456789abcdef";
    const entry entries[] = { { "x/data.pkl", pickle, sizeof pickle - 1, false },
                              { "x/data/0", numbers, 16, false } };
    const char *path = write_zip(2, entries);
    size_t size;
    char *bytes = read_file(path, &size), *at = memmem(bytes, size, numbers, 16);
    for (int changed = 0; changed < 2; changed++) {
        *at ^= (char)changed;
        write_file(path, bytes, size);
        ls_tensor_file *file = ls_tensor_file_open(ctx, path);
        expect_ok(ctx);
        ck_assert_int_eq(ls_tensor_file_load(file, "w") == NULL, changed);
    }
    expect_error(ctx, LS_ERR_FORMAT, "zip entry 'x/data/0': its checksum is wrong");
    free(bytes);
}
END_TEST

/* Each prefix of a file, and the file with a byte changed. Returns how many of these are refused.
 */
static int damage(const char *whole, size_t step, size_t *n_changed)
{
    size_t size;
    unsigned char *bytes = read_file(whole, &size);
    const char *path = path_in(folder, "damaged.pt");
    int n_refused = 0;
    for (size_t n = 0; n < size; n++) {
        write_file(path, bytes, n);
        ck_assert_msg(!ls_tensor_file_open(ctx, path), "the first %zu bytes", n);
        ck_assert_int_ne(ls_context_status(ctx), LS_OK);
        ls_context_clear_error(ctx);
    }
    for (size_t i = 0; i < size; i += step) {
        bytes[i] ^= 0x11;
        write_file(path, bytes, size);
        bytes[i] ^= 0x11;
        ls_tensor_file *file = ls_tensor_file_open(ctx, path);
        ls_tensor *tensor = NULL;
        for (int64_t k = 0; k < ls_tensor_file_tensor_count(file); k++) {
            tensor = ls_tensor_file_load(file, ls_tensor_file_name(file, k));
            if (!tensor) break;
            ls_tensor_close(&tensor);
        }
        n_refused += ls_context_status(ctx) != LS_OK;
        ls_context_clear_error(ctx);
        ls_tensor_file_close(&file);
    }
    free(bytes);
    *n_changed = size / step;
    return n_refused;
}

/* The archive also has CRCs of the elements. */
START_TEST(damaged_files_are_refused)
{
    size_t n;
    int n_refused = damage(FIXTURES "state_dict.pt", 7, &n);
    ck_assert_int_gt(n_refused, (int)n / 4);
    n_refused = damage(FIXTURES "before_1.6.pt", 7, &n);
    ck_assert_int_gt(n_refused, (int)n / 16);
}
END_TEST

TEST_PROGRAM(torch_file)
{
    Suite *suite = suite_create("torch_file");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, reads_strides_and_views);
    tcase_add_test(tc, reads_types);
    tcase_add_test(tc, finds_state_dicts);
    tcase_add_test(tc, refuses_other_files);
    tcase_add_test(tc, calls_nothing);
    tcase_add_test(tc, accepts_other_values);
    tcase_add_test(tc, refuses_hostile_pickles);
    tcase_add_test(tc, nesting_costs_nothing);
    tcase_add_test(tc, references_are_not_walked_again);
    tcase_add_test(tc, repeated_references_have_a_limit);
    tcase_add_test(tc, tied_tensors_have_a_limit);
    tcase_add_test(tc, long_folders_take_no_memory);
    tcase_add_test(tc, refuses_hostile_archives);
    tcase_add_test(tc, big_endian_numbers);
    tcase_add_test(tc, a_changed_element_is_found);
    tcase_add_test(tc, damaged_files_are_refused);
    suite_add_tcase(suite, tc);
    return run_and_free(suite);
}
