/* child.h: child processes of this program that train, several at a time. */
#ifndef LS_CLI_EXPERIMENTS_CHILD_H
#define LS_CLI_EXPERIMENTS_CHILD_H

#include <stdint.h>
#include <sys/types.h>

enum { MAX_CHILDREN = 64 };

/* Handles SIGINT, SIGTERM, SIGQUIT and SIGHUP, unless they are ignored: sends SIGTERM to all
 * running children, which save and end. */
void child_catch_signals(void);
/* The signal that was caught; 0 = none. */
int child_signal(void);

/* Starts a process: argv ends with NULL, its output is appended to `log`. At most MAX_CHILDREN run
 * at a time. Returns 0 or an errno, EINTR after a signal was caught. */
int child_start(char **argv, const char *log, pid_t *pid);
/* Waits until a child ends. Returns 0 or an errno. */
int child_wait(pid_t *pid, int *status);
/* Sends SIGTERM to all running children. */
void child_stop_all(void);

/* Prints how a child ended that has failed, and the end of its log. Returns its exit status, or 128
 * + the number of the signal that ended it. */
int child_print_failure(const char *name, const char *log, int status);

/* Writes the first error that `lockstep train` printed after byte `from` of its log, or "". */
enum { CHILD_ERROR_SIZE = 256 };
void child_read_error(const char *log, int64_t from, char out[CHILD_ERROR_SIZE]);

/* "--NAME=NUMBER" */
enum { NUMBER_OPTION_SIZE = 48 };
char *child_number_option(const char *name, int64_t number, char out[NUMBER_OPTION_SIZE]);

#endif
