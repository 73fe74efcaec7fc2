/* crash_calls.h: every call by which a run changes files, noted, and the process killed at one of
 * them. The test program is linked with --wrap for each of these calls. */
#ifndef LS_TESTS_RUN_CRASH_CALLS_H
#define LS_TESTS_RUN_CRASH_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef enum call_kind {
    CALL_CREATE, /* open with O_CREAT of a file that was not there; linkat of one without a name,
                    whose `to` is set */
    CALL_WRITE,  /* write, pwrite */
    CALL_FSYNC,
    CALL_TRUNCATE,
    CALL_RENAME,
    CALL_LINK,
    CALL_UNLINK,
    CALL_MKDIR,
    N_CALL_KINDS
} call_kind;

enum { MAX_CALLS = 8192, CALL_PATH = 160 };

typedef struct call {
    call_kind kind;
    bool folder;                         /* of an fsync */
    bool dirty;                          /* of a rename: something of the file was not flushed */
    ino_t file;                          /* of what was written, flushed, cut or renamed */
    int64_t size;                        /* of the file after the call */
    char path[CALL_PATH], to[CALL_PATH]; /* of what was created, renamed, linked or removed */
} call;

typedef enum crash {
    CRASH_BEFORE_CALL,
    CRASH_IN_CALL /* a write: after half of its bytes; another call: after it */
} crash;

/* In memory that the processes share. */
typedef struct call_trace {
    int n, kill_at; /* the call with this number is the last one; -1 = none */
    crash how;
    const char *shadow; /* folder that keeps what renames replace */
    call calls[MAX_CALLS];
} call_trace;

/* From here on this process's calls are noted there. */
void trace_calls(call_trace *trace);

/* What the i-th call was about, without folders: where it is a temporary file, what that became;
 * "/" for a folder that was flushed. */
const char *call_file(const call_trace *trace, int i);

/* Worth dying at: all calls but those writes that follow another one to the same file, of which
 * only the middle one is. */
bool is_worth_dying(const call_trace *trace, int i);

/* What is left of folder `dir` when the power fails right after the traced process has died: of
 * each file, nothing that was not flushed; of names, nothing since the folder was last flushed, or,
 * with keep_names, all of it. Lost bytes within a file that keeps its name are zeros. */
void cut_power(const call_trace *trace, const char *dir, bool keep_names);

#endif
