/* command_list.c: the list that main has, for commands that describe all commands. */
#include "cli.h"

static const cli_command *const *commands;

void set_commands(const cli_command *const *list)
{
    commands = list;
}

const cli_command *command_at(int i)
{
    return commands[i];
}
