/* test_repro_ranks.c: the experiment with numbers of ranks, which mpirun starts. */
#include "command.h"

#include "../suite.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 20 steps an epoch. */
#define REPRO                                                                                      \
    "repro --data-dir data --image-size 8 --epochs 2 -b 8 --crop-padding 2 --no-val --threads 1 "

START_TEST(ranks_have_one_result)
{
    begin_folder();
    expect(0, "demo-data data --train 16 --val 1");
    expect(0, REPRO "--steps 21 --workers 0,1 --shards 4 --ranks 1,3 --restart 1");
    expect_out("One result: all 8 runs are bit-identical in all 21 steps.");
    expect_out("workers x threads x ranks ");
    expect_out("'1x1x3': 1 worker, 1 thread, 3 ranks; '@");
    expect_out(" 0x1x1': interrupted after ");
    expect_out(", resumed with 0 workers, 1 thread, 1 rank\n");
    size_t size;
    char *csv = read_file("repro/repro.csv", &size);
    ck_assert_ptr_nonnull(strstr(csv, "\nw1-t1-n3,1,1,3,0,1x1x3,21,"));
    ck_assert_ptr_nonnull(strstr(csv, "\nw0-t1-n3-r1,0,1,3,1,0x1x3 @"));
    free(csv);
    ck_assert(same_files("repro/w0-t1-n1/run_log.txt", "repro/w1-t1-n3-r1/run_log.txt"));
    end_folder();
}
END_TEST

START_TEST(synchronised_ranks_have_one_result)
{
    begin_folder();
    expect(0, "demo-data data --train 16 --val 1");
    expect(0, REPRO "--model resnet20 --steps 9 --workers 0 --shards 4 --sync-batch-norm "
                    "--ranks 1,2,3 --restart 1");
    expect_out("One result: all 6 runs are bit-identical in all 9 steps.");
    end_folder();
}
END_TEST

START_TEST(ranks_require_shards)
{
    begin_folder();
    expect(0, "demo-data data --train 16 --val 1");
    expect(2, REPRO "--steps 3 --workers 0 --shards 2 --ranks 1,4");
    expect_err("--ranks 1,4: 4 ranks require --shards 4 or more");
    expect(2, REPRO "--steps 3 --workers 0 --shards 2 --ranks 0");
    expect_err("--ranks: expected at most 32 different integers from 1 to 64");
    end_folder();
}
END_TEST

START_TEST(ranks_require_mpirun)
{
    begin_folder();
    const char *path = getenv("PATH");
    setenv("PATH", "/nonexistent", 1);
    expect(5, REPRO "--steps 3 --workers 0 --shards 2 --ranks 1,2"); /* before the data is read */
    setenv("PATH", path, 1);
    expect_err("several ranks require Open MPI: there is no mpirun in PATH");
    ck_assert(access("repro", F_OK) != 0);
    end_folder();
}
END_TEST

TEST_PROGRAM(repro_ranks)
{
    /* As root, with fewer processors than ranks, and without ptrace (Open MPI 4 and 5). */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
    setenv("OMPI_MCA_smsc", "^cma", 1);
    setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* Open MPI loses memory of its own */
    /* A mpirun that can't say its version is an error of the tests below. */
    if (system("command -v mpirun >/dev/null && { ! version=$(mpirun --version 2>&1) || "
               "echo \"$version\" | grep -q -e 'Open MPI' -e OpenRTE; }") != 0)
        return skip_program("there is no mpirun of Open MPI");
    return RUN_SUITE("repro: ranks", ranks_have_one_result, synchronised_ranks_have_one_result,
                     ranks_require_shards, ranks_require_mpirun);
}
