/* corpus.h: what the sources of make_fuzz_corpus share. */
#ifndef LS_TESTS_FUZZ_CORPUS_H
#define LS_TESTS_FUZZ_CORPUS_H

#include "../data/support.h"

extern const char *corpus_root;

/* Writes the file ROOT/TARGET/NAME. */
void put(const char *target, const char *name, const void *bytes, size_t n);
#define PUT_TEXT(target, name, text) put(target, name, text, sizeof(text) - 1)

void make_jpegs(void);
void make_pngs(void);
void make_bmps(void);
void make_pnms(void);
void make_webps(void);

void make_packs(void);
void make_lists(void);
void make_checkpoints(void);
void make_tensors(void);
void make_torch_files(void);
void make_texts(void);

#endif
