/* test_crash.c: a run that is killed, or loses its power, at any one of the calls by which it
 * changes its record, metrics and checkpoint, and then goes on, ends with the same files as one
 * that never stopped. */
#include "crash_calls.h"

#include "../suite.h"
#include "log/metrics.h"
#include "log/run_folder.h"
#include <lockstep/lockstep.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EPOCHS = 2, STEPS = 3, SAVE_EVERY = 2, BATCH = 4 };

/* ---- The run, as `lockstep train` does it: record flushed before the checkpoint, metrics of an
 * epoch before the checkpoint that ends it. ---- */

typedef struct run {
    ls_context *ctx;
    ls_run_log *record;
    ls__metrics *metrics;
    ls_tensor *images, *labels;
    ls_training_state state;
    char checkpoint[CALL_PATH], record_path[CALL_PATH];
} run;

static ls_node *tiny(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_conv2d(g, "conv", x, 8, &(ls_conv2d_config){ .kernel = 3 }));
    return ls_linear(g, "fc", ls_global_avg_pool(g, x), 2, NULL);
}

static ls_status open_run(run *r, const char *dir)
{
    snprintf(r->checkpoint, sizeof(r->checkpoint), "%s/last.safetensors", dir);
    snprintf(r->record_path, sizeof(r->record_path), "%s/run_log.txt", dir);
    r->ctx = ls_context_open(&(ls_context_config){ .seed = 3, .threads = 1 });
    LS_TRY(ls__run_folder_lock(r->ctx, dir, NULL));
    const ls_input_spec input = { .image = { LS_F32, LS_SHAPE(BATCH, 6, 6, 3) }, .n_classes = 2 };
    ls_training_state *s = &r->state;
    s->net = ls_net_build(r->ctx, tiny, NULL,
                          &(ls_net_config){ .input = input, .loss = { LS_LOSS_CROSS_ENTROPY } });
    s->optimizer = ls_sgd(s->net, &(ls_sgd_config){ .momentum = 0.9f });
    r->images = ls_tensor_open(r->ctx, LS_F32, LS_SHAPE(BATCH, 6, 6, 3));
    r->labels =
        ls_tensor_from_data(r->ctx, LS_I32, LS_SHAPE(BATCH), (const int32_t[BATCH]){ 0, 1, 1, 0 });
    LS_TRY(ls_context_status(r->ctx));
    if (access(r->checkpoint, F_OK) == 0) LS_TRY(ls_checkpoint_load(s, r->checkpoint));
    LS_TRY(ls__metrics_open(r->ctx, dir, s->epoch, &r->metrics));
    r->record = ls_run_log_open(r->ctx, r->record_path, s->epoch * STEPS + s->step);
    return ls_context_status(r->ctx);
}

static ls_status save(run *r)
{
    LS_TRY(ls_run_log_flush(r->record));
    return ls_checkpoint_save(&r->state, r->checkpoint);
}

static ls_status train_step(run *r, double *loss)
{
    ls_training_state *s = &r->state;
    ls_step_digest digest;
    const ls_batch batch = { .images = r->images, .labels = r->labels, .n = BATCH };
    LS_TRY(ls_tensor_random_normal(r->images, (uint64_t)(s->epoch * STEPS + s->step), 0, 1));
    LS_TRY(ls_net_step(s->net, s->optimizer, &batch, 0.1));
    LS_TRY(ls_net_digest(s->net, &batch, &digest));
    *loss = digest.loss;
    return ls_run_log_append(r->record, &digest);
}

static ls_status train(run *r, const char *dir)
{
    ls_training_state *s = &r->state;
    LS_TRY(open_run(r, dir));
    while (s->epoch < EPOCHS) {
        double loss = 0;
        while (s->step < STEPS) {
            LS_TRY(train_step(r, &loss));
            s->step++;
            if (s->step % SAVE_EVERY == 0) LS_TRY(save(r));
        }
        s->epoch++;
        s->step = 0;
        LS_TRY(ls__metrics_append(
            r->metrics, json_pack("{s:I, s:f}", "epoch", (json_int_t)s->epoch, "loss", loss)));
        LS_TRY(save(r));
    }
    return LS_OK;
}

/* ---- Processes ---- */

/* Runs it in a child, which is traced when there is a trace, and returns its wait status. */
static int run_child(const char *dir, call_trace *trace)
{
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        run r = { .ctx = NULL };
        trace_calls(trace);
        const bool good = train(&r, dir) == LS_OK;
        if (!good) fprintf(stderr, "%s\n", ls_context_message(r.ctx));
        ls__metrics_close(&r.metrics);
        ls_context_close(&r.ctx);
        _exit(good ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

typedef struct folders {
    char *base, *run, *whole, *shadow;
    call_trace *trace;
} folders;

static void empty(const char *dir)
{
    char command[256];
    snprintf(command, sizeof(command), "rm -rf %s && mkdir %s", dir, dir);
    ck_assert_int_eq(system(command), 0);
}

static void begin(folders *f)
{
    f->base = new_folder();
    f->run = strdup(path_in(f->base, "run"));
    f->whole = strdup(path_in(f->base, "whole"));
    f->shadow = strdup(path_in(f->base, "shadow"));
    empty(f->whole);
    empty(f->shadow);
    f->trace =
        mmap(NULL, sizeof(*f->trace), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(f->trace, MAP_FAILED);
    *f->trace = (call_trace){ .kill_at = -1, .shadow = f->shadow };
    ck_assert_int_eq(run_child(f->whole, f->trace), 0);
}

static void end(folders *f)
{
    munmap(f->trace, sizeof(*f->trace));
    remove_folder(f->base);
    free(f->run);
    free(f->whole);
    free(f->shadow);
}

/* Same files with the same bytes in both folders, leftovers included. */
static bool same_folders(const folders *f)
{
    char command[256];
    snprintf(command, sizeof(command), "diff -r %s %s", f->whole, f->run);
    return system(command) == 0;
}

static bool is_same(const folders *f, const char *name)
{
    char command[256];
    snprintf(command, sizeof(command), "cmp -s %s/%s %s/%s", f->whole, name, f->run, name);
    return system(command) == 0;
}

/* The last call of this kind about this file. */
static int last_call(const call_trace *trace, call_kind kind, const char *file)
{
    int found = -1;
    for (int i = 0; i < trace->n; i++)
        if (trace->calls[i].kind == kind && strcmp(call_file(trace, i), file) == 0) found = i;
    ck_assert_int_ge(found, 0);
    return found;
}

/* The run dies in its call k; -1: in none. */
static void run_until(folders *f, int k, crash how)
{
    empty(f->shadow);
    f->trace->n = 0;
    f->trace->kill_at = k;
    f->trace->how = how;
    const int status = run_child(f->run, f->trace);
    const bool as_wanted = k < 0 ? status == 0 : WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    ck_assert_msg(as_wanted, "call %d: status %#x", k, (unsigned)status);
}

static void expect_resumed(const folders *f, int k)
{
    ck_assert_msg(run_child(f->run, NULL) == 0, "not resumed after call %d", k);
    ck_assert_msg(same_folders(f), "other files after call %d", k);
}

typedef enum power { POWER_STAYS, POWER_FAILS, POWER_FAILS_KEEPING_NAMES } power;

static void crash_everywhere(crash how, power what)
{
    folders f;
    begin(&f);
    const int n = f.trace->n;
    ck_assert_int_gt(n, 50);
    for (int k = 0; k < n; k++) {
        empty(f.run);
        run_until(&f, k, how);
        if (what != POWER_STAYS) cut_power(f.trace, f.run, what == POWER_FAILS_KEEPING_NAMES);
        expect_resumed(&f, k);
    }
    end(&f);
}

/* ---- Tests ---- */

/* Before a rename the file is flushed, after it the folder, before anything else is done. */
START_TEST(renames_are_of_flushed_files)
{
    folders f;
    begin(&f);
    int n_renames = 0;
    for (int i = 0; i < f.trace->n; i++) {
        const call *c = &f.trace->calls[i];
        if (c->kind != CALL_RENAME) continue;
        n_renames++;
        ck_assert_msg(!c->dirty, "%s was not flushed", c->to);
        ck_assert_int_lt(i + 1, f.trace->n);
        ck_assert(c[1].kind == CALL_FSYNC && c[1].folder);
    }
    ck_assert_int_eq(n_renames, 2 + EPOCHS * (1 + STEPS / SAVE_EVERY)); /* 2 of metrics */
    end(&f);
}
END_TEST

START_TEST(killed_before_any_call)
{
    crash_everywhere(CRASH_BEFORE_CALL, POWER_STAYS);
}
END_TEST

START_TEST(killed_in_any_call)
{
    crash_everywhere(CRASH_IN_CALL, POWER_STAYS);
}
END_TEST

/* With half a row at the end of a metrics file, and then again in each call about metrics of the
 * run that cuts it off. */
static void crash_twice(const char *torn)
{
    folders f;
    bool chosen[MAX_CALLS];
    int n_chosen = 0;
    begin(&f);
    const int first = last_call(f.trace, CALL_WRITE, torn);
    empty(f.run);
    run_until(&f, first, CRASH_IN_CALL);
    ck_assert(!is_same(&f, torn));
    run_until(&f, -1, CRASH_IN_CALL);
    ck_assert(same_folders(&f));
    const int n = f.trace->n;
    for (int k = 0; k < n; k++)
        n_chosen += chosen[k] = strncmp(call_file(f.trace, k), "metrics", 7) == 0;
    ck_assert_int_ge(n_chosen, 12); /* two files renamed into place, two rows added */
    for (int k = 0; k < n; k++) {
        if (!chosen[k]) continue;
        empty(f.run);
        run_until(&f, first, CRASH_IN_CALL);
        run_until(&f, k, CRASH_IN_CALL);
        expect_resumed(&f, k);
    }
    end(&f);
}

START_TEST(killed_twice)
{
    crash_twice("metrics.jsonl");
    crash_twice("metrics.csv");
}
END_TEST

START_TEST(power_fails_in_any_call)
{
    crash_everywhere(CRASH_IN_CALL, POWER_FAILS);
}
END_TEST

START_TEST(power_fails_in_any_call_but_names_stay)
{
    crash_everywhere(CRASH_IN_CALL, POWER_FAILS_KEEPING_NAMES);
}
END_TEST

TEST_PROGRAM(crash)
{
    return RUN_SUITE("crash", renames_are_of_flushed_files, killed_before_any_call,
                     killed_in_any_call, killed_twice, power_fails_in_any_call,
                     power_fails_in_any_call_but_names_stay);
}
