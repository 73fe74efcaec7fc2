/* sweep_words.c: the command lines of trials; see sweep.h. */
#include "sweep.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds "--NAME=VALUE"; false without memory. */
static bool add_word(char **words, int *n, const cli_option *option, const char *value)
{
    if (asprintf(&words[*n], "--%s=%s", option->name, value) < 0) return words[*n] = NULL, false;
    ++*n;
    return true;
}

void sweep_free_words(char **words)
{
    for (int i = 0; words && words[i]; i++) free(words[i]);
    free(words);
}

typedef enum which_words { OF_TRIAL, SAMPLE, EXECUTION } which_words;

/* SAMPLE: the first value of each list and the lower end of each range. EXECUTION: only options
 * that cannot change a result, which may also be given when a run is resumed. */
static char **make_words(const sweep *s, int64_t trial, which_words which)
{
    const sweep_file *f = s->file;
    char **words = calloc((size_t)(f->n_fixed + f->n_searched) + 1, sizeof(*words));
    int n = 0;
    bool good = words != NULL;
    for (int i = 0; good && i < f->n_fixed; i++)
        if (which != EXECUTION || f->fixed[i].option->execution)
            good = add_word(words, &n, f->fixed[i].option, f->fixed[i].text);
    for (int i = 0; good && which != EXECUTION && i < f->n_searched; i++) {
        char text[SWEEP_VALUE_SIZE];
        good = add_word(words, &n, f->searched[i].option,
                        which == SAMPLE ? sweep_first_text(&f->searched[i], text)
                                        : sweep_value_text(s, trial, i, text));
    }
    if (good) return words;
    sweep_free_words(words);
    print_error(NULL, EXIT_RUNTIME);
    return NULL;
}

char **sweep_trial_words(const sweep *s, int64_t trial)
{
    return make_words(s, trial, OF_TRIAL);
}

char **sweep_sample_words(const sweep *s)
{
    return make_words(s, 0, SAMPLE);
}

bool sweep_parse_words(char **words, recipe *r)
{
    cli_parsed parsed;
    int n = 0;
    while (words[n]) n++;
    *r = (recipe){ 0 };
    return options_parse(&command_train, n, words, r, &parsed) < 0 && recipe_resolve(&parsed, r);
}

char **sweep_resume_words(const sweep *s)
{
    return make_words(s, 0, EXECUTION);
}
