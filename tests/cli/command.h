/* command.h: runs the built command as a user would, and looks at what it said and left. */
#ifndef LS_TESTS_CLI_COMMAND_H
#define LS_TESTS_CLI_COMMAND_H

#include "../suite.h"
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A fresh folder under /tmp becomes the working folder, and is removed at the end. */
void begin_folder(void);
void end_folder(void);

/* What the last command printed. */
extern char said_out[1 << 16], said_err[1 << 16];

/* The next commands are begun with this signal ignored; 0: with none. */
extern int ignored_signal;

/* Runs "lockstep <line>", words split at spaces, and returns its exit status, or 128 + the signal
 * that ended it. */
int run_command(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* run_command, and the test fails unless it returns `status`. */
void expect(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same in two halves, for commands that are disturbed in between. file_limit > 0: no file may
 * grow beyond so many bytes. */
pid_t start_command(size_t file_limit, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int wait_command(pid_t pid);

/* The test fails unless what was printed contains this. */
void expect_out(const char *text);
void expect_err(const char *text);

void sleep_ms(long ms);

bool exists(const char *path);

#endif
