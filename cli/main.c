/* main.c: the lockstep command: finds the verb and runs it. */
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cli_verb *const verbs[] = {
    &verb_train,   &verb_eval,  &verb_predict, &verb_describe,
    &verb_compare, &verb_repro, &verb_pack,    &verb_demo_data
};
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

static void print_usage(FILE *out)
{
    fprintf(out, "usage: lockstep VERB [option...]\n\nTrains image networks: the same bits for any "
                 "number of threads and workers.\n\n");
    for (int i = 0; i < N_VERBS; i++)
        fprintf(out, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(out, "\n'lockstep VERB --help' lists a verb's options; 'lockstep --version' tells the "
                 "version.\n");
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "--version") == 0) {
        printf("lockstep %s\n", ls_version());
        return EXIT_DONE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    const char *names[N_VERBS];
    for (int i = 0; i < N_VERBS; i++) {
        names[i] = verbs[i]->name;
        if (strcmp(word, names[i]) == 0) return verbs[i]->run(verbs[i], argc - 2, argv + 2);
    }
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const char *meant = closest_word(word, N_VERBS, names);
    fprintf(stderr, "lockstep: unknown verb '%s'", word);
    if (meant)
        fprintf(stderr, "; did you mean '%s'?\n", meant);
    else
        fprintf(stderr, "; 'lockstep --help' lists them\n");
    return EXIT_USAGE;
}

/* Standard files that the caller closed ("lockstep ... >&-") are taken: else the first file that is
 * opened, a checkpoint say, would be one of them, and get what is printed. They are opened in the
 * wrong direction, so that printing still fails, and is told. */
static void take_standard_files(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0) return;
}

int main(int argc, char **argv)
{
    take_standard_files();
    signal(SIGXFSZ, SIG_IGN); /* writing beyond the file size limit fails with EFBIG instead */
    if (argc > 0) command_name = argv[0];
    const int answer = run(argc, argv);
    /* What was asked for must not be lost unnoticed, on a full disk say. */
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return answer;
    fprintf(stderr, "lockstep: writing standard output: %s\n",
            errno ? strerror(errno) : "text was lost");
    return answer != EXIT_DONE ? answer : EXIT_RUNTIME;
}
