/* run_files.h: what runs leave behind, read and compared; a test fails where it is not as wanted.
 */
#ifndef LS_TESTS_CLI_RUN_FILES_H
#define LS_TESTS_CLI_RUN_FILES_H

#include <jansson.h>

/* Steps in a run's log; 0 where there is none yet. */
long count_steps(const char *run);
/* A line of a metrics.jsonl, from 0; NULL where there is none. */
json_t *read_row(const char *path, int line);
double number(const json_t *row, const char *key);
/* The numbers of two runs are equal, except times. */
void expect_same_metrics(const char *a, const char *b, int n_rows);
json_t *read_identity(const char *manifest);
/* Two checkpoints hold the same. */
void expect_same_tensors(const char *a, const char *b);

#endif
