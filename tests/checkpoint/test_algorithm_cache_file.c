/* test_algorithm_cache_file.c: saving algorithm caches. Ops already in the file stay, several
 * processes share a file, links are followed. test_net and test_checkpoint test loading. */
#include "../failing_allocator.h"
#include "backend/backend.h"
#include "base/context.h"
#include "../suite.h"
#include "../log/own_folder.h"
#include <jansson.h>
#include <lockstep/lockstep.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static json_t *read_cache(const char *name)
{
    json_t *cache = json_load_file(path(name), 0, NULL);
    ck_assert_msg(cache != NULL, "no file %s", name);
    return cache;
}

/* Writes a file with these ops, as users may by hand. */
static void write_cache(const char *name, int first, int n, const char *kernel)
{
    ls_context *plain = ls_context_open(NULL);
    remove(path(name));
    ck_assert_int_eq(ls_algorithm_cache_save(plain, path(name)), LS_OK);
    ls_context_close(&plain);
    json_t *cache = read_cache(name), *kernels = json_object_get(cache, "kernels");
    ck_assert_int_eq(json_object_size(kernels), 0);
    for (int i = first; i < first + n; i++) {
        char op[32];
        snprintf(op, sizeof(op), "relu x=%06d", i);
        json_object_set_new(kernels, op, json_string(kernel));
    }
    ck_assert_int_eq(json_dump_file(cache, path(name), 0), 0);
    json_decref(cache);
}

/* Loads `from` into a new context and saves it to `to`. */
static ls_status add(const char *from, const char *to)
{
    ls_context *other = ls_context_open(NULL);
    ls_algorithm_cache_load(other, path(from));
    ls_algorithm_cache_save(other, path(to));
    const ls_status status = ls_context_status(other);
    ls_context_close(&other);
    return status;
}

static void expect_ops(const char *name, int first, int n, const char *kernel)
{
    json_t *cache = read_cache(name), *kernels = json_object_get(cache, "kernels");
    for (int i = first; i < first + n; i++) {
        char op[32];
        snprintf(op, sizeof(op), "relu x=%06d", i);
        const char *there = json_string_value(json_object_get(kernels, op));
        ck_assert_msg(there && strcmp(there, kernel) == 0, "%s: %s", op, there);
    }
    json_decref(cache);
}

static size_t count_ops(const char *name)
{
    json_t *cache = read_cache(name);
    const size_t n = json_object_size(json_object_get(cache, "kernels"));
    json_decref(cache);
    return n;
}

/* ---- Tests ---- */

START_TEST(ops_in_the_file_stay)
{
    begin();
    write_cache("old.json", 0, 10, "theirs");
    write_cache("new.json", 5, 10, "ours");
    ck_assert_int_eq(add("new.json", "old.json"), LS_OK);
    ck_assert_uint_eq(count_ops("old.json"), 15);
    expect_ops("old.json", 0, 5, "theirs");
    expect_ops("old.json", 5, 10, "ours");
    /* The file is sorted, as if written at once. */
    write_cache("whole.json", 0, 15, "ours");
    ck_assert_int_eq(add("whole.json", "old.json"), LS_OK);
    ck_assert_int_eq(add("whole.json", "again.json"), LS_OK);
    char command[300];
    snprintf(command, sizeof(command), "cmp %s %s", path("old.json"), path("again.json"));
    ck_assert_int_eq(system(command), 0);
    end();
}
END_TEST

static ls_node *small(ls_graph *graph, ls_node *input, const void *options)
{
    (void)options;
    return ls_conv2d(graph, "conv", input, 8, &(ls_conv2d_config){ .kernel = 3 });
}

/* A checkpoint also holds the heuristic's selections. They do not replace timed ones in a file. */
START_TEST(heuristic_selections_are_not_saved)
{
    begin();
    const ls_net_config config = { .input = { .image = { LS_F32, LS_SHAPE(2, 8, 8, 16) } },
                                   .inference = true };
    ls_net *net = ls_net_build(ctx, small, NULL, &config);
    ck_assert_msg(net != NULL, "%s", ls_context_message(ctx));
    ck_assert_int_eq(ls_checkpoint_save(&(ls_training_state){ .net = net }, path("run")), LS_OK);
    ls_tensor_file *file = ls_tensor_file_open(ctx, path("run.safetensors"));
    json_t *known = json_loads(ls_tensor_file_metadata(file, "kernels"), 0, NULL);
    json_t *heuristic = json_object_get(known, "heuristic");
    ck_assert_uint_gt(json_object_size(heuristic), 0);

    write_cache("there.json", 0, 3, "theirs");
    json_t *cache = read_cache("there.json"), *kernels = json_object_get(cache, "kernels");
    const char *op;
    json_t *kernel;
    json_object_foreach(heuristic, op, kernel) json_object_set_new(kernels, op, json_string("own"));
    ck_assert_int_eq(json_dump_file(cache, path("there.json"), 0), 0);
    ck_assert_int_eq(ls_checkpoint_load_algorithms(ctx, path("run.safetensors")), LS_OK);
    ck_assert_int_eq(ls_algorithm_cache_save(ctx, path("there.json")), LS_OK);
    json_t *saved = read_cache("there.json");
    ck_assert(json_equal(saved, cache));
    json_decref(saved);
    json_decref(cache);
    json_decref(known);
    end();
}
END_TEST

static const char *field(const json_t *cache, const char *name)
{
    return json_string_value(json_object_get(cache, name));
}

/* Kernels in f32 depend on no library and on no processor, also with native arithmetic. */
START_TEST(only_kernels_in_bf16_name_a_processor)
{
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    begin();
    ls_context *native =
        ls_context_open(&(ls_context_config){ .arithmetic = LS_ARITHMETIC_NATIVE });
    const ls__backend *backend = native->device->backend;
    write_cache("f32.json", 0, 3, "own");
    ck_assert_int_eq(ls_algorithm_cache_load(native, path("f32.json")), LS_OK);
    ck_assert_int_eq(ls_algorithm_cache_save(native, path("saved.json")), LS_OK);
    json_t *cache = read_cache("saved.json");
    ck_assert_str_eq(field(cache, "libraries"), backend->libraries(native->device, LS_F32));
    ck_assert_str_eq(field(cache, "processor"), "");
    json_object_set_new(json_object_get(cache, "kernels"), "relu x=BF16:4", json_string("own"));
    ck_assert_int_eq(json_dump_file(cache, path("bf16.json"), 0), 0);
    json_decref(cache);
    ck_assert_int_eq(ls_algorithm_cache_load(native, path("bf16.json")), LS_OK);
    ck_assert_int_eq(ls_algorithm_cache_save(native, path("saved.json")), LS_OK);
    cache = read_cache("saved.json");
    ck_assert_str_eq(field(cache, "libraries"), backend->libraries(native->device, LS_BF16));
    ck_assert_str_eq(field(cache, "processor"), backend->processor(native->device, LS_BF16));
    json_decref(cache);
    ls_context_close(&native);
    end();
}
END_TEST

START_TEST(a_full_file_keeps_ours)
{
    begin();
    write_cache("old.json", 0, 4096, "theirs");
    write_cache("new.json", 100000, 1000, "ours");
    ck_assert_int_eq(add("new.json", "old.json"), LS_OK);
    ck_assert_uint_eq(count_ops("old.json"), 4096);
    expect_ops("old.json", 100000, 1000, "ours");
    ck_assert_int_eq(ls_algorithm_cache_load(ctx, path("old.json")), LS_OK);
    end();
}
END_TEST

/* mkstemp makes such a file. */
START_TEST(an_empty_file_is_filled)
{
    begin();
    FILE *file = fopen(path("empty.json"), "w");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(ls_algorithm_cache_save(ctx, path("empty.json")), LS_OK);
    ck_assert_int_eq(ls_algorithm_cache_load(ctx, path("empty.json")), LS_OK);
    end();
}
END_TEST

START_TEST(foreign_files_stay_unchanged)
{
    static const struct {
        const char *edit;
        ls_status status;
        const char *word;
    } cases[] = {
        { "sed -i 's/\"processor\": \"/&another /' %s", LS_ERR_MISMATCH, "processor is 'another" },
        { "echo a letter >%s", LS_ERR_FORMAT, "is not an algorithm cache" },
    };
    begin();
    for (int i = 0; i < 2; i++) {
        char command[400], edit[200];
        write_cache("there.json", 0, 3, "theirs");
        snprintf(edit, sizeof(edit), cases[i].edit, path("there.json"));
        snprintf(command, sizeof(command), "%s && cp %s %s", edit, path("there.json"),
                 path("before.json"));
        ck_assert_int_eq(system(command), 0);
        ck_assert_int_eq(ls_algorithm_cache_save(ctx, path("there.json")), cases[i].status);
        expect_error(ctx, cases[i].status, cases[i].word);
        snprintf(command, sizeof(command), "cmp %s %s && test $(ls -A %s | wc -l) = 2",
                 path("there.json"), path("before.json"), dir);
        ck_assert_int_eq(system(command), 0);
    }
    ls_algorithm_cache_save(ctx, path("nowhere/kernels.json"));
    expect_error(ctx, LS_ERR_NOT_FOUND, "nowhere/kernels.json");
    ls_algorithm_cache_save(ctx, "");
    expect_error(ctx, LS_ERR_INVALID, "path is empty");
    end();
}
END_TEST

/* Many processes save into one file repeatedly, and no op is lost. */
START_TEST(processes_share_a_file)
{
    enum { N_PROCESSES = 8, N_ROUNDS = 10 };
    begin();
    for (int i = 0; i < N_PROCESSES * N_ROUNDS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%d.json", i);
        write_cache(name, i, 1, "one");
    }
    pid_t children[N_PROCESSES];
    for (int p = 0; p < N_PROCESSES; p++) {
        children[p] = fork();
        ck_assert_int_ge(children[p], 0);
        for (int i = 0; children[p] == 0 && i < N_ROUNDS; i++) {
            char name[32];
            snprintf(name, sizeof(name), "%d.json", p * N_ROUNDS + i);
            if (add(name, "shared.json") != LS_OK) _exit(1);
        }
        if (children[p] == 0) _exit(0);
    }
    for (int p = 0; p < N_PROCESSES; p++) {
        int status;
        ck_assert_int_eq(waitpid(children[p], &status, 0), children[p]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_uint_eq(count_ops("shared.json"), N_PROCESSES * N_ROUNDS);
    end();
}
END_TEST

START_TEST(links_are_followed)
{
    struct stat there;
    begin();
    ck_assert_int_eq(mkdir(path("shelf"), 0700), 0);
    ck_assert_int_eq(symlink("shelf/real.json", path("link.json")), 0);
    for (int i = 0; i < 2; i++) { /* at first the file does not exist */
        write_cache("new.json", i, 1, "ours");
        ck_assert_int_eq(add("new.json", "link.json"), LS_OK);
        ck_assert(lstat(path("link.json"), &there) == 0 && S_ISLNK(there.st_mode));
        ck_assert_uint_eq(count_ops("shelf/real.json"), (size_t)i + 1);
    }
    end();
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    begin();
    for (int64_t n = 1;; n++) {
        failing_allocator a;
        write_cache("there.json", 0, 3, "theirs");
        write_cache("ours.json", 3, 3, "ours");
        failing_allocator_init(&a, n);
        ls_context *other = ls_context_open(&(ls_context_config){ .allocator = &a.allocator });
        const bool opened = other && ls_context_status(other) == LS_OK;
        if (opened) ls_algorithm_cache_load(other, path("ours.json"));
        const ls_status status =
            opened ? ls_algorithm_cache_save(other, path("there.json")) : LS_ERR_MEMORY;
        ls_context_close(&other);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
        ck_assert_uint_eq(count_ops("there.json"), status == LS_OK ? 6 : 3);
        if (!failing_allocator_failed(&a)) break;
    }
    end();
}
END_TEST

TEST_PROGRAM(algorithm_cache_file)
{
    return RUN_SUITE("algorithm cache files", ops_in_the_file_stay,
                     only_kernels_in_bf16_name_a_processor, heuristic_selections_are_not_saved,
                     a_full_file_keeps_ours, an_empty_file_is_filled, foreign_files_stay_unchanged,
                     processes_share_a_file, links_are_followed, every_allocation_may_fail);
}
