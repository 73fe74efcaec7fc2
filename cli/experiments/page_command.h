/* page_command.h: command lines in the pages of reports. */
#ifndef LS_CLI_EXPERIMENTS_PAGE_COMMAND_H
#define LS_CLI_EXPERIMENTS_PAGE_COMMAND_H

#include "report/html.h"
#include <stdbool.h>

/* The words, which end with NULL, as print_command_line prints them. False without memory. */
bool page_put_command(ls__html *html, const char *const *words);

#endif
