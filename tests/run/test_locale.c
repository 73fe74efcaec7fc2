/* test_locale.c: checkpoints and charts do not depend on the program's locale: decimal commas, and
 * decimal points of two bytes. The locales are compiled here, where localedef and its sources are.
 */
#include "../suite.h"
#include "base/alloc.h"
#include "../checkpoint/checkpoint_support.h"
#include "report/chart.h"
#include "run/settings.h"
#include <locale.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = { "de_DE", "ps_AF" };
enum { N_LOCALES = sizeof names / sizeof *names };

static bool make_locales(void)
{
    char command[512];
    for (int i = 0; i < N_LOCALES; i++) {
        snprintf(command, sizeof command, "localedef -c -i %s -f UTF-8 '%s.utf8' >/dev/null 2>&1",
                 names[i], path_of(names[i]));
        if (system(command) != 0) return false;
    }
    char folder[256];
    snprintf(folder, sizeof folder, "%s", path_of(""));
    return setenv("LOCPATH", folder, 1) == 0;
}

static void use_locale(int i)
{
    char name[64] = "C";
    if (i >= 0) snprintf(name, sizeof name, "%s.utf8", names[i]);
    ck_assert_msg(setlocale(LC_ALL, name) != NULL, "there is no locale %s", name);
    ck_assert_int_eq(strcmp(localeconv()->decimal_point, ".") == 0, i < 0);
}

/* Saved under one locale, loaded and trained on under another, against one that stays in "C". */
START_TEST(checkpoints_go_from_locale_to_locale)
{
    char whole[PORTRAIT], resumed[PORTRAIT];
    const int other = _i / 2, saving = _i % 2 ? other : -1, loading = _i % 2 ? -1 : other;
    run straight = open_good_run(&usual);
    train(&straight, 8);
    portray(&straight, whole);

    use_locale(saving);
    run first = open_good_run(&usual);
    train(&first, 5);
    ls_checkpoint_save(&first.state, path_of("run"));
    expect_ok(first.ctx);
    use_locale(loading);
    run second = open_good_run(&usual);
    ls_checkpoint_load(&second.state, path_of("run"));
    expect_ok(second.ctx);
    train(&second, 8);
    use_locale(-1);
    portray(&second, resumed);
    ck_assert_str_eq(resumed, whole);
    ls_context_close(&straight.ctx);
    ls_context_close(&first.ctx);
    ls_context_close(&second.ctx);
}
END_TEST

START_TEST(charts_have_decimal_points)
{
    const double y[] = { 0.25, 1.5 };
    const ls__chart_line line = { .n = 2, .y = y };
    const ls__chart_panel panel = { .y_label = "y", .n_lines = 1, .lines = &line };
    const ls__chart chart = { .title = "t", .x_label = "x", .n_panels = 1, .panels = &panel };
    ls_context *ctx = ls_context_open(NULL);
    ls__html plain = { .ctx = ctx }, other = { .ctx = ctx };
    ls__svg_put(&plain, ls__chart_draw, &chart, 900);
    for (int i = 0; i < N_LOCALES; i++) {
        ls__bytes_clear(&other);
        use_locale(i);
        ls__svg_put(&other, ls__chart_draw, &chart, 900);
        use_locale(-1);
        ck_assert_uint_eq(other.size, plain.size);
        ck_assert_msg(memcmp(plain.data, other.data, plain.size) == 0, "%s", names[i]);
    }
    ls__bytes_free(&plain);
    ls__bytes_free(&other);
    ls_context_close(&ctx);
}
END_TEST

START_TEST(settings_have_decimal_points)
{
    for (int i = 0; i < N_LOCALES; i++) {
        ls__run_settings r = { 0 };
        ls_given given = { .table = ls__run_settings_table };
        ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
        use_locale(i);
        ls_settings_default(given.table, &r);
        given.text[ls_setting_find(given.table, "recipe", 6)] = "small";
        r.preset = 4;
        r.groups = "fc.*:lr-scale=0.5";
        ck_assert_int_eq(ls__run_settings_resolve(ctx, &given, NULL, &r), LS_OK);
        json_t *json = ls__settings_to_json(given.table, &r);
        use_locale(-1);
        ck_assert(r.flip == 0.5 && r.random_erase == 0.1 && r.scale_min == 0.25);
        ck_assert(r.weight_decay == 0.0005 && r.lr == 0.0125);
        ck_assert(json_real_value(json_object_get(json, "flip")) == 0.5);
        json_decref(json);
        ls_context_close(&ctx);
    }
}
END_TEST

TEST_PROGRAM(locale)
{
    begin_runs();
    if (!make_locales()) return end_runs(skip_program("localedef can't make the locales here"));
    return end_runs(both(
        run_loop("locale", checkpoints_go_from_locale_to_locale, 2 * N_LOCALES),
        RUN_SUITE("locale of texts", charts_have_decimal_points, settings_have_decimal_points)));
}
