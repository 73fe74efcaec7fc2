/* test_checkpoint_algorithms.c: a resumed run takes its kernels from its checkpoint alone, also for
 * ops that it has not run yet. */
#include "../suite.h"
#include "checkpoint_support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes an algorithm cache that names the reference kernel for short_op and nothing else. */
static void write_short_cache(const char *path)
{
    char text[4096] = "";
    ls_context *ctx = ls_context_open(&(ls_context_config){ .arithmetic = LS_ARITHMETIC_NATIVE });
    ck_assert_int_eq(ls_algorithm_cache_save(ctx, path), LS_OK);
    ls_context_close(&ctx);
    FILE *file = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    char *at = strstr(text, "\"kernels\": {}");
    ck_assert(at && short_op[0]);
    file = fopen(path, "w");
    fprintf(file, "%.*s\"kernels\": { \"%s\": \"reference\" }%s", (int)(at - text), text, short_op,
            at + strlen("\"kernels\": {}"));
    fclose(file);
}

/* The last batch of an epoch is short, and its ops run for the first time then. */
START_TEST(a_run_keeps_kernels_of_later_ops)
{
    static char plain[PORTRAIT], whole[PORTRAIT], resumed[PORTRAIT];
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    options native = usual;
    native.arithmetic = LS_ARITHMETIC_NATIVE; /* reads algorithm caches */
    native.reference = true;
    run r = open_good_run(&native);
    train(&r, 8);
    portray(&r, plain);
    ls_context_close(&r.ctx);

    options o = native;
    char cache[128];
    snprintf(cache, sizeof cache, "%s", path_of("short.json"));
    o.algorithm_cache = cache;
    write_short_cache(o.algorithm_cache);
    r = open_good_run(&o);
    train(&r, 3);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("early")), LS_OK);
    train(&r, 8);
    portray(&r, whole);
    ls_context_close(&r.ctx);
    ck_assert_str_ne(whole, plain);

    r = open_good_run(&native); /* the file is gone */
    ck_assert_int_eq(ls_checkpoint_load(&r.state, path_of("early")), LS_OK);
    train(&r, 8);
    portray(&r, resumed);
    ck_assert_str_eq(whole, resumed);
    ls_context_close(&r.ctx);

    r = open_good_run(&native); /* this run has already run that op */
    train(&r, 6);
    ck_assert_int_eq(ls_checkpoint_load(&r.state, path_of("early")), LS_ERR_MISMATCH);
    expect_error(r.ctx, LS_ERR_MISMATCH, "is 'reference' there, '");
    ls_context_close(&r.ctx);
}
END_TEST

static bool has_kernels(run *r)
{
    remove(path_of("kernels.json")); /* because saving adds to it */
    ck_assert_int_eq(ls_algorithm_cache_save(r->ctx, path_of("kernels.json")), LS_OK);
    char text[4096] = "";
    FILE *file = fopen(path_of("kernels.json"), "r");
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_ptr_nonnull(strstr(text, "\"kernels\": {"));
    return !strstr(text, "\"kernels\": {}");
}

/* Loading a checkpoint's kernels drops those of an algorithm cache that was loaded before. */
START_TEST(a_checkpoint_replaces_loaded_kernels)
{
    options o = usual;
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    o.arithmetic = LS_ARITHMETIC_NATIVE; /* reads algorithm caches */
    o.reference = true;
    run r = open_good_run(&o);
    ck_assert_int_eq(ls_checkpoint_save(&r.state, path_of("plain")), LS_OK);
    train(&r, 8); /* sets short_op */
    ck_assert(!has_kernels(&r));
    ls_context_close(&r.ctx);
    write_short_cache(path_of("loaded.json"));
    r = open_good_run(&o);
    ck_assert_int_eq(ls_algorithm_cache_load(r.ctx, path_of("loaded.json")), LS_OK);
    ck_assert(has_kernels(&r));
    ck_assert_int_eq(ls_checkpoint_load_algorithms(r.ctx, path_of("plain")), LS_OK);
    ck_assert(!has_kernels(&r));
    ls_context_close(&r.ctx);
}
END_TEST

TEST_PROGRAM(checkpoint_algorithms)
{
    begin_runs();
    const int answer = RUN_SUITE("checkpoints' algorithms", a_run_keeps_kernels_of_later_ops,
                                 a_checkpoint_replaces_loaded_kernels);
    return end_runs(answer);
}
