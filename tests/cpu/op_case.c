#include "op_case.h"
#include "../reference_kernels/element.h"
#include "../reference_kernels/reference_kernels.h"
#include "../sanitizers.h"
#include "../suite.h"
#include "base/hash.h"
#include "cpu/emulated.h"
#include "cpu/onednn/onednn.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_BYTES = 64, GUARD = 0xa5 };

/* The address sanitizer also reports reads of the guards beside a block of this size. */
#if ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
static void close_guards(unsigned char *block, size_t bytes)
{
    __asan_poison_memory_region(block, GUARD_BYTES);
    __asan_poison_memory_region(block + GUARD_BYTES + bytes, GUARD_BYTES);
}

static void open_guards(unsigned char *block, size_t bytes)
{
    __asan_unpoison_memory_region(block, bytes + 2 * GUARD_BYTES);
}
#else
static void close_guards(unsigned char *block, size_t bytes)
{
    (void)block;
    (void)bytes;
}

static void open_guards(unsigned char *block, size_t bytes)
{
    (void)block;
    (void)bytes;
}
#endif

const case_list *all_cases(void)
{
    static case_list list;
    if (list.n == 0) {
        add_layout_cases(&list);
        add_conv_cases(&list);
        add_linear_cases(&list);
        add_norm_cases(&list);
        add_activation_cases(&list);
        add_rows_cases(&list);
        add_pool_cases(&list);
        add_loss_cases(&list);
        add_optimizer_cases(&list);
        add_fused_cases(&list);
        add_half_cases(&list);
    }
    return &list;
}

int first_case(int test)
{
    return test * cases_step();
}

int case_stride(void)
{
    return CASE_TESTS * cases_step();
}

int run_cases(const char *name, const TTest *test)
{
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(test->name);
    tcase_add_loop_test(tcase, test, 0, CASE_TESTS);
    suite_add_tcase(suite, tcase);
    return run_and_free(suite);
}

ls__operand activation(int64_t n, int64_t h, int64_t w, int64_t c)
{
    return (ls__operand){ LS_F32, LS_SHAPE(n, h, w, c) };
}

ls__operand dense(ls_dtype dtype, ls_shape shape)
{
    return (ls__operand){ dtype, shape };
}

ls__operand absent(void)
{
    return (ls__operand){ LS_F32, { -1, { 0 } } };
}

op_case *add_case(case_list *list, ls__op_kind kind, int n_operands, const ls__operand *operands,
                  const char *format, ...)
{
    if (list->n == list->capacity) {
        list->capacity = list->capacity ? 2 * list->capacity : 256;
        list->cases = realloc(list->cases, (size_t)list->capacity * sizeof *list->cases);
        if (!list->cases) abort(); /* outside of any test */
    }
    op_case *c = &list->cases[list->n++];
    *c = (op_case){ .op = { .kind = kind, .n_operands = n_operands },
                    .step = { .seed = 7, .epoch = 2, .step = 11, .lr = 0.1, .optimizer_step = 3 } };
    memcpy(c->op.operands, operands, (size_t)n_operands * sizeof *operands);
    char shape[LS_SHAPE_TEXT_SIZE], text[120];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_shape_text(&operands[0].shape, shape, sizeof shape);
    snprintf(c->name, sizeof c->name, "%s %.60s%s%s", ls__op_name(kind), shape, *text ? " " : "",
             text);
    return c;
}

ls_context *open_cpu(int threads, int isa)
{
    ls_context *ctx = ls_context_open(
        &(ls_context_config){ .threads = threads, .arithmetic = LS_ARITHMETIC_NATIVE });
    ck_assert_ptr_nonnull(ctx);
    if (ls_context_status(ctx) == LS_ERR_UNSUPPORTED) { /* this build has no oneDNN */
        ls_context_close(&ctx);
        ctx = ls_context_open(&(ls_context_config){ .threads = threads });
    }
    ck_assert_msg(ls_context_status(ctx) == LS_OK, "%s", ls_context_message(ctx));
    offer_reference_kernels(ctx);
    ls__cpu *cpu = (ls__cpu *)ctx->device;
    if (isa >= 0) cpu->isa = (ls__isa)isa;
    return ctx;
}

bool is_conv(ls__op_kind kind)
{
    return ls__op_is_convolution(kind) && !ls__op_is_optional(kind);
}

bool is_conv_or_linear(ls__op_kind kind)
{
    return ls__op_traits_of(kind)->multiplies && !ls__op_is_optional(kind);
}

bool is_own_kernel(const char *kernel)
{
    static const char PREFIX[] = "emulated ";
    if (strncmp(kernel, PREFIX, sizeof PREFIX - 1) == 0) kernel += sizeof PREFIX - 1;
    return strncmp(kernel, "onednn", 6) != 0 && strcmp(kernel, "reference") != 0;
}

/* ---- Operand names, from the strings of LS__OP_LIST: "x w b? -> y". ---- */

const char *operand_name(ls__op_kind kind, int i, size_t *length)
{
    ls__operand_role role;
    if (!ls__op_operand(kind, i, &role)) return NULL;
    *length = (size_t)role.length;
    return role.name;
}

int find_operand(ls__op_kind kind, const char *name, size_t length)
{
    size_t l;
    const char *p;
    for (int i = 0; (p = operand_name(kind, i, &l)); i++)
        if (l == length && memcmp(p, name, l) == 0) return i;
    return -1;
}

/* ---- Contents. ---- */

/* Uniform in [0,1): depends on the operand and the element alone. */
static float draw(int operand, int64_t element)
{
    const uint64_t bits = ls__mix64((uint64_t)operand << 40 ^ (uint64_t)element);
    return ls_random_uniform((uint32_t)(bits >> 32));
}

/* A label in -1..classes-1. */
static void fill_labels(const op_case *c, int operand, void *memory, int64_t count)
{
    const int64_t classes = c->op.operands[0].shape.dims[1];
    for (int64_t i = 0; i < count; i++)
        ((int32_t *)memory)[i] = (int32_t)(draw(operand, i) * (float)(classes + 1)) - 1;
}

/* A place of each window that lies inside the input, as a forward pass would give: index is the
 * operand of max_pool_backward, dx [N,H,W,C] the operand after it. */
static void fill_index(const op_case *c, int operand, void *memory, int64_t count)
{
    const ls__operand *y = &c->op.operands[operand], *x = &c->op.operands[operand + 1];
    const int64_t height = y->shape.dims[1], width = y->shape.dims[2], channels = y->shape.dims[3];
    const int64_t *kernel = c->op.u.pool.kernel, *stride = c->op.u.pool.stride;
    const int64_t *padding = c->op.u.pool.padding;
    for (int64_t i = 0; i < count; i++) {
        const int64_t q = i / channels % width, p = i / channels / width % height;
        int64_t place = (int64_t)(draw(operand, i) * (float)(kernel[0] * kernel[1]));
        for (;; place = (place + 1) % (kernel[0] * kernel[1])) {
            const int64_t h = p * stride[0] - padding[0] + place / kernel[1];
            const int64_t w = q * stride[1] - padding[1] + place % kernel[1];
            if (h >= 0 && h < x->shape.dims[1] && w >= 0 && w < x->shape.dims[2]) break;
        }
        if (y->dtype == LS_U8)
            ((uint8_t *)memory)[i] = (uint8_t)place;
        else
            ((int32_t *)memory)[i] = (int32_t)place;
    }
}

static bool is_among(const char *name, size_t length, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0) return true;
    return false;
}

/* Names whose values must be positive: [0.5, 1.5). */
static bool is_positive(const char *name, size_t length)
{
    static const char *const names[] = { "running_var", "invstd",  "exp_avg_sq", "squares",
                                         "weights",     "total",   "norm",       "grad_scaler",
                                         "square_avg",  "targets", "moments" };
    return is_among(name, length, names, sizeof names / sizeof names[0]);
}

/* Ops whose first input is spread over more than [-1, 1), where their function does not bend. A
 * norm with ReLU6 reaches 6 by its scale; its backward op reads y. */
static float spread_of(const op_case *c, int operand)
{
    if (ls__op_traits_of(c->op.kind)->config == LS__CONFIG_NORM &&
        c->op.u.norm.activation == LS__ACTIVATION_RELU6)
        return operand == find_operand(c->op.kind, "scale", 5) ||
                       operand == find_operand(c->op.kind, "y", 1)
                   ? 8
                   : 1;
    static const bool wide[LS__N_OPS] = {
        [LS__OP_RELU6] = true,
        [LS__OP_RELU6_BACKWARD] = true,
        [LS__OP_TANH] = true,
        [LS__OP_SILU] = true,
        [LS__OP_SILU_BACKWARD] = true,
        [LS__OP_GELU] = true,
        [LS__OP_GELU_BACKWARD] = true,
        [LS__OP_HARD_SIGMOID] = true,
        [LS__OP_HARD_SIGMOID_BACKWARD] = true,
        [LS__OP_HARD_SWISH] = true,
        [LS__OP_HARD_SWISH_BACKWARD] = true,
        [LS__OP_EXP] = true,
    };
    return operand == 0 && wide[c->op.kind] ? 8 : 1;
}

/* Whether the function, or its gradient by its result, is of positive numbers. */
static bool needs_positive(const op_case *c)
{
    return c->op.kind == LS__OP_LOG || c->op.kind == LS__OP_LOG_BACKWARD ||
           c->op.kind == LS__OP_SQRT || c->op.kind == LS__OP_SQRT_BACKWARD;
}

static void fill_input(const op_case *c, int operand, void *memory, int64_t count)
{
    size_t length = 0;
    const char *name = operand_name(c->op.kind, operand, &length);
    const ls_dtype dtype = c->op.operands[operand].dtype;
    if (length == 6 && memcmp(name, "labels", 6) == 0) {
        fill_labels(c, operand, memory, count);
    } else if (length == 5 && memcmp(name, "index", 5) == 0) {
        fill_index(c, operand, memory, count);
    } else if (dtype == LS_U8) {
        for (int64_t i = 0; i < count; i++)
            ((uint8_t *)memory)[i] = (uint8_t)(draw(operand, i) * 256);
    } else {
        ck_assert(dtype == LS_F32 || dtype == LS_BF16 || dtype == LS_F16);
        /* the mean of what square_avg is the mean square of */
        const bool is_mean = length == 8 && memcmp(name, "grad_avg", 8) == 0;
        const float spread = is_mean ? 0.5f : spread_of(c, operand);
        const bool positive = is_positive(name, length) || (operand == 0 && needs_positive(c));
        const float low = positive ? 0.5f : -spread;
        const float high = positive ? 1.5f : spread;
        for (int64_t i = 0; i < count; i++)
            store_element(dtype, memory, i, low + (high - low) * draw(operand, i));
        if (is_mean && c->op.u.rmsprop.epsilon == RMSPROP_CLAMPED_EPSILON)
            for (int64_t i = 0; i < count; i += 3) store_element(dtype, memory, i, 4);
    }
}

/* A batch norm's y where its shift is there: that which its x gives. */
static void fill_normalized(const op_case *c, const op_buffers *b)
{
    enum { X, Y, SCALE = 4, MEAN, INVSTD, SHIFT };
    const ls__operand *x = &c->op.operands[X];
    if ((c->op.kind != LS__OP_BATCH_NORM_BACKWARD && c->op.kind != LS__OP_NORM_BACKWARD_PRODUCTS) ||
        !b->memory[SHIFT])
        return;
    const int64_t channels = x->shape.dims[x->shape.n_dims - 1];
    const float *vectors[LS__MAX_OPERANDS];
    for (int i = SCALE; i <= SHIFT; i++) vectors[i] = b->memory[i];
    const int64_t count = ls_shape_element_count(&x->shape);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = i % channels;
        const float factor = vectors[INVSTD][at] * vectors[SCALE][at];
        const float centred = load_element(x->dtype, b->memory[X], i) - vectors[MEAN][at];
        const float y = fmaf(centred, factor, vectors[SHIFT][at]);
        store_element(x->dtype, b->memory[Y], i, ls__activate(c->op.u.norm.activation, y));
    }
}

void fill_buffers(const op_case *c, op_buffers *b, bool share)
{
    *b = (op_buffers){ .n = c->op.n_operands };
    for (int i = 0; i < b->n; i++) {
        const ls__operand *operand = &c->op.operands[i];
        if (ls__is_absent(operand)) continue;
        const int64_t count = ls_shape_element_count(&operand->shape);
        b->bytes[i] = (size_t)count * ls_dtype_bytes(operand->dtype);
        if (share && c->shares[i]) {
            b->memory[i] = b->memory[c->shares[i] - 1];
            continue;
        }
        const size_t total = (b->bytes[i] + 2 * GUARD_BYTES + 63) / 64 * 64;
        b->blocks[i] = aligned_alloc(64, total);
        ck_assert_ptr_nonnull(b->blocks[i]);
        memset(b->blocks[i], GUARD, total);
        b->memory[i] = b->blocks[i] + GUARD_BYTES;
        if (i < ls__op_inputs(c->op.kind))
            fill_input(c, i, b->memory[i], count);
        else
            memset(b->memory[i], 0xff, b->bytes[i]);
    }
    fill_normalized(c, b);
}

void copy_buffers(const op_case *c, const op_buffers *from, op_buffers *to)
{
    to->n = from->n;
    for (int i = 0; i < from->n; i++) {
        to->bytes[i] = from->bytes[i];
        if (!from->blocks[i]) {
            if (from->memory[i]) to->memory[i] = to->memory[c->shares[i] - 1];
            continue;
        }
        const size_t total = (from->bytes[i] + 2 * GUARD_BYTES + 63) / 64 * 64;
        if (!to->blocks[i]) to->blocks[i] = aligned_alloc(64, total);
        ck_assert_ptr_nonnull(to->blocks[i]);
        memcpy(to->blocks[i], from->blocks[i], total);
        to->memory[i] = to->blocks[i] + GUARD_BYTES;
    }
}

void free_buffers(op_buffers *b)
{
    for (int i = 0; i < b->n; i++) free(b->blocks[i]);
    *b = (op_buffers){ 0 };
}

static bool guard_is_whole(const unsigned char *p)
{
    for (int i = 0; i < GUARD_BYTES; i++)
        if (p[i] != GUARD) return false;
    return true;
}

void check_guards(const op_case *c, const op_buffers *b)
{
    for (int i = 0; i < b->n; i++)
        if (b->blocks[i])
            ck_assert_msg(guard_is_whole(b->blocks[i]) &&
                              guard_is_whole(b->blocks[i] + GUARD_BYTES + b->bytes[i]),
                          "%s: memory beside operand %d was written", c->name, i);
}

/* ---- Running. ---- */

const char *reference_name(const op_case *c)
{
    return ls__needs_emulation(&c->op) ? "emulated reference" : "reference";
}

int list_kernels(ls_context *ctx, const op_case *c, ls__candidate *out)
{
    ls__candidate all[LS__MAX_CANDIDATES];
    const int n_all =
        ctx->device->backend->candidates(ctx->device, &c->op, all, LS__MAX_CANDIDATES);
    int n = 0;
    for (int i = 0; i < n_all; i++)
        if (strcmp(all[i].name, reference_name(c)) != 0) out[n++] = all[i];
    return n;
}

bool is_offered(ls_context *ctx, const op_case *c, const char *kernel)
{
    ls__candidate found[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, found);
    for (int i = 0; i < n; i++)
        if (strcmp(found[i].name, kernel) == 0) return true;
    return false;
}

void run_kernel(ls_context *ctx, const op_case *c, const char *name, op_buffers *b)
{
    ls__kernel *kernel;
    ck_assert_msg(ctx->device->backend->kernel_open(ctx->device, &c->op, name, &kernel) == LS_OK,
                  "%s: %s: %s", c->name, name, ls_context_message(ctx));
    run_and_close(ctx, c, kernel, b);
}

void run_and_close(ls_context *ctx, const op_case *c, ls__kernel *kernel, op_buffers *b)
{
    const ls__backend *backend = ctx->device->backend;
    ls__cpu *cpu = (ls__cpu *)ctx->device;
    const char *name = kernel->name;
    for (int t = 0; t < cpu->n_threads && cpu->scratch_bytes > 0; t++)
        memset(cpu->scratch[t], 0xff, cpu->scratch_bytes);
    const size_t total = (kernel->workspace_bytes + 2 * GUARD_BYTES + 63) / 64 * 64;
    unsigned char *workspace = aligned_alloc(64, total);
    ck_assert_ptr_nonnull(workspace);
    memset(workspace, GUARD, total);
    memset(workspace + GUARD_BYTES, 0xff, kernel->workspace_bytes);
    for (int i = 0; i < b->n; i++)
        if (b->blocks[i]) close_guards(b->blocks[i], b->bytes[i]);
    close_guards(workspace, kernel->workspace_bytes);
    backend->begin(ctx->device);
    const ls_status status = kernel->run(kernel, b->memory, workspace + GUARD_BYTES, &c->step);
    backend->end(ctx->device);
    open_guards(workspace, kernel->workspace_bytes);
    for (int i = 0; i < b->n; i++)
        if (b->blocks[i]) open_guards(b->blocks[i], b->bytes[i]);
    ck_assert_msg(status == LS_OK, "%s: %s: %s", c->name, name, ls_context_message(ctx));
    ck_assert_msg(guard_is_whole(workspace) &&
                      guard_is_whole(workspace + GUARD_BYTES + kernel->workspace_bytes),
                  "%s: %s: memory beside the workspace was written", c->name, name);
    check_guards(c, b);
    free(workspace);
    kernel->close(kernel);
    cpu->scratch_bytes = 0; /* so that the next kernel reserves blocks of just its size */
}

/* ---- Comparing. ---- */

double relative_error(const float *got, const float *wanted, size_t n)
{
    double difference = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)wanted[i];
        difference += d * d;
        norm += (double)wanted[i] * (double)wanted[i];
    }
    return sqrt(difference / norm);
}

/* Winograd's transforms multiply by up to 3.4 and divide again, so single elements differ more than
 * those of a direct sum; its error is stated, here as in the literature, as relative L2 error. */
static const double WINOGRAD_L2_ERROR = 5e-6, WINOGRAD_LARGEST_ERROR = 2e-5;

/* The unit in the last place of a 16-bit value of this magnitude. */
static double last_place(ls_dtype dtype, double magnitude)
{
    if (dtype == LS_F32 || magnitude == 0) return 0;
    int exponent;
    (void)frexp(magnitude, &exponent);
    const int digits = dtype == LS_BF16 ? 8 : 11, min_exponent = dtype == LS_BF16 ? -133 : -24;
    return ldexp(1, exponent - digits > min_exponent ? exponent - digits : min_exponent);
}

static double value_at(ls_dtype dtype, const void *memory, size_t i)
{
    return (double)load_element(dtype, memory, (int64_t)i);
}

static void compare(const op_case *c, const char *kernel, int operand, const op_buffers *got,
                    const op_buffers *wanted)
{
    const ls_dtype dtype = c->op.operands[operand].dtype;
    if (dtype != LS_F32 && dtype != LS_BF16 && dtype != LS_F16) {
        ck_assert_msg(memcmp(got->memory[operand], wanted->memory[operand], got->bytes[operand]) ==
                          0,
                      "%s: %s: operand %d differs from the reference", c->name, kernel, operand);
        return;
    }
    const void *a = got->memory[operand], *b = wanted->memory[operand];
    const size_t count = got->bytes[operand] / ls_dtype_bytes(dtype);
    double largest = 0, error = 0, squares = 0, error_squares = 0;
    size_t where = 0;
    const bool winograd = strstr(kernel, "winograd") != NULL;
    const double allowed = winograd ? WINOGRAD_LARGEST_ERROR : c->tolerance;
    for (size_t i = 0; i < count; i++) {
        const double x = value_at(dtype, a, i), y = value_at(dtype, b, i);
        if (isnan(x) != isnan(y)) /* ck_assert_msg would log every element */
            ck_abort_msg("%s: %s: operand %d [%zu]: got %g, reference %g", c->name, kernel, operand,
                         i, x, y);
        if (fabs(y) > largest) largest = fabs(y);
        squares += y * y;
        const double difference = fabs(x - y);
        /* e would not be larger; Winograd's error counts all. */
        if (!(difference > error) && !winograd) continue;
        const double e = fmax(0, difference - last_place(dtype, fmax(fabs(x), fabs(y))));
        error_squares += e * e;
        if (e > error) {
            error = e;
            where = i;
        }
    }
    ck_assert_msg(error <= allowed * largest,
                  "%s: %s: operand %d [%zu]: got %.9g, reference %.9g; error %.3g of the largest, "
                  "allowed %.3g",
                  c->name, kernel, operand, where, value_at(dtype, a, where),
                  value_at(dtype, b, where), error / largest, allowed);
    if (winograd)
        ck_assert_msg(sqrt(error_squares) <= WINOGRAD_L2_ERROR * sqrt(squares),
                      "%s: %s: operand %d: relative L2 error %.3g", c->name, kernel, operand,
                      sqrt(error_squares / squares));
}

void compare_buffers(const op_case *c, const char *kernel, const op_buffers *got,
                     const op_buffers *wanted)
{
    for (int i = 0; i < got->n; i++) {
        bool overwritten = false; /* an input whose memory an output took */
        for (int j = 0; j < got->n; j++) overwritten |= c->shares[j] == i + 1;
        if (got->memory[i] && !overwritten) compare(c, kernel, i, got, wanted);
    }
}
