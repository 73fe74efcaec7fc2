/* search_values.c: the values of trials in a grid, and random ones. */
#include "arith/functions.h"
#include "base/random.h"
#include "experiment/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Draws ---- */

static double word_pair(uint32_t high, uint32_t low)
{
    const uint64_t k = ((uint64_t)high << 32 | low) >> 12;
    return ((double)k + 0.5) * 0x1p-52;
}

void ls__search_uniform(const ls_search *s, int64_t trial, int64_t parameter, uint32_t block,
                        double out[2])
{
    const char *name = s->parameters[parameter].name;
    uint32_t words[4];
    ls_random_words(s->config.seed,
                    &(ls_draw){ .stream = LS_RANDOM_SEARCH,
                                .sample = (uint64_t)trial,
                                .step = ls__hash(name, strlen(name), 0),
                                .block = block },
                    words);
    out[0] = word_pair(words[0], words[1]);
    out[1] = word_pair(words[2], words[3]);
}

/* ---- Values ---- */

double ls__search_round(const ls_search_parameter *p, double value)
{
    if (p->kind == LS_SEARCH_INTEGER) {
        value = floor(value + 0.5);
    } else {
        char text[32];
        snprintf(text, sizeof(text), "%.5e", value);
        value = strtod(text, NULL);
    }
    return fmin(fmax(value, p->low), p->high);
}

/* The value at a fraction of the range. */
static double at_fraction(const ls_search_parameter *p, double fraction)
{
    if (p->kind == LS_SEARCH_LOG)
        return ls__search_round(p, p->low * ls__exp2(fraction * ls__log2(p->high / p->low)));
    return ls__search_round(p, p->low + fraction * (p->high - p->low));
}

double ls__search_random_value(const ls_search *s, int64_t trial, int64_t parameter)
{
    const ls_search_parameter *p = &s->parameters[parameter];
    double u[2];
    ls__search_uniform(s, trial, parameter, 0, u);
    if (p->kind == LS_SEARCH_LIST) return floor(u[0] * (double)p->count);
    if (p->kind == LS_SEARCH_INTEGER) return p->low + floor(u[0] * (p->high - p->low + 1));
    return at_fraction(p, u[0]);
}

/* The number of values of a parameter; 0: a range of numbers, which does not end. */
static int64_t value_count(const ls_search_parameter *p)
{
    if (p->kind == LS_SEARCH_LIST) return p->count;
    if (p->kind == LS_SEARCH_INTEGER) return (int64_t)(p->high - p->low) + 1;
    return p->low == p->high ? 1 : 0;
}

int64_t ls__search_combination_count(const ls_search_config *c)
{
    const int64_t max = (int64_t)1 << 53;
    int64_t count = 1;
    for (int64_t i = 0; i < c->parameter_count; i++) {
        const int64_t n = value_count(&c->parameters[i]);
        if (n == 0 || count > max / n) return 0;
        count *= n;
    }
    return count;
}

int64_t ls__search_combination(const ls_search *s, int64_t trial)
{
    const int64_t n = s->config.parameter_count;
    int64_t combination = 0;
    for (int64_t i = 0; i < n; i++) {
        const ls_search_parameter *p = &s->parameters[i];
        const double value = s->values[trial * n + i];
        const int64_t at = p->kind == LS_SEARCH_LIST ? (int64_t)value : (int64_t)(value - p->low);
        combination = combination * value_count(p) + at;
    }
    return combination;
}

static int64_t grid_points(const ls_search_parameter *p)
{
    return p->count > 0 ? p->count : (int64_t)(p->high - p->low) + 1;
}

int64_t ls__search_grid_size(const ls_search_config *c)
{
    int64_t size = 1;
    for (int64_t i = 0; i < c->parameter_count && size <= LS_SEARCH_MAX_TRIALS; i++) {
        const int64_t n = grid_points(&c->parameters[i]);
        size = n > LS_SEARCH_MAX_TRIALS ? n : size * n;
    }
    return size;
}

double ls__search_grid_value(const ls_search *s, int64_t trial, int64_t parameter)
{
    for (int64_t i = s->config.parameter_count - 1; i > parameter; i--)
        trial /= grid_points(&s->parameters[i]);
    const ls_search_parameter *p = &s->parameters[parameter];
    const int64_t n = grid_points(p), i = trial % n;
    if (p->kind == LS_SEARCH_LIST) return (double)i;
    return n == 1 ? p->low : at_fraction(p, (double)i / (double)(n - 1));
}
