/* test_portable_bits.c: the bits of our own kernels, which are the same on every processor and with
 * every compiler: a hash for each op and kernel, over all cases, beside the one in
 * portable_bits.inc. A kernel that changes its results increases LS__OWN_KERNELS, and a new case
 * changes the hash, too: the message of the failing test has the new lines. */
#include "../suite.h"
#include "op_case.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct portable_hash {
    const char *op;
    char kernel[LS__KERNEL_NAME_SIZE];
    uint64_t hash;
} portable_hash;

static const portable_hash expected[] = {
#include "portable_bits.inc"
};
enum { N_EXPECTED = sizeof expected / sizeof expected[0], MAX_HASHES = 512 };

static portable_hash found[MAX_HASHES];
static int n_found;

static portable_hash *hash_of(const char *op, const char *kernel)
{
    for (int i = 0; i < n_found; i++)
        if (strcmp(found[i].op, op) == 0 && strcmp(found[i].kernel, kernel) == 0) return &found[i];
    ck_assert_int_lt(n_found, MAX_HASHES);
    portable_hash *h = &found[n_found++];
    h->op = op;
    memcpy(h->kernel, kernel, sizeof h->kernel);
    h->hash = UINT64_C(0xcbf29ce484222325);
    return h;
}

static uint64_t add_byte(uint64_t hash, unsigned char byte)
{
    return (hash ^ byte) * UINT64_C(0x100000001b3); /* FNV-1a */
}

/* Processors differ in the sign of a NaN. */
static uint64_t add_output(uint64_t hash, const unsigned char *memory, size_t bytes, ls_dtype dtype)
{
    if (dtype != LS_F32) {
        for (size_t i = 0; i < bytes; i++) hash = add_byte(hash, memory[i]);
        return hash;
    }
    for (size_t i = 0; i < bytes; i += sizeof(float)) {
        float value;
        unsigned char of_value[sizeof value];
        memcpy(&value, memory + i, sizeof value);
        memcpy(of_value, &value, sizeof value);
        for (size_t j = 0; j < sizeof value; j++)
            hash = add_byte(hash, isnan(value) ? 0xff : of_value[j]);
    }
    return hash;
}

static void hash_case(ls_context *ctx, const op_case *c)
{
    ls__candidate kernels[LS__MAX_CANDIDATES];
    const int n = list_kernels(ctx, c, kernels);
    for (int k = 0; k < n; k++) {
        if (!is_own_kernel(kernels[k].name)) continue;
        op_buffers b;
        portable_hash *h = hash_of(ls__op_name(c->op.kind), kernels[k].name);
        fill_buffers(c, &b, false);
        run_kernel(ctx, c, kernels[k].name, &b);
        for (int i = 0; i < b.n; i++) /* some ops write into their inputs */
            if (b.memory[i])
                h->hash = add_output(h->hash, b.memory[i], b.bytes[i], c->op.operands[i].dtype);
        free_buffers(&b);
    }
}

static bool is_expected(const portable_hash *h)
{
    for (int i = 0; i < N_EXPECTED; i++)
        if (h->hash == expected[i].hash && strcmp(h->op, expected[i].op) == 0 &&
            strcmp(h->kernel, expected[i].kernel) == 0)
            return true;
    return false;
}

START_TEST(portable_bits)
{
    ls_context *ctx = open_cpu(2, -1);
    for (int i = 0; i < all_cases()->n; i++) hash_case(ctx, &all_cases()->cases[i]);
    ls_context_close(&ctx);
    int n_others = 0;
    for (int i = 0; i < n_found; i++) {
        const portable_hash *h = &found[i];
        if (is_expected(h)) continue;
        fprintf(stderr, "    { \"%s\", \"%s\", UINT64_C(0x%016" PRIx64 ") },\n", h->op, h->kernel,
                h->hash);
        n_others++;
    }
    ck_assert_msg(n_others == 0, "bits differ from portable_bits.inc; the new lines are on stderr");
    ck_assert_int_eq(n_found, N_EXPECTED);
}
END_TEST

TEST_PROGRAM(portable_bits)
{
    return run_suite("portable bits", 1, &portable_bits);
}
