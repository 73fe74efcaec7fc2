/* name_pattern.c: see name_pattern.h. */
#include "data/dataset/name_pattern.h"

#include "base/c_locale.h"
#include "base/error.h"
#include "base/text.h"
#include <regex.h>
#include <stdlib.h>
#include <string.h>

/* regcomp's stack and memory grow with the nesting of groups and with the product of repetitions,
 * and patterns may come from checkpoints. */
static bool is_small(const char *pattern)
{
    enum { MAX_LENGTH = 1024, MAX_OPEN = 100, MAX_REPETITIONS = 1000 };
    int n_open = 0;
    int64_t repetitions = 1;
    if (strlen(pattern) > MAX_LENGTH) return false;
    for (const char *at = pattern; *at; at++) {
        n_open += *at == '(';
        if (*at != '{') continue;
        const int64_t low = strtoll(at + 1, NULL, 10);
        const char *comma = strpbrk(at, ",}");
        const int64_t high = comma && *comma == ',' ? strtoll(comma + 1, NULL, 10) : low;
        const int64_t max = low > high ? low : high;
        if (max > MAX_REPETITIONS) return false;
        repetitions *= max > 1 ? max : 1;
        if (repetitions > MAX_REPETITIONS) return false;
    }
    return n_open <= MAX_OPEN;
}

static ls_status compile(ls_context *ctx, const char *what, const char *pattern, regex_t *out)
{
    char reason[128];
    if (!is_small(pattern))
        return ls__fail(ctx, LS_ERR_INVALID,
                        "%s: the pattern '%.*s' is longer than 1024 bytes, or has more than 100 "
                        "groups or 1000 repetitions in all",
                        what, LS__CUT(pattern, 100));
    const int error = regcomp(out, pattern, REG_EXTENDED);
    if (error == REG_ESPACE) return ls__fail_memory(ctx, what, 0);
    if (error != 0) {
        regerror(error, out, reason, sizeof(reason));
        return ls__fail(ctx, LS_ERR_INVALID, "%s: the pattern '%s' is no regular expression: %s",
                        what, pattern, reason);
    }
    if (out->re_nsub == 1) return LS_OK;
    const size_t n = out->re_nsub;
    regfree(out);
    return ls__fail(ctx, LS_ERR_INVALID,
                    "%s: the pattern '%s' has %zu groups, expected one, in parentheses, such as "
                    "'([a-z]+)_[0-9]+'",
                    what, pattern, n);
}

ls_status ls__match_names(ls_context *ctx, const char *what, const char *pattern, int64_t n,
                          const char *const *names, ls__text_list *parts)
{
    LS__IN_C_LOCALE;
    regex_t regex;
    LS_TRY(compile(ctx, what, pattern, &regex));
    ls_status status = LS_OK;
    int64_t n_unmatched = 0;
    const char *unmatched = NULL;
    for (int64_t i = 0; i < n && status == LS_OK; i++) {
        regmatch_t found[2];
        const regmatch_t *part = &found[1]; /* of the group */
        const int error = regexec(&regex, names[i], 2, found, 0);
        if (error != 0 && error != REG_NOMATCH)
            status = ls__fail_memory(ctx, what, 0);
        else if (error == 0 && part->rm_so >= 0 && part->rm_eo > part->rm_so)
            status = ls__text_list_format(parts, what, "%.*s", (int)(part->rm_eo - part->rm_so),
                                          names[i] + part->rm_so);
        else if (n_unmatched++ == 0)
            unmatched = names[i];
    }
    regfree(&regex);
    if (status != LS_OK || n_unmatched == 0) return status;
    return ls__fail(ctx, LS_ERR_DATA,
                    "%s: the pattern '%s' does not match the paths of %lld of %lld images, such as "
                    "'%s'; expected a match in each path below the folder",
                    what, pattern, (long long)n_unmatched, (long long)n, unmatched);
}
