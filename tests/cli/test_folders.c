/* test_folders.c: the folders of a data folder, opened where memory runs out, in this process. */
#include "command.h"
#include "folders.h"

#include "../failing_allocator.h"
#include "../suite.h"
#include <stdlib.h>

static int open_both(ls_context *ctx)
{
    static const char *const classes[] = { "cat", "dog" };
    ls_dataset *data;
    int answer = folders_open_train(ctx, "data", false, &data);
    if (answer == EXIT_DONE) answer = folders_open_val(ctx, "data", false, 2, classes, &data);
    ck_assert_int_eq(answer == EXIT_DONE, data != NULL);
    return answer;
}

/* Status 3 means unusable images. */
START_TEST(out_of_memory_is_not_a_data_error)
{
    begin_folder();
    ck_assert_int_eq(system("mkdir -p data/train/cat data/train/dog data/val/dog"), 0);
    write_text("data/train/cat/1.ppm", "");
    write_text("data/train/dog/1.ppm", "");
    write_text("data/val/dog/1.ppm", "");
    bool failed = true;
    for (int64_t n = 1; failed; n++) {
        failing_allocator a;
        failing_allocator_init(&a, n);
        ls_context *ctx =
            ls_context_open(&(ls_context_config){ .threads = 1, .allocator = &a.allocator });
        const bool opened = ls_context_status(ctx) == LS_OK;
        const int answer = opened ? open_both(ctx) : EXIT_RUNTIME;
        failed = failing_allocator_failed(&a);
        ck_assert_int_eq(answer, failed ? EXIT_RUNTIME : EXIT_DONE);
        ls_context_close(&ctx);
        ck_assert_int_eq(failing_allocator_live(&a), 0);
    }
    end_folder();
}
END_TEST

TEST_PROGRAM(folders)
{
    return RUN_SUITE("folders", out_of_memory_is_not_a_data_error);
}
