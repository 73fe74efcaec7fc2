/* child.h: child processes that train, several at a time. */
#ifndef LS_EXPERIMENT_CHILD_H
#define LS_EXPERIMENT_CHILD_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

enum { LS__MAX_CHILDREN = 64 };

/* The running children of one experiment. Begins with all zero but `stop`. */
typedef struct ls__children {
    /* When *stop changes to a value other than 0, SIGTERM is sent to all running children, which
     * save and end. ls__child_wait reads it every few milliseconds. May be NULL. */
    const volatile sig_atomic_t *stop;
    sig_atomic_t passed;          /* the value of *stop that was passed on */
    pid_t pids[LS__MAX_CHILDREN]; /* 0 = free */
} ls__children;

/* Starts a process: argv ends with NULL, the program is found by PATH, its output is appended to
 * `log`. *child is its index, from 0 to LS__MAX_CHILDREN - 1, until it has been waited for. The
 * system sends the process SIGTERM if the calling thread ends. Returns 0 or an errno: EINTR if
 * *stop is not 0, EAGAIN for more than LS__MAX_CHILDREN. */
int ls__child_start(ls__children *children, char **argv, const char *log, int *child);
/* Waits until one of the children ends; other children of this process are left alone. Returns 0 or
 * an errno: ECHILD without a child, and where the process ignores SIGCHLD. */
int ls__child_wait(ls__children *children, int *child, int *status);
/* Sends SIGTERM to all running children. */
void ls__children_stop(const ls__children *children);

/* How a child ended that has failed. */
enum { LS__CHILD_END_SIZE = 48, LS__CHILD_TAIL_SIZE = 2049 };
typedef struct ls__child_failure {
    char how[LS__CHILD_END_SIZE];   /* "failed with status 3", "was ended by signal 9" */
    char tail[LS__CHILD_TAIL_SIZE]; /* the last lines of its log, as they are */
    int exit_status;                /* or 128 + the number of the signal */
} ls__child_failure;
void ls__child_read_failure(const char *log, int status, ls__child_failure *out);

/* Writes the first error that `lockstep train` printed after byte `from` of its log, or "". */
enum { LS__CHILD_ERROR_SIZE = 256 };
void ls__child_read_error(const char *log, int64_t from, char out[LS__CHILD_ERROR_SIZE]);

#endif
