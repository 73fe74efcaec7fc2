/* dataset_split.c: a dataset's samples divided into training and validation, class by class; see
 * ls_dataset_split. A unit is what stays together: the samples of one image, or of one group. */
#include "data/dataset/dataset.h"

#include "base/error.h"
#include "base/hash.h"
#include "data/dataset/groups.h"
#include <lockstep/random.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char what[] = "ls_dataset_split";

/* ---- Choosing the validation samples ---- */

typedef struct ranked {
    uint64_t rank;    /* random: the units are visited in this order */
    const char *name; /* of the unit, by which the rank is keyed; NULL: the number of its sample */
    bool named_by_group;
    int64_t unit; /* its first sample */
    int32_t label;
    int64_t image, sample;
} ranked;

/* A class; the last one of samples without labels. */
typedef struct class_count {
    int64_t n_images, n_wanted, n_chosen; /* wanted and chosen for validation */
    int64_t best;                         /* -1, or where its best unit begins: see add_missing */
    double best_cost;
} class_count;

typedef struct choice {
    const ls_dataset *dataset;
    ranked *samples; /* unit by unit */
    class_count *classes;
    bool *is_validation;
    int64_t n_chosen, n_units;
} choice;

static int compare_ranked(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    const int order = x->name ? strcmp(x->name, y->name) : 0;
    if (order != 0) return order;
    if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    if (x->image != y->image) return x->image < y->image ? -1 : 1;
    return (x->sample > y->sample) - (x->sample < y->sample);
}

static uint64_t rank_of(const char *name, int64_t number, uint64_t seed)
{
    const uint64_t key = name ? ls__hash(name, strlen(name), 0) : (uint64_t)number;
    const ls_draw draw = { .stream = LS_RANDOM_SPLIT, .sample = key, .step = key >> 40 };
    uint32_t words[4];
    ls_random_words(seed, &draw, words);
    return (uint64_t)words[0] << 32 | words[1];
}

/* The name of a sample's group or image; NULL: it has no path. */
static const char *name_of(const ls_dataset *dataset, int64_t i)
{
    const char *group = ls__group_of(dataset, i);
    return group ? group : dataset->paths ? ls__dataset_name(dataset, i) : NULL;
}

/* unit[i]: the first sample of the unit of sample i. A unit has the first name of its groups in
 * byte order, and without groups that of its images, so that the order of the samples does not
 * matter. */
static void rank_units(choice *c, const int64_t *image, const int64_t *unit, uint64_t seed)
{
    const ls_dataset *d = c->dataset;
    ranked *s = c->samples;
    for (int64_t i = 0; i < d->n_samples; i++) {
        const bool is_group = ls__group_of(d, i) != NULL;
        s[i] = (ranked){ 0, name_of(d, i), is_group, unit[i], d->labels[i], image[i], i };
        ranked *first = &s[unit[i]];
        if (first == &s[i] || !s[i].name) continue;
        if (is_group != first->named_by_group ? !is_group : strcmp(s[i].name, first->name) >= 0)
            continue;
        first->name = s[i].name;
        first->named_by_group = is_group;
    }
    for (int64_t i = 0; i < d->n_samples; i++) {
        s[i].name = s[unit[i]].name;
        s[i].rank = unit[i] == i ? rank_of(s[i].name, i, seed) : s[unit[i]].rank;
    }
    qsort(s, (size_t)d->n_samples, sizeof(*s), compare_ranked);
}

static class_count *class_of(const choice *c, const ranked *sample)
{
    return &c->classes[sample->label < 0 ? c->dataset->n_classes : sample->label];
}

static int64_t unit_end(const choice *c, int64_t begin)
{
    int64_t end = begin;
    while (end < c->dataset->n_samples && c->samples[end].unit == c->samples[begin].unit) end++;
    return end;
}

/* The number of images of the class of sample `begin` in its unit; *next: after its samples. */
static int64_t count_images(const choice *c, int64_t begin, int64_t *next)
{
    const ranked *s = c->samples, *first = &s[begin];
    int64_t n = 0, i = begin;
    for (; i < c->dataset->n_samples && s[i].unit == first->unit && s[i].label == first->label; i++)
        n += i == begin || s[i].image != s[i - 1].image;
    *next = i;
    return n;
}

/* The number of validation images of a class of n. */
static int64_t validation_count(int64_t n, double fraction)
{
    const int64_t rounded = (int64_t)floor((double)n * fraction + 0.5);
    const int64_t min = n > 1;
    return rounded < min ? min : rounded > n - 1 ? n - 1 : rounded;
}

static void count_classes(choice *c, double fraction)
{
    for (int64_t i = 0, next; i < c->dataset->n_samples; i = next) {
        c->n_units += i == 0 || c->samples[i].unit != c->samples[i - 1].unit;
        class_of(c, &c->samples[i])->n_images += count_images(c, i, &next);
    }
    for (int i = 0; i <= c->dataset->n_classes; i++)
        c->classes[i].n_wanted = validation_count(c->classes[i].n_images, fraction);
}

/* The change of the sum over classes of (chosen - wanted)^2 / wanted, the statistic of the
 * chi-squared test, if the unit is chosen; INFINITY: it holds all images for training of a class.
 */
static double cost_of(const choice *c, int64_t begin)
{
    double cost = 0;
    for (int64_t i = begin, next, end = unit_end(c, begin); i < end; i = next) {
        const class_count *class = class_of(c, &c->samples[i]);
        const int64_t n = count_images(c, i, &next), chosen = class->n_chosen + n;
        if (chosen >= class->n_images) return INFINITY;
        const double before = (double)(class->n_chosen - class->n_wanted);
        const double after = (double)(chosen - class->n_wanted);
        cost += (after - before) * (after + before) / (double)class->n_wanted;
    }
    return cost;
}

static void choose_unit(choice *c, int64_t begin)
{
    for (int64_t i = begin, next, end = unit_end(c, begin); i < end; i = next) {
        class_of(c, &c->samples[i])->n_chosen += count_images(c, i, &next);
        for (int64_t k = i; k < next; k++) c->is_validation[c->samples[k].sample] = true;
        c->n_chosen += next - i;
    }
}

/* For classes whose groups are all too large, the unit that costs least. */
static void add_missing(choice *c)
{
    const int64_t n = c->dataset->n_samples;
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = unit_end(c, begin);
        const double cost = cost_of(c, begin);
        if (c->is_validation[c->samples[begin].sample] || isinf(cost)) continue;
        for (int64_t i = begin, next; i < end; i = next) {
            class_count *class = class_of(c, &c->samples[i]);
            count_images(c, i, &next);
            if (class->n_chosen > 0 || (class->best >= 0 && class->best_cost <= cost)) continue;
            class->best = begin;
            class->best_cost = cost;
        }
    }
    for (int i = 0; i <= c->dataset->n_classes; i++) {
        const class_count *class = &c->classes[i];
        if (class->best >= 0 && class->n_chosen == 0 && !isinf(cost_of(c, class->best)))
            choose_unit(c, class->best);
    }
}

static void warn_missing(const choice *c)
{
    int64_t n_single = 0, n_joined = 0;
    const char *single = NULL, *joined = NULL;
    for (int i = 0; i < c->dataset->n_classes; i++) {
        const class_count *class = &c->classes[i];
        const char *name = c->dataset->class_names[i];
        if (class->n_chosen > 0 || class->n_images == 0) continue;
        if (class->n_images == 1 && n_single++ == 0) single = name;
        if (class->n_images > 1 && n_joined++ == 0) joined = name;
    }
    if (n_single > 0)
        ls__warn(c->dataset->owned.ctx, LS_LOG_DATA,
                 "%s: classes with one sample: %lld, such as '%s'; it stays in training, so "
                 "validation does not cover the class",
                 what, (long long)n_single, single);
    if (n_joined > 0)
        ls__warn(c->dataset->owned.ctx, LS_LOG_DATA,
                 "%s: classes whose images are all in one group, or in groups without which "
                 "another class has no training images: %lld, such as '%s'; they stay in "
                 "training, so validation does not cover the class",
                 what, (long long)n_joined, joined);
}

/* Images with samples of several classes. */
static void warn_classes(const choice *c)
{
    int64_t n = 0;
    const ranked *one = NULL, *other = NULL;
    for (int64_t i = 0; i < c->dataset->n_samples; i++) {
        const ranked *s = &c->samples[i];
        const int32_t label = c->dataset->labels[s->image];
        if (s->label == label || s->label < 0 || label < 0) continue;
        if (n++ == 0) other = s;
    }
    for (int64_t i = 0; other && !one; i++)
        if (c->samples[i].sample == other->image) one = &c->samples[i];
    if (!other) return;
    ls__warn(c->dataset->owned.ctx, LS_LOG_DATA,
             "%s: %lld sample%s of images that have another class, too: '%s' has '%s' and '%s'",
             what, (long long)n, n == 1 ? "" : "s", c->dataset->paths[other->sample],
             c->dataset->class_names[one->label], c->dataset->class_names[other->label]);
}

static ls_status choose(choice *c, double fraction)
{
    const int64_t n = c->dataset->n_samples;
    count_classes(c, fraction);
    for (int64_t begin = 0, end; begin < n; begin = end) {
        end = unit_end(c, begin);
        if (cost_of(c, begin) < 0) choose_unit(c, begin);
    }
    add_missing(c);
    warn_classes(c);
    if (c->n_chosen > 0) {
        warn_missing(c);
        return LS_OK;
    }
    if (ls__dataset_whole(c->dataset)->groups)
        return ls__fail(c->dataset->owned.ctx, LS_ERR_DATA,
                        "%s: no class has two groups that can be divided: of %lld samples in %lld "
                        "groups none is left for validation, because each class keeps images for "
                        "training",
                        what, (long long)n, (long long)c->n_units);
    return ls__fail(c->dataset->owned.ctx, LS_ERR_DATA,
                    "%s: no class has two images: of %lld samples in %d classes none is left for "
                    "validation, because each class keeps one for training",
                    what, (long long)n, c->dataset->n_classes);
}

/* Sets is_validation of each sample, and counts those. Errors as ls_dataset_split. */
static ls_status choose_validation(ls_dataset *dataset, double fraction, uint64_t seed,
                                   bool *is_validation, int64_t *n_chosen)
{
    ls_context *ctx = dataset->owned.ctx;
    const size_t n = (size_t)dataset->n_samples, n_classes = (size_t)dataset->n_classes + 1;
    choice c = { .dataset = dataset, .is_validation = is_validation };
    c.samples = ls__alloc(ctx, n * sizeof(*c.samples));
    c.classes = ls__zalloc(ctx, n_classes * sizeof(*c.classes));
    int64_t *image = ls__alloc(ctx, n * sizeof(*image)), *unit = ls__alloc(ctx, n * sizeof(*unit));
    ls_status status = LS_OK;
    if (c.samples && c.classes && image && unit) {
        memset(is_validation, 0, n * sizeof(*is_validation));
        for (size_t i = 0; i < n_classes; i++) c.classes[i].best = -1;
        status = ls__find_images(dataset, what, image);
        if (status == LS_OK) status = ls__join_groups(dataset, what, image, unit);
        if (status == LS_OK) rank_units(&c, image, unit, seed);
        if (status == LS_OK) status = choose(&c, fraction);
    } else {
        status = ls__fail_memory(ctx, what, n * sizeof(*c.samples));
    }
    ls__free(ctx, c.samples);
    ls__free(ctx, c.classes);
    ls__free(ctx, image);
    ls__free(ctx, unit);
    *n_chosen = c.n_chosen;
    return status;
}

/* ---- The split datasets ---- */

/* The samples where is_validation is `validation`. */
static ls_dataset *open_split(ls_dataset *dataset, const bool *is_validation, bool validation,
                              int64_t n)
{
    ls_context *ctx = dataset->owned.ctx;
    ls_dataset *out = ls__dataset_open(ctx, what);
    if (!out) return NULL;
    const char *grouped_by = ls__dataset_whole(dataset)->grouped_by;
    out->whole = (ls_dataset *)ls__dataset_whole(dataset);
    ls__use(out->whole);
    out->grouped_by = grouped_by ? ls__bump_strdup(&out->bump, grouped_by) : NULL;
    out->grouped_by_pattern = out->whole->grouped_by_pattern;
    out->channels = dataset->channels;
    out->in_class_folders = dataset->in_class_folders;
    out->is_validation = validation;
    out->labels = ls__bump_alloc(&out->bump, (size_t)n * sizeof(*out->labels));
    out->source_samples = ls__bump_alloc(&out->bump, (size_t)n * sizeof(*out->source_samples));
    if (dataset->paths) out->paths = ls__bump_alloc(&out->bump, (size_t)n * sizeof(*out->paths));
    if (!out->labels || !out->source_samples || (dataset->paths && !out->paths) ||
        (grouped_by && !out->grouped_by) ||
        !ls__dataset_name_classes(out, dataset->n_classes,
                                  (const char *const *)dataset->class_names)) {
        ls__fail_memory(ctx, what, (size_t)n * sizeof(*out->source_samples));
        ls_dataset_close(&out);
        return NULL;
    }
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        if (is_validation[i] != validation) continue;
        const int64_t to = out->n_samples++;
        int64_t number = i;
        ls__dataset_source(dataset, &number);
        out->labels[to] = dataset->labels[i];
        out->source_samples[to] = number;
        if (out->paths) out->paths[to] = dataset->paths[i];
    }
    return out;
}

static ls_status check(ls_dataset *dataset, double fraction, ls_dataset **train,
                       ls_dataset **validation)
{
    ls_context *ctx = dataset->owned.ctx;
    if (!train || !validation)
        return ls__fail(ctx, LS_ERR_INVALID, "%s: %s is NULL", what,
                        train ? "validation" : "train");
    if (!(fraction > 0 && fraction < 1))
        return ls__fail(ctx, LS_ERR_INVALID, "%s: fraction is %g, expected more than 0, below 1",
                        what, fraction);
    const bool has_targets = ls_dataset_target_count(dataset) > 0;
    for (int64_t i = 0; i < dataset->n_samples && !has_targets; i++)
        if (dataset->labels[i] < 0)
            return ls__fail(ctx, LS_ERR_INVALID, "%s: sample %lld has no label", what,
                            (long long)i);
    return LS_OK;
}

ls_status ls_dataset_split(ls_dataset *dataset, double fraction, uint64_t seed, ls_dataset **train,
                           ls_dataset **validation)
{
    if (train) *train = NULL;
    if (validation) *validation = NULL;
    ls_context *ctx = dataset ? dataset->owned.ctx : NULL;
    LS__ENTER(ctx);
    LS_TRY(check(dataset, fraction, train, validation));
    const int64_t n = dataset->n_samples;
    bool *is_validation = ls__alloc(ctx, (size_t)n * sizeof(*is_validation));
    if (!is_validation) return ls__fail_memory(ctx, what, (size_t)n * sizeof(*is_validation));
    int64_t n_chosen;
    if (choose_validation(dataset, fraction, seed, is_validation, &n_chosen) == LS_OK) {
        *train = open_split(dataset, is_validation, false, n - n_chosen);
        *validation = open_split(dataset, is_validation, true, n_chosen);
    }
    ls__free(ctx, is_validation);
    if (*train && *validation) {
        (*train)->split_fraction = (*validation)->split_fraction = fraction;
        (*train)->split_seed = (*validation)->split_seed = seed;
        return LS_OK;
    }
    ls_dataset_close(train);
    ls_dataset_close(validation);
    return ctx->error;
}
