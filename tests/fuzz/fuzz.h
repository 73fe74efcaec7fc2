/* fuzz.h: what the fuzz targets share. A target is one source file that defines
 * LLVMFuzzerTestOneInput; it is linked with libFuzzer (LOCKSTEP_FUZZ) or with driver.c, which runs
 * the committed corpus as an ordinary test. */
#ifndef LS_TESTS_FUZZ_FUZZ_H
#define LS_TESTS_FUZZ_FUZZ_H

#include <lockstep/lockstep.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process when a condition that must hold for every input does not. */
#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #condition))
_Noreturn void fuzz_fail(const char *file, int line, const char *condition);

/* A context with one thread, opened by the first call. fuzz_context_close lets the next call open a
 * new one: for targets whose input changed something in it. */
ls_context *fuzz_context(void);
void fuzz_context_close(void);

/* Reads the context's error. One that an input caused must name the file: `name` is in its message.
 */
ls_status fuzz_error(const char *name);

/* Makes a file of these bytes in a folder of this process, which is removed when the process ends.
 * Returns its path, valid until the fourth call after. */
const char *fuzz_file(const char *name, const void *bytes, size_t n);
/* The path of a name in that folder, likewise. */
const char *fuzz_path(const char *name);
const char *fuzz_folder(void);

/* A seed for choices that a target makes, from all bytes of the input. */
uint32_t fuzz_seed(const uint8_t *data, size_t size);

#endif
