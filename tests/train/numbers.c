/* numbers.c: see numbers.h. */
#include "numbers.h"
#include "../suite.h"

int read_numbers(FILE *file, double out[MOST_NUMBERS])
{
    char *line = NULL, *end;
    size_t size = 0;
    int n = 0;
    ck_assert_int_gt(getline(&line, &size, file), 0);
    for (char *at = line;; at = end) {
        const double x = strtod(at, &end);
        if (end == at) break;
        ck_assert_int_lt(n, MOST_NUMBERS);
        out[n++] = x;
    }
    free(line);
    return n;
}
