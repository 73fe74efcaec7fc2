/* main.c: the lockstep command: finds the verb and runs it. */
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const cli_verb *const verbs[] = { &verb_train,    &verb_eval,    &verb_predict,
                                         &verb_describe, &verb_compare, &verb_repro,
                                         &verb_plot,     &verb_pack,    &verb_demo_data };
enum { N_VERBS = sizeof(verbs) / sizeof(verbs[0]) };

static void print_usage(FILE *out)
{
    enum { SUMMARY_COLUMN = 13 };
    print_text(out, "usage: lockstep VERB [option...]\n\n");
    print_words(out, 0, 0,
                "Trains image networks. The result has the same bits for any number of threads and "
                "workers.");
    print_text(out, "\n");
    for (int i = 0; i < N_VERBS; i++) {
        print_text(out, "  %-*s", SUMMARY_COLUMN - 2, verbs[i]->name);
        print_words(out, SUMMARY_COLUMN, SUMMARY_COLUMN, verbs[i]->summary);
    }
    print_text(out, "\n");
    print_words(out, 0, 0,
                "'lockstep VERB --help' and 'lockstep help VERB' list a verb's options; 'lockstep "
                "--version' prints the version.");
}

/* If there is none of that name, prints the most similar name and returns NULL. */
static const cli_verb *find_verb(const char *word)
{
    const char *names[N_VERBS];
    for (int i = 0; i < N_VERBS; i++) {
        names[i] = verbs[i]->name;
        if (strcmp(word, names[i]) == 0) return verbs[i];
    }
    const char *meant = closest_word(word, N_VERBS, names);
    print_text(stderr, "lockstep: unknown verb '%s'", word);
    if (meant)
        print_text(stderr, "; did you mean '%s'?\n", meant);
    else
        print_text(stderr, "; 'lockstep --help' lists them\n");
    return NULL;
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const bool is_help =
        strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (strcmp(word, "--version") == 0) {
        print_text(stdout, "lockstep %s\n", ls_version());
        return EXIT_DONE;
    }
    if (argc < 2 || (is_help && argc == 2)) {
        print_usage(is_help ? stdout : stderr);
        return is_help ? EXIT_DONE : EXIT_USAGE;
    }
    const cli_verb *verb = find_verb(is_help ? argv[2] : word);
    if (!verb) return EXIT_USAGE;
    char help[] = "--help";
    return is_help ? verb->run(verb, 1, (char *[]){ help }) : verb->run(verb, argc - 2, argv + 2);
}

/* Opens standard files that the caller closed ("lockstep... >&-"). Otherwise the next file to be
 * opened, such as a checkpoint, would become stdout and receive printed text. They are opened in
 * the wrong direction, so that printing still fails and the failure is reported. */
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
    /* Lost output, for example on a full disk, must be reported. */
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return answer;
    print_text(stderr, "lockstep: writing standard output: %s\n",
               errno ? strerror(errno) : "text was lost");
    return answer != EXIT_DONE ? answer : EXIT_RUNTIME;
}
