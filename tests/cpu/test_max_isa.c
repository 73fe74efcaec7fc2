/* LOCKSTEP_MAX_ISA, which a process reads once: in processes of their own. */
#include "../suite.h"
#include <lockstep/status.h>
#include <stdio.h>
#include <string.h>

static char said[4096];

/* Runs max_isa_report with the variables, "NAME=VALUE ...", and the argument. */
static void report(const char *variables, const char *argument)
{
    char command[1024];
    snprintf(command, sizeof command,
             "env -u LOCKSTEP_MAX_ISA -u ONEDNN_MAX_CPU_ISA -u DNNL_MAX_CPU_ISA %s '%s' %s",
             variables, MAX_ISA_REPORT, argument);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    said[fread(said, 1, sizeof said - 1, pipe)] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
}

static void expect_said(const char *text)
{
    ck_assert_msg(strstr(said, text), "'%s' is not in:\n%s", text, said);
}

static void expect_not_said(const char *text)
{
    ck_assert_msg(!strstr(said, text), "'%s' is in:\n%s", text, said);
}

static const struct {
    const char *value, *name;
} isas[] = { { "plain", "plain" }, { "avx2", "AVX2" }, { "avx512", "AVX-512" } };
enum { PLAIN, AVX2, AVX512, N_ISAS };

/* The processor's best. */
static int find_best(void)
{
    report("", "");
    for (int i = 0; i < N_ISAS; i++) {
        char text[48];
        snprintf(text, sizeof text, "device cpu, 1 thread, %s,", isas[i].name);
        if (strstr(said, text)) return i;
    }
    ck_abort_msg("%s", said);
}

START_TEST(limits_all_kernels)
{
    const int best = find_best();
    char unlimited[sizeof said], variable[64], text[64];
    strcpy(unlimited, said);
    for (int i = 0; i < N_ISAS; i++) {
        const int isa = i < best ? i : best;
        snprintf(variable, sizeof variable, "LOCKSTEP_MAX_ISA=%s", isas[i].value);
        report(variable, "");
        expect_said("status 0\n");
        snprintf(text, sizeof text, "device cpu, 1 thread, %s,", isas[isa].name);
        expect_said(text);
        expect_said("processor \n");
        expect_said("resize plain C\n");
        if (isa == PLAIN)
            expect_not_said("resize AVX2");
        else
            expect_said("resize AVX2\n");
        if (!HAS_ONEDNN) continue;
        char portable[sizeof said];
        strcpy(portable, said);
        report(variable, "native");
        ck_assert_str_eq(said, portable);
    }
}
END_TEST

START_TEST(unknown_values_are_errors)
{
    static const char *const values[] = { "sse", "AVX2", "avx2,avx512", "0" };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char text[160];
        snprintf(text, sizeof text, "LOCKSTEP_MAX_ISA=%s", values[i]);
        report(text, "");
        snprintf(text, sizeof text, "status %d\n", LS_ERR_INVALID);
        expect_said(text);
        snprintf(text, sizeof text, "LOCKSTEP_MAX_ISA is '%s', expected plain, avx2 or avx512\n",
                 values[i]);
        expect_said(text);
    }
}
END_TEST

START_TEST(an_empty_value_is_none)
{
    char unlimited[sizeof said];
    report("", "");
    strcpy(unlimited, said);
    report("LOCKSTEP_MAX_ISA=", "");
    ck_assert_str_eq(said, unlimited);
}
END_TEST

TEST_PROGRAM(max_isa)
{
    return RUN_SUITE("max isa", limits_all_kernels, unknown_values_are_errors,
                     an_empty_value_is_none);
}
