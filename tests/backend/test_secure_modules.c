/* A program with rights that its caller lacks loads no code from a folder that the caller names,
 * and its results do not depend on the caller's LOCKSTEP_MAX_ISA. */
#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };
static const char set[] = "/nonexistent/modules";

/* Runs as a separate program: opens a device that is a module, and prints the error. */
static int child(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .device = "cuda" });
    printf("%s %s\n", getauxval(AT_SECURE) ? "secure" : "plain", ls_context_message(ctx));
    ls_context_close(&ctx);
    return 0;
}

static void run(const char *program, char *out, size_t size)
{
    char command[512];
    snprintf(command, sizeof command, "'%s' child", program);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_ptr_nonnull(fgets(out, (int)size, pipe));
    ck_assert_int_eq(pclose(pipe), 0);
}

static char self[256], copy[256];

START_TEST(a_setuid_program_ignores_the_folder)
{
    char text[2048];
    ck_assert_int_eq(setenv("LOCKSTEP_MODULES", set, 1), 0);
    run(self, text, sizeof text);
    ck_assert_msg(strncmp(text, "plain", 5) == 0 && strstr(text, set), "%s", text);
    run(copy, text, sizeof text);
    ck_assert_msg(strncmp(text, "secure", 6) == 0 && !strstr(text, set), "%s", text);
}
END_TEST

START_TEST(a_setuid_program_ignores_the_instruction_set)
{
    char text[2048];
    ck_assert_int_eq(setenv("LOCKSTEP_MAX_ISA", "abacus", 1), 0);
    run(self, text, sizeof text);
    ck_assert_msg(strstr(text, "LOCKSTEP_MAX_ISA is 'abacus'"), "%s", text);
    run(copy, text, sizeof text);
    ck_assert_msg(strncmp(text, "secure", 6) == 0 && !strstr(text, "LOCKSTEP_MAX_ISA"), "%s", text);
}
END_TEST

/* False where this is not possible: not root, or a file system without setuid. */
static bool make_setuid_copy(char *folder)
{
    char command[1024];
    if (geteuid() != 0 || !mkdtemp(folder) || chmod(folder, 0755) != 0) return false;
    snprintf(copy, sizeof copy, "%s/program", folder);
    snprintf(command, sizeof command, "cp '%s' '%s'", self, copy);
    if (system(command) != 0 || chown(copy, NOBODY, NOBODY) != 0 || chmod(copy, 04755) != 0)
        return false;
    char text[2048] = "";
    snprintf(command, sizeof command, "'%s' child", copy);
    FILE *pipe = popen(command, "r");
    const bool ran = pipe && fgets(text, sizeof text, pipe);
    if (pipe) pclose(pipe);
    return ran && strncmp(text, "secure", 6) == 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "child") == 0) return child();
    char folder[] = "/tmp/lockstep-setuid-XXXXXX", command[64];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const bool possible = length > 0 && make_setuid_copy(folder);
    const int failed = possible ? RUN_SUITE("secure modules", a_setuid_program_ignores_the_folder,
                                            a_setuid_program_ignores_the_instruction_set)
                                : skip_program("no setuid program can be made here");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? failed : EXIT_FAILURE;
}
