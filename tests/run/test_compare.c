/* test_compare.c: where two runs part is named exactly, and where they do not part nothing is. */
#include "../failing_allocator.h"
#include "../suite.h"
#include "compare_sides.h"
#include "optim/optimizer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 7, MOST_OPS = 128 };

static char *dir; /* of one test: Check runs each in a process of its own */

/* Runs STEPS steps and writes their record. */
static void write_run(const char *name, const side_options *options)
{
    opened_side s = open_side(options);
    const char *path = path_in(dir, "%s", name);
    ls_run_log *record = ls_run_log_open(s.ctx, path, 0);
    for (int64_t i = 0; i < STEPS; i++) {
        const int64_t epoch = i / side_steps_per_epoch(), step = i % side_steps_per_epoch();
        ls_batch batch;
        ls_step_digest digest;
        if (step == 0) ls_loader_start(s.side.loader, epoch);
        ck_assert(ls_loader_next(s.side.loader, &batch));
        ls_net_step(s.side.net, s.side.optimizer, &batch, ls_schedule_lr(s.schedule, epoch, step));
        ls_net_digest(s.side.net, &batch, &digest);
        ls_run_log_append(record, &digest);
    }
    ck_assert_msg(ls_context_status(s.ctx) == LS_OK, "%s", ls_context_message(s.ctx));
    ls_context_close(&s.ctx);
}

/* The step at which two records part, or -1. */
static int64_t first_difference(const char *a, const char *b)
{
    const char *path_a = path_in(dir, "%s", a), *path_b = path_in(dir, "%s", b);
    ls_context *ctx = ls_context_open(NULL);
    ls_run_log_difference difference;
    ck_assert_int_eq(ls_run_log_compare(ctx, path_a, path_b, &difference), LS_OK);
    ls_context_close(&ctx);
    return difference.step;
}

/* Two opened runs and what was found; close_pair. */
typedef struct pair {
    opened_side sides[2];
    ls__compare_side compared[2];
    ls__finding finding;
} pair;

static pair compare_at(const side_options *a, const side_options *b, int64_t step)
{
    pair p = { .sides = { open_side(a), open_side(b) } };
    for (int i = 0; i < 2; i++) p.compared[i] = p.sides[i].side;
    const ls_status status = ls__compare_runs(p.compared, step, &p.finding);
    ck_assert_msg(status == LS_OK, "%s / %s", ls_context_message(p.sides[0].ctx),
                  ls_context_message(p.sides[1].ctx));
    return p;
}

static void close_pair(pair *p)
{
    for (int i = 0; i < 2; i++) ls_context_close(&p->sides[i].ctx);
}

/* As a user would: what no record shows is looked for one step before. */
static pair find_difference(const side_options *a, const side_options *b, int64_t step)
{
    pair p = compare_at(a, b, step);
    while (p.finding.found == LS__FOUND_EARLIER && p.finding.step > 0) {
        step = p.finding.step - 1;
        close_pair(&p);
        p = compare_at(a, b, step);
    }
    return p;
}

/* ---- Injections ---- */

/* How many elements of each op a fault may hit; returns how many ops there are. */
static int count_elements(const side_options *options, int64_t out[MOST_OPS])
{
    opened_side s = open_side(options);
    ls_batch batch;
    ls_loader_start(s.side.loader, 0);
    ck_assert(ls_loader_next(s.side.loader, &batch));
    ck_assert_int_eq(ls__net_step_begin(s.side.net, &s.side.optimizer->update, &batch, 0.1), LS_OK);
    ls__trace_op op;
    int n = 0;
    for (; ls__net_step_op(s.side.net, &op); n++) {
        ck_assert_int_lt(n, MOST_OPS);
        out[n] = ls__net_injectable_elements(s.side.net, &op);
        ck_assert_int_eq(ls__net_step_next(s.side.net), LS_OK);
    }
    ls_context_close(&s.ctx);
    return n;
}

static side_options any_settings(uint64_t *state)
{
    return (side_options){ .threads = 1 + (int)draw(state, 3), .workers = (int)draw(state, 3) };
}

static void expect_named(const pair *p, const ls__injected_fault *fault, int faulty)
{
    const ls__finding *f = &p->finding;
    const ls__trace_op *op = &f->ops[faulty];
    ck_assert_msg(f->found == LS__FOUND_OP, "op %lld element %lld of step %lld: found %d",
                  (long long)fault->op, (long long)fault->element, (long long)fault->step,
                  (int)f->found);
    ck_assert_int_eq(f->epoch, fault->epoch);
    ck_assert_int_eq(f->step_in_epoch, fault->step);
    ck_assert_msg(op->number == fault->op && f->fault_element == fault->element,
                  "op %lld element %lld; found op %d (%s '%s') element %lld", (long long)fault->op,
                  (long long)fault->element, op->number, op->kind, op->name,
                  (long long)f->fault_element);
    ck_assert_int_eq(f->n_different, 1);
    ck_assert_uint_eq(f->ulps, 1);
    if (f->value.dtype == LS_F32) ck_assert_double_gt(f->values[faulty], f->values[1 - faulty]);
}

/* One ulp in a random element of a random op at a random step, on either side. Those that change
 * the record are named exactly; others the records call identical. */
START_TEST(every_injection_that_shows_is_named)
{
    enum { WANTED = 100, MOST = 400 };
    dir = new_folder();
    int64_t n_elements[MOST_OPS];
    const int n_ops = count_elements(&(side_options){ .threads = 2 }, n_elements);
    write_run("clean", &(side_options){ .threads = 2 });
    uint64_t state = 2024;
    int n_named = 0, n_silent = 0;
    bool hit[MOST_OPS] = { false };
    while (n_named < WANTED && n_named + n_silent < MOST) {
        const int64_t step = draw(&state, STEPS), op = draw(&state, (uint32_t)n_ops);
        if (n_elements[op] == 0) continue;
        /* The last batch of an epoch is smaller: there the element may not exist. */
        const bool is_partial = step % side_steps_per_epoch() == side_steps_per_epoch() - 1;
        if (is_partial) continue;
        side_options options[2] = { any_settings(&state), any_settings(&state) };
        const int faulty = (int)draw(&state, 2);
        options[faulty].has_fault = true;
        options[faulty].fault =
            (ls__injected_fault){ .epoch = step / side_steps_per_epoch(),
                                  .step = step % side_steps_per_epoch(),
                                  .op = op,
                                  .element = draw(&state, (uint32_t)n_elements[op]) };
        write_run("faulty", &options[faulty]);
        const int64_t first = first_difference("clean", "faulty");
        n_silent += first < 0;
        if (first < 0) continue;
        ck_assert_int_ge(first, step);
        pair p = find_difference(&options[0], &options[1], first);
        expect_named(&p, &options[faulty].fault, faulty);
        close_pair(&p);
        hit[op] = true;
        n_named++;
    }
    int n_hit = 0;
    for (int i = 0; i < n_ops; i++) n_hit += hit[i];
    printf("%d injections named, %d without effect; %d of %d ops were hit\n", n_named, n_silent,
           n_hit, n_ops);
    ck_assert_int_eq(n_named, WANTED);
    ck_assert_int_gt(n_hit, n_ops / 2);
    remove_folder(dir);
}
END_TEST

/* What only the optimizer's state has shows in no record before it has changed a weight: it is
 * traced back to the step that did it. */
START_TEST(a_fault_in_the_momentum_is_traced_back)
{
    dir = new_folder();
    int64_t n_elements[MOST_OPS];
    const int last = count_elements(&(side_options){ .threads = 2 }, n_elements) - 1;
    const int64_t n_weights = n_elements[last] / 2; /* the rest is the momentum */
    write_run("clean", &(side_options){ .threads = 2 });
    int n_late = 0;
    for (int64_t i = 0; i < n_weights && n_late < 3; i += 7) {
        const side_options clean = { .threads = 1 };
        const side_options faulty = {
            .has_fault = true, .fault = { .step = 1, .op = last, .element = n_weights + i }
        };
        write_run("faulty", &faulty);
        const int64_t first = first_difference("clean", "faulty");
        if (first < 0) continue;
        ck_assert_int_gt(first, 1);
        pair p = find_difference(&clean, &faulty, first);
        expect_named(&p, &faulty.fault, 1);
        ck_assert_str_eq(p.finding.value.role, "momentum");
        close_pair(&p);
        n_late++;
    }
    ck_assert_int_eq(n_late, 3);
    remove_folder(dir);
}
END_TEST

/* No run log shows the moving averages. The last op averages the buffers, too. */
START_TEST(a_fault_in_an_average_is_traced_back)
{
    int64_t n_elements[MOST_OPS];
    const side_options clean = { .threads = 1, .ema_decay = 0.5f };
    const int last = count_elements(&clean, n_elements) - 1;
    for (int i = 0; i < 2; i++) {
        const int64_t element = i ? n_elements[last] - 16 : 0; /* of a buffer, of conv1.weight */
        const side_options faulty = { .ema_decay = 0.5f,
                                      .has_fault = true,
                                      .fault = { .step = 1, .op = last, .element = element } };
        pair p = compare_at(&clean, &faulty, 3);
        ck_assert_int_eq(p.finding.found, LS__FOUND_EARLIER);
        ck_assert_int_eq(p.finding.step, 2);
        ck_assert_str_eq(p.finding.value.role, "moving average");
        close_pair(&p);
        p = find_difference(&clean, &faulty, 3);
        expect_named(&p, &faulty.fault, 1);
        close_pair(&p);
    }
}
END_TEST

START_TEST(clean_pairs_raise_no_alarm)
{
    enum { PAIRS = 20 };
    dir = new_folder();
    write_run("a", &(side_options){ .threads = 3, .workers = 2 });
    uint64_t state = 7;
    const char *record = path_in(dir, "a");
    for (int i = 0; i < PAIRS; i++) {
        const side_options a = any_settings(&state), b = any_settings(&state);
        pair p = { .sides = { open_side(&a), open_side(&b) } };
        for (int s = 0; s < 2; s++) {
            p.compared[s] = p.sides[s].side;
            p.compared[s].run_log = record;
        }
        ck_assert_int_eq(ls__compare_runs(p.compared, i % STEPS, &p.finding), LS_OK);
        ck_assert_int_eq(p.finding.found, LS__FOUND_NOTHING);
        for (int s = 0; s < 2; s++) ck_assert_int_eq(p.compared[s].diverged, -1);
        close_pair(&p);
    }
    remove_folder(dir);
}
END_TEST

/* ---- Other causes ---- */

/* What is recomputed depends on the memory: neither what is found nor the ops' numbers may. */
START_TEST(recomputed_ops_are_passed_by)
{
    int64_t n_elements[MOST_OPS];
    const side_options kept = { .threads = 1, .recompute = LS_RECOMPUTE_NONE };
    const side_options again = { .threads = 1, .recompute = LS_RECOMPUTE_CHEAP };
    const int n_ops = count_elements(&kept, n_elements);
    ck_assert_int_gt(count_elements(&again, (int64_t[MOST_OPS]){ 0 }), n_ops);
    pair p = compare_at(&again, &kept, 1);
    ck_assert_int_eq(p.finding.found, LS__FOUND_NOTHING);
    close_pair(&p);
    for (int op = 0; op < n_ops; op += 3) {
        const side_options faulty = { .threads = 1,
                                      .recompute = LS_RECOMPUTE_CHEAP,
                                      .fault = { .step = 1, .op = op },
                                      .has_fault = true };
        if (n_elements[op] == 0) continue;
        p = compare_at(&faulty, &kept, 1);
        expect_named(&p, &faulty.fault, 0);
        close_pair(&p);
    }
}
END_TEST

START_TEST(other_batches_are_told_by_their_first_image)
{
    pair p = compare_at(&(side_options){ .threads = 1 }, &(side_options){ .other_pixel = true }, 0);
    /* Sample 3 may be in another batch of the epoch. */
    for (int64_t step = 1; p.finding.found == LS__FOUND_NOTHING; step++) {
        close_pair(&p);
        p = compare_at(&(side_options){ .threads = 1 }, &(side_options){ .other_pixel = true },
                       step);
    }
    ck_assert_int_eq(p.finding.found, LS__FOUND_BATCH);
    ck_assert_int_eq(p.finding.samples[0], 3);
    ck_assert_int_eq(p.finding.samples[1], 3);
    for (int i = 0; i < 2; i++) ck_assert_int_eq(p.finding.labels[i], 3 % SIDE_CLASSES);
    ck_assert_int_ge(p.finding.place, 0);
    ck_assert_int_eq(p.finding.value.shape.n_dims, 3);
    ck_assert_int_eq(p.finding.value.shape.dims[0], SIDE_CROP);
    /* nothing of the momentum, which was compared before the batch */
    ck_assert_str_eq(p.finding.value.role, "image");
    ck_assert_ptr_null(p.finding.value.parameter);
    ck_assert_int_eq(p.finding.value.count, SIDE_CROP * SIDE_CROP * 3);
    ck_assert_uint_eq(p.finding.ulps, 1);
    close_pair(&p);

    const side_options one = { .workers = 1, .seeding = LS_SEED_BY_WORKER };
    const side_options two = { .workers = 2, .seeding = LS_SEED_BY_WORKER };
    p = compare_at(&one, &two, 1); /* the second worker's first batch */
    ck_assert_int_eq(p.finding.found, LS__FOUND_BATCH);
    ck_assert_int_eq(p.finding.samples[0], p.finding.samples[1]);
    ck_assert_int_ge(p.finding.element, 0);
    close_pair(&p);
}
END_TEST

START_TEST(other_targets_are_told)
{
    static const float numbers[] = { 0.25f, 0.5f };
    const side_options a = { .target = &numbers[0] }, b = { .target = &numbers[1] };
    pair p = compare_at(&a, &b, 0);
    for (int64_t step = 1; p.finding.found == LS__FOUND_NOTHING; step++) {
        close_pair(&p);
        p = compare_at(&a, &b, step);
    }
    ck_assert_int_eq(p.finding.found, LS__FOUND_BATCH);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(p.finding.samples[i], 3);
        ck_assert_int_eq(p.finding.labels[i], -1);
        ck_assert(p.finding.values[i] == (double)numbers[i]);
    }
    ck_assert_str_eq(p.finding.value.role, "target");
    ck_assert_int_eq(p.finding.value.shape.n_dims, 1);
    ck_assert_int_eq(p.finding.element, 2);
    ck_assert_int_eq(p.finding.n_different, 1);
    close_pair(&p);
}
END_TEST

START_TEST(other_rates_are_told)
{
    pair p = compare_at(&(side_options){ .threads = 1 }, &(side_options){ .lr = 0.0625 }, 0);
    ck_assert_int_eq(p.finding.found, LS__FOUND_LR);
    ck_assert_double_eq(p.finding.lrs[0], 0.05);
    ck_assert_double_eq(p.finding.lrs[1], 0.0625);
    close_pair(&p);
}
END_TEST

START_TEST(other_models_are_told)
{
    pair p = compare_at(&(side_options){ .threads = 1 }, &(side_options){ .channels = 16 }, 0);
    ck_assert_int_eq(p.finding.found, LS__FOUND_PROGRAM);
    ck_assert_str_eq(p.finding.ops[0].name, "conv3");
    ck_assert_str_eq(p.finding.ops[1].name, "conv3");
    close_pair(&p);
}
END_TEST

START_TEST(other_weights_at_the_beginning_are_told)
{
    pair p = { .sides = { open_side(&(side_options){ .threads = 1 }),
                          open_side(&(side_options){ .threads = 2 }) } };
    for (int i = 0; i < 2; i++) p.compared[i] = p.sides[i].side;
    float *weight = ls_tensor_data(ls_net_parameter(p.compared[1].net, "conv3.weight"));
    weight[17] = -weight[17];
    ck_assert_int_eq(ls__compare_runs(p.compared, 0, &p.finding), LS_OK);
    ck_assert_int_eq(p.finding.found, LS__FOUND_STATE);
    ck_assert_str_eq(p.finding.value.parameter, "conv3.weight");
    ck_assert_str_eq(p.finding.ops[0].name, "conv3");
    ck_assert_int_eq(p.finding.element, 17);
    ck_assert_int_eq(p.finding.n_different, 1);
    close_pair(&p);
}
END_TEST

START_TEST(other_kernels_are_told)
{
    pair p =
        compare_at(&(side_options){ .threads = 1 }, &(side_options){ .by_reference = true }, 0);
    const ls__finding *f = &p.finding;
    ck_assert_int_eq(f->found, LS__FOUND_OP);
    ck_assert_str_eq(f->ops[0].name, "conv1");
    ck_assert_str_eq(f->ops[1].name, "conv1");
    ck_assert_str_ne(f->ops[0].kernel, "reference");
    ck_assert_str_eq(f->ops[1].kernel, "reference");
    close_pair(&p);
}
END_TEST

/* A record that no replay can reproduce. */
START_TEST(a_replay_that_departs_from_its_record_says_so)
{
    dir = new_folder();
    const side_options faulty = { .has_fault = true, .fault = { .step = 2, .op = 4 } };
    write_run("a", &(side_options){ .threads = 2 });
    write_run("b", &faulty);
    const int64_t first = first_difference("a", "b");
    ck_assert_int_ge(first, 2);
    const char *records[] = { path_in(dir, "a"), path_in(dir, "b") };
    pair p = { .sides = { open_side(&(side_options){ .threads = 1 }),
                          open_side(&(side_options){ .threads = 2 }) } };
    for (int i = 0; i < 2; i++) {
        p.compared[i] = p.sides[i].side;
        p.compared[i].run_log = records[i];
    }
    ck_assert_int_eq(ls__compare_runs(p.compared, first, &p.finding), LS_OK);
    ck_assert_int_eq(p.finding.found, LS__FOUND_NOTHING);
    ck_assert_int_eq(p.compared[0].diverged, -1);
    ck_assert_int_eq(p.compared[1].diverged, first);
    close_pair(&p);
    remove_folder(dir);
}
END_TEST

START_TEST(ulps_count_representable_numbers)
{
    static const struct {
        float a, b;
        uint64_t ulps;
    } cases[] = { { 1, 1, 0 },          { 1, 1.00000012f, 1 }, { -1, -1.00000012f, 1 },
                  { 0, 1.4e-45f, 1 },   { -0.0f, 0, 1 },       { -1.4e-45f, 1.4e-45f, 3 },
                  { 2, 1.99999988f, 1 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_uint_eq(ls__ulps(LS_F32, &cases[i].a, &cases[i].b), cases[i].ulps);
        ck_assert_uint_eq(ls__ulps(LS_F32, &cases[i].b, &cases[i].a), cases[i].ulps);
    }
    static const struct {
        uint16_t a, b;
        uint64_t ulps;
    } halves[] = { { 0x3c00, 0x3c01, 1 }, { 0xbc00, 0xbc02, 2 }, { 0x8001, 0x0001, 3 } };
    for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++) {
        ck_assert_uint_eq(ls__ulps(LS_F16, &halves[i].a, &halves[i].b), halves[i].ulps);
        ck_assert_uint_eq(ls__ulps(LS_BF16, &halves[i].b, &halves[i].a), halves[i].ulps);
    }
    const uint8_t x = 3, y = 250;
    ck_assert_uint_eq(ls__ulps(LS_U8, &x, &y), 247);
}
END_TEST

START_TEST(a_step_that_is_over_is_refused)
{
    pair p = { .sides = { open_side(&(side_options){ .threads = 1 }),
                          open_side(&(side_options){ .threads = 1 }) } };
    for (int i = 0; i < 2; i++) p.compared[i] = p.sides[i].side;
    p.compared[1].step = 2;
    ck_assert_int_eq(ls__compare_runs(p.compared, 1, &p.finding), LS_ERR_INVALID);
    ck_assert(strstr(ls_context_message(p.sides[1].ctx), "step 1 from step 2"));
    close_pair(&p);
}
END_TEST

START_TEST(no_memory_is_an_error)
{
    for (int64_t n = 1;; n++) {
        failing_allocator allocator;
        failing_allocator_init(&allocator, 0);
        const side_options a = { .threads = 1, .allocator = &allocator.allocator };
        pair p = { .sides = { open_side(&a), open_side(&(side_options){ .threads = 1 }) } };
        for (int i = 0; i < 2; i++) p.compared[i] = p.sides[i].side;
        allocator.fail_at = allocator.n_requests + n;
        const ls_status status = ls__compare_runs(p.compared, 1, &p.finding);
        const bool failed = failing_allocator_failed(&allocator);
        ck_assert_msg(status == LS_OK || (failed && status == LS_ERR_MEMORY), "%s",
                      ls_context_message(p.sides[0].ctx));
        close_pair(&p);
        ck_assert_int_eq(failing_allocator_live(&allocator), 0);
        if (!failed) break;
    }
}
END_TEST

TEST_PROGRAM(compare)
{
    return RUN_SUITE(
        "compare", every_injection_that_shows_is_named, a_fault_in_the_momentum_is_traced_back,
        a_fault_in_an_average_is_traced_back, clean_pairs_raise_no_alarm,
        recomputed_ops_are_passed_by, other_batches_are_told_by_their_first_image,
        other_targets_are_told, other_rates_are_told, other_models_are_told,
        other_weights_at_the_beginning_are_told, other_kernels_are_told,
        a_replay_that_departs_from_its_record_says_so, ulps_count_representable_numbers,
        a_step_that_is_over_is_refused, no_memory_is_an_error);
}
