/* main.c: the lockstep command: runs the command that the first word names. */
#include "cli.h"
#include "runs/runs.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const cli_command *const commands[] = {
    &command_train,      &command_sweep,     &command_eval,
    &command_predict,    &command_describe,  &command_compare,
    &command_repro,      &command_plot,      &command_pack,
    &command_export,     &command_demo_data, &command_augment,
    &command_check,      &command_lr_find,   &command_report,
    &command_completion, &command_man,       NULL
};

static void print_usage(FILE *out)
{
    enum { SUMMARY_COLUMN = 14 };
    print_text(out, "usage: lockstep COMMAND [option...]\n\n");
    print_words(out, 0, 0,
                "Trains image networks. The results are bit-identical for any number of threads "
                "and data-loader workers.");
    print_text(out, "\n");
    for (int i = 0; commands[i]; i++) {
        if (commands[i]->hidden) continue;
        print_text(out, "  %-*s", SUMMARY_COLUMN - 2, commands[i]->name);
        print_words(out, SUMMARY_COLUMN, SUMMARY_COLUMN, commands[i]->summary);
    }
    print_text(out, "\n");
    print_words(
        out, 0, 0,
        "'lockstep COMMAND --help' and 'lockstep help COMMAND' list a command's options; 'lockstep "
        "--version' prints the version.");
}

/* If there is none of that name, prints the most similar name and returns NULL. */
static const cli_command *find_command(const char *word)
{
    enum { MAX_COMMANDS = 64 };
    const char *names[MAX_COMMANDS];
    int n = 0;
    for (; n < MAX_COMMANDS && commands[n]; n++) {
        names[n] = commands[n]->name;
        if (strcmp(word, names[n]) == 0) return commands[n];
    }
    char hint[LS_HINT_SIZE];
    print_text(stderr, "lockstep: unknown command '%s'%s\n", word,
               ls_closest_hint(word, n, names, "", "; 'lockstep --help' lists the commands", hint));
    return NULL;
}

static int run(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "";
    const bool is_help =
        strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
    if (strcmp(word, "--version") == 0) {
        print_text(stdout, "lockstep %s\n", ls_version());
        return LS_EXIT_DONE;
    }
    if (argc < 2 || (is_help && argc == 2)) {
        print_usage(is_help ? stdout : stderr);
        return is_help ? LS_EXIT_DONE : LS_EXIT_USAGE;
    }
    const cli_command *command = find_command(is_help ? argv[2] : word);
    if (!command) return LS_EXIT_USAGE;
    command_name = command->name;
    if (!log_levels_read(getenv("LOCKSTEP_LOG"))) return LS_EXIT_USAGE;
    if (command != &command_train && !ranks_check_single()) return LS_EXIT_USAGE;
    char help[] = "--help";
    return is_help ? cli_run_command(command, 1, (char *[]){ help })
                   : cli_run_command(command, argc - 2, argv + 2);
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
    set_commands(commands);
    signal(SIGXFSZ, SIG_IGN); /* writing beyond the file size limit fails with EFBIG instead */
    const int exit_status = run(argc, argv);
    /* Lost output, for example on a full disk, must be reported. */
    const int error = print_finish();
    if (!error) return exit_status;
    const char *reason = strerror(error);
    print_text(stderr, "lockstep: writing standard output: %s%s\n", reason, limit_hint(reason));
    return exit_status != LS_EXIT_DONE ? exit_status : LS_EXIT_RUNTIME;
}
