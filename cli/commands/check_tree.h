/* check_tree.h: folders as they are and as they should be, drawn as two trees. */
#ifndef LS_CLI_COMMANDS_CHECK_TREE_H
#define LS_CLI_COMMANDS_CHECK_TREE_H

#include <lockstep/dataset_check.h>

/* Draws on stdout, side by side where both trees fit into the terminal, or into 80 columns. */
void check_print_trees(const char *dir, const ls_dataset_report *report);

#endif
