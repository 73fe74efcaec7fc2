/* test_completion.c: the scripts of 'lockstep completion' and the manual pages, which both have all
 * options of all commands. */
#include "command.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_program(const char *name)
{
    char line[64];
    snprintf(line, sizeof(line), "command -v %s >/dev/null", name);
    return system(line) == 0;
}

static void write_script(const char *shell)
{
    expect(0, "completion %s", shell);
    ck_assert_str_eq(said_err, "");
    ck_assert_uint_lt(strlen(said_out), sizeof(said_out) - 1);
    write_text(shell, said_out);
}

/* What bash proposes for the last of the words. */
static void expect_proposals(const char *words, const char *proposals)
{
    char line[1024];
    snprintf(line, sizeof(line),
             "bash -c 'source ./bash; COMP_WORDS=(%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
             "_lockstep; echo \"${COMPREPLY[*]}\"' >proposed",
             words);
    ck_assert_int_eq(system(line), 0);
    size_t size;
    char *proposed = read_file("proposed", &size);
    if (size > 0) proposed[size - 1] = '\0'; /* the newline */
    ck_assert_msg(strcmp(proposed, proposals) == 0, "%s: '%s', expected '%s'", words, proposed,
                  proposals);
    free(proposed);
}

START_TEST(bash_completes)
{
    begin_folder();
    write_script("bash");
    make_folder("runs");
    make_folder("images");
    write_text("images.csv", "");
    expect_proposals("lockstep tr", "train");
    expect_proposals("lockstep help de", "describe demo-data");
    expect_proposals("lockstep train --op", "--opt");
    expect_proposals("lockstep train --opt \"\"", "sgd adam adamw rmsprop");
    expect_proposals("lockstep train --opt = ad", "adam adamw");
    expect_proposals("lockstep train --opt =", "sgd adam adamw rmsprop");
    expect_proposals("lockstep train --model resnet1", "resnet110 resnet18 resnet101 resnet152");
    expect_proposals("lockstep train --lr \"\"", "");
    expect_proposals("lockstep train --resume r", "runs");
    expect_proposals("lockstep train --resume i", "images");
    expect_proposals("lockstep train -b \"\"", "");
    expect_proposals("lockstep train --data-dir images.", "images.csv");
    expect_proposals("lockstep train i", "");
    expect_proposals("lockstep repro --restar", "--restart");
    expect_proposals("lockstep repro --label", "--label-pattern --label-smoothing");
    expect_proposals("lockstep augment --gri", "--grid");
    expect_proposals("lockstep predict images.", "images.csv");
    expect_proposals("lockstep completion \"\"", "bash zsh fish");
    expect_proposals("lockstep pack --conf", "--config");
    expect_proposals("lockstep frobnicate x", "");
    end_folder();
}
END_TEST

/* The options in a --help-all, one after the other: "--epochs". */
static bool next_option(const char **at, char name[64])
{
    for (const char *line = *at; *line; line += strcspn(line, "\n") + 1) {
        int end = 0;
        if (strncmp(line, "  ", 2) == 0 &&
            (sscanf(line, " -%*c, --%62[a-z0-9-]%n", name, &end) == 1 ||
             sscanf(line, " --%62[a-z0-9-]%n", name, &end) == 1)) {
            *at = line + strcspn(line, "\n") + 1;
            return true;
        }
        if (!strchr(line, '\n')) break;
    }
    return false;
}

static void expect_in(const char *text, const char *part, const char *where)
{
    ck_assert_msg(strstr(text, part), "%s lacks '%s'", where, part);
}

START_TEST(scripts_and_pages_have_all_options)
{
    static const char *const commands[] = { "train",      "sweep",   "eval",      "predict",
                                            "describe",   "compare", "repro",     "plot",
                                            "pack",       "export",  "demo-data", "augment",
                                            "completion", "check",   "lr-find",   "report" };
    static const char *const shells[] = { "bash", "zsh", "fish" };
    char *scripts[3], name[64], part[256], path[64];
    static char help[sizeof(said_out)];
    size_t size;
    begin_folder();
    for (int i = 0; i < 3; i++) {
        write_script(shells[i]);
        scripts[i] = read_file(shells[i], &size);
    }
    make_folder("man");
    expect(0, "man man --date 2001-02-03");
    for (size_t c = 0; c < sizeof(commands) / sizeof(commands[0]); c++) {
        expect(0, "%s --help-all", commands[c]);
        memcpy(help, said_out, sizeof(help));
        snprintf(path, sizeof(path), "man/lockstep-%s.1", commands[c]);
        char *page = read_file(path, &size);
        expect_in(page, " 1 2001-02-03 \"Lockstep 0.", path);
        /* paragraphs with an empty line between them */
        ck_assert_msg(!strstr(page, "\n\n") && !strstr(page, "points.points"), "%s", path);
        int n = 0;
        for (const char *at = help; next_option(&at, name); n++) {
            snprintf(part, sizeof(part), " -l %s ", name);
            expect_in(scripts[2], part, commands[c]);
            snprintf(part, sizeof(part), "--%s", name);
            expect_in(scripts[0], part, commands[c]);
            expect_in(scripts[1], part, commands[c]);
            char escaped[160] = "\\-\\-";
            for (const char *from = name; *from; from++)
                snprintf(escaped + strlen(escaped), sizeof(escaped) - strlen(escaped),
                         *from == '-' ? "\\%c" : "%c", *from);
            snprintf(part, sizeof(part), "\\fB%s\\fR", escaped);
            expect_in(strstr(page, ".SH OPTIONS"), part + 3, path);
        }
        ck_assert_int_ge(n, 3);
        free(page);
    }
    for (int i = 0; i < 3; i++) free(scripts[i]);
    end_folder();
}
END_TEST

static const struct {
    const char *script; /* NULL: the manual pages */
    const char *program, *line, *missing;
} checks[] = {
    { "bash", "bash", "bash -n bash", "bash is not installed" },
    { "zsh", "zsh", "zsh -n zsh", "zsh is not installed" },
    { "fish", "fish", "fish --no-execute fish", "fish is not installed" },
    { "bash", "shellcheck", "shellcheck -s bash bash", "shellcheck is not installed" },
    { NULL, "mandoc", "test -z \"$(mandoc -T lint man/*.1)\"", "mandoc is not installed" },
};
enum { N_CHECKS = sizeof(checks) / sizeof(checks[0]) };

START_TEST(other_programs_accept_them)
{
    if (!has_program(checks[_i].program)) SKIP(checks[_i].missing);
    begin_folder();
    if (checks[_i].script) {
        write_script(checks[_i].script);
    } else {
        make_folder("man");
        expect(0, "man man --date 2001-02-03");
    }
    ck_assert_msg(system(checks[_i].line) == 0, "%s", checks[_i].line);
    end_folder();
}
END_TEST

START_TEST(mistakes)
{
    begin_folder();
    expect(2, "completion");
    expect_err("lockstep completion: expected one of bash|zsh|fish\n");
    expect(2, "completion csh");
    expect(2, "completion bash zsh");
    expect(2, "man");
    expect_err("lockstep man: expected one folder\n");
    expect(1, "man nowhere");
    expect_err("lockstep man: nowhere/lockstep.1: No such file or directory\n");
    expect(0, "--help");
    ck_assert_ptr_null(strstr(said_out, "  man "));
    end_folder();
}
END_TEST

TEST_PROGRAM(completion)
{
    return both(
        RUN_SUITE("completion", bash_completes, scripts_and_pages_have_all_options, mistakes),
        run_loop("completion in other programs", other_programs_accept_them, N_CHECKS));
}
