/* closest.h: which word was meant. */
#ifndef LS_RUN_CLOSEST_H
#define LS_RUN_CLOSEST_H

/* The word among words[0..n-1] that is most similar to `word`; NULL if none is similar. */
const char *ls__closest_word(const char *word, int n, const char *const *words);

/* The end of a message about an unknown word: "; did you mean '--WORD'?" with the most similar word
 * after `dashes`, or `otherwise` if none is similar. Writes it to `out`, and returns out. */
enum { LS__HINT_SIZE = 96 };
const char *ls__closest_hint(const char *word, int n, const char *const *words, const char *dashes,
                             const char *otherwise, char out[LS__HINT_SIZE]);

#endif
