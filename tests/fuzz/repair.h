/* repair.h: lets inputs pass checks that no mutation would: numbers of this machine, hashes. */
#ifndef LS_TESTS_FUZZ_REPAIR_H
#define LS_TESTS_FUZZ_REPAIR_H

#include <jansson.h>

/* Replaces each text "@" in `there` by the value that has its place in `here`. */
void fuzz_fill(json_t *there, const json_t *here);

/* The same for JSON that is a text itself: object[key]. Text that is not JSON stays as it is. */
void fuzz_fill_text(json_t *object, const char *key, const json_t *here);

#endif
