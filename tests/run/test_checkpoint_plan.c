/* test_checkpoint_plan.c: a run that goes on takes its kernels from its checkpoint: those of ops
 * that it has not come to yet, and no others. */
#include "../suite.h"
#include "checkpoint_support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A plan file that wants the plain-C kernel for short_op, and has no other choice. */
static void write_short_plan(const char *path)
{
    char text[4096] = "";
    ls_context *ctx = ls_context_open(NULL);
    ck_assert_int_eq(ls_algorithm_cache_save(ctx, path), LS_OK);
    ls_context_close(&ctx);
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    char *at = strstr(text, "\"choices\": {}");
    ck_assert(at && short_op[0]);
    file = fopen(path, "w");
    fprintf(file, "%.*s\"choices\": { \"%s\": \"reference\" }%s", (int)(at - text), text, short_op,
            at + strlen("\"choices\": {}"));
    fclose(file);
}

/* The last batch of an epoch is a short one, with ops that a run comes to only then. */
START_TEST(a_run_knows_its_plan_for_what_is_to_come)
{
    static char plain[PORTRAIT], whole[PORTRAIT], resumed[PORTRAIT];
    run r = open_good_run(&usual);
    train(&r, 8);
    portray(&r, plain);
    ls_context_close(&r.ctx);

    options o = usual;
    char plan[128];
    snprintf(plan, sizeof plan, "%s", path_of("short.json"));
    o.plan = plan;
    write_short_plan(o.plan);
    r = open_good_run(&o);
    train(&r, 3);
    ck_assert_int_eq(ls_checkpoint_save(path_of("early"), &r.state), LS_OK);
    train(&r, 8);
    portray(&r, whole);
    ls_context_close(&r.ctx);
    ck_assert_str_ne(whole, plain);

    r = open_good_run(&usual); /* the file is gone */
    ck_assert_int_eq(ls_checkpoint_load(path_of("early"), &r.state), LS_OK);
    train(&r, 8);
    portray(&r, resumed);
    ck_assert_str_eq(whole, resumed);
    ls_context_close(&r.ctx);

    r = open_good_run(&usual); /* too late: it has come to that op */
    train(&r, 6);
    ck_assert_int_eq(ls_checkpoint_load(path_of("early"), &r.state), LS_ERR_MISMATCH);
    expect_error(r.ctx, LS_ERR_MISMATCH, "is 'reference' there, '");
    ls_context_close(&r.ctx);
}
END_TEST

static bool has_choices(run *r)
{
    remove(path_of("plan.json")); /* or it would be added to */
    ck_assert_int_eq(ls_algorithm_cache_save(r->ctx, path_of("plan.json")), LS_OK);
    char text[4096] = "";
    FILE *file = fopen(path_of("plan.json"), "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "\"choices\": {"));
    return !strstr(text, "\"choices\": {}");
}

/* A plan that was loaded before has no say in a run that goes on. */
START_TEST(a_checkpoint_takes_the_place_of_plans)
{
    options o = usual;
    run r = open_good_run(&o);
    ck_assert_int_eq(ls_checkpoint_save(path_of("plain"), &r.state), LS_OK);
    ck_assert(!has_choices(&r));
    ls_context_close(&r.ctx);
    o.benchmark = LS_BENCHMARK_ON;
    o.batch = 7; /* ops that the checkpoint does not name */
    r = open_good_run(&o);
    ck_assert(has_choices(&r));
    ck_assert_int_eq(ls_algorithm_cache_load(r.ctx, path_of("plan.json")), LS_OK);
    ck_assert_int_eq(ls_checkpoint_load_algorithms(path_of("plain"), r.ctx), LS_OK);
    ck_assert(!has_choices(&r));
    ls_context_close(&r.ctx);
}
END_TEST

int main(void)
{
    begin_runs();
    const int answer = RUN_SUITE("checkpoints' plans", a_run_knows_its_plan_for_what_is_to_come,
                                 a_checkpoint_takes_the_place_of_plans);
    return end_runs(answer);
}
