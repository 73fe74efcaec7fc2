/* session_log.h: log.txt in the folder of a run: the command line, the lines and the messages of
 * `lockstep train`, each after its time (UTC). Resumed runs append to it. */
#ifndef LS_CLI_RUNS_SESSION_LOG_H
#define LS_CLI_RUNS_SESSION_LOG_H

/* Keeps lines in memory from here on. argv: the options of `lockstep train`. */
void session_log_begin(int argc, char *const *argv);
/* Writes them, and later ones as they are printed, to DIR/log.txt. A failure is a warning. */
void session_log_open(const char *dir);
void session_log_close(void);

#endif
