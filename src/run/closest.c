/* closest.c: which word was meant; see lockstep/settings.h. */
#include <lockstep/settings.h>

#include <stdbool.h>

#include "base/minmax.h"
#include "base/text.h"
#include <string.h>

/* Edits (insert, delete, replace, swap neighbours) from one word to another; words beyond 31
 * letters count as far apart. */
static int edit_distance(const char *a, const char *b)
{
    enum { SIZE = 32 };
    int d[SIZE][SIZE];
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n >= SIZE || m >= SIZE) return SIZE;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = ls__min_int(ls__min_int(d[i - 1][j], d[i][j - 1]) + 1,
                                  d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = ls__min_int(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

/* The most similar of the words; NULL if none is similar. */
static const char *closest_word(const char *word, int n, const char *const *words)
{
    const char *best = NULL;
    int min = 2 + (int)strlen(word) / 4; /* so many slips are forgiven, one less below */
    for (int i = 0; i < n; i++) {
        const size_t word_length = strlen(word), length = strlen(words[i]);
        const size_t shorter = word_length < length ? word_length : length;
        const bool begins = shorter >= 3 && memcmp(word, words[i], shorter) == 0;
        const int distance = begins ? 1 : edit_distance(word, words[i]);
        if (distance < min) {
            min = distance;
            best = words[i];
        }
    }
    return best;
}

const char *ls_closest_hint(const char *word, int n, const char *const *words, const char *dashes,
                            const char *otherwise, char out[LS_HINT_SIZE])
{
    const char *closest = closest_word(word, n, words);
    if (closest)
        ls__snprintf(out, LS_HINT_SIZE, "; did you mean '%s%s'?", dashes, closest);
    else
        ls__snprintf(out, LS_HINT_SIZE, "%s", otherwise);
    return out;
}
