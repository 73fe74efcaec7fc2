/* test_program_run.c: the folder of a run that a program made with ls_trainer, of a net that the
 * command does not know: what the commands do with it, and what they refuse. */
#include "command.h"

#include "../suite.h"
#include <lockstep/lockstep.h>

static ls_node *own_model(ls_graph *g, ls_node *x, const void *options)
{
    (void)options;
    x = ls_relu(g, ls_conv2d(g, "c1", x, 4, &(ls_conv2d_config){ .kernel = 3, .stride = 2 }));
    return ls_linear(g, "head", ls_global_avg_pool(g, x), 10, NULL);
}

static void train_own(const char *dir, uint64_t seed)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = seed, .threads = 1 });
    ls_dataset *data = ls_image_folder_open(ctx, "data/train");
    ls_loader *loader = ls_loader_open(
        data, &(ls_loader_config){ .batch_size = 20, .shuffle = true, .resize = 16, .crop = 16 });
    ls_net *net = ls_net_build(ctx, own_model, NULL,
                               &(ls_net_config){ .input = ls_loader_input_spec(loader),
                                                 .loss = { LS_LOSS_CROSS_ENTROPY } });
    ls_optimizer *opt = ls_sgd(net, NULL);
    ls_schedule *schedule = ls_schedule_open(
        ctx, &(ls_schedule_config){ .kind = LS_SCHEDULE_CONSTANT,
                                    .lr = 0.1,
                                    .steps_per_epoch = ls_loader_step_count(loader) });
    ls_trainer *trainer = ls_trainer_open(net, opt, schedule, loader,
                                          &(ls_trainer_config){ .epochs = 1, .dir = dir });
    ls_trainer_end end;
    ck_assert_int_eq(ls_trainer_run(trainer, &end), LS_OK);
    expect_ok(ctx);
    ls_context_close(&ctx);
}

START_TEST(a_run_of_a_program)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    train_own("a", 0);
    train_own("b", 0);
    train_own("c", 1);
    expect(0, "compare a b");
    expect_out("result: identical");
    expect(2, "compare a c");
    expect_out("seed is \"0\" in A, \"1\" in B");
    ck_assert_int_eq(
        system("sed -i '2s/ [0-9a-f]* / 00112233445566778899aabbccddeeff /' b/run_log.txt"), 0);
    expect(1, "compare a b");
    expect_err("the step is not replayed");
    expect_out("the first step that differs is 1");
    expect(1, "compare a b --json");
    expect_out("\"first_different_step\": 1");
    expect(1, "train --resume a");
    expect_err("a: a run of another program");
    expect(1, "train --resume a/last.safetensors");
    expect_err("a: a run of another program");
    expect(2, "train --data-dir data -b 8 --out a");
    expect_err("--out a: contains a run of another program");
    expect(2, "lr-find --data-dir data --out a");
    expect_err("--out a: contains a run");
    write_text("a.sweep",
               "method = grid\nout = a\n[train]\ndata-dir = data\nmodel = mlp\nimage-size "
               "= 8\nbatch-size = 8\n[search]\nlr = 0.1, 0.2\n");
    expect(2, "sweep a.sweep");
    expect_err("--out a: contains a run");
    expect(2, "export --checkpoint c --out a/best.safetensors");
    expect_err("--out a/best.safetensors: a file of a run");
    expect(1, "eval --checkpoint a --data-dir data");
    expect_err("the checkpoint is of another program");
    expect(1, "predict --checkpoint a data/val");
    expect_err("the checkpoint is of another program");
    expect(2, "eval --checkpoint a --data-dir data --csv a/metrics.csv");
    expect_err("a file of the run");
    expect(0, "report a");
    expect(0, "export --checkpoint a --out exported.safetensors");
    ck_assert_int_eq(system("rm b/last.safetensors"), 0);
    expect(2, "compare a b");
    expect_err("b/last.safetensors");
    end_folder();
}
END_TEST

TEST_PROGRAM(program_run)
{
    return RUN_SUITE("program_run", a_run_of_a_program);
}
