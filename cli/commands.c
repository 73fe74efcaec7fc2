/* commands.c: the list of commands, in the order of --help. */
#include "cli.h"

const cli_command *const commands[] = {
    &command_train,   &command_eval,       &command_predict, &command_describe,
    &command_compare, &command_repro,      &command_plot,    &command_pack,
    &command_export,  &command_demo_data,  &command_augment, &command_check,
    &command_lr_find, &command_completion, &command_man,     NULL
};
