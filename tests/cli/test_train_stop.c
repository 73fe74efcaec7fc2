/* test_train_stop.c: the files of a training run that is stopped or killed; it resumes to the bits
 * of an uninterrupted run. */
#include "command.h"
#include "run_files.h"
#include "three_epochs.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* In mid-epoch, before and after its end, with other threads and workers each time. */
START_TEST(stopped_and_resumed_is_the_same)
{
    static const int stops[] = { 1, 7, 19, 20, 21, 40, 59 };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out whole");
    expect(0, TRAIN "--out stopped --stop-at %d", stops[0]);
    expect_out("up to step"); /* what came out so far */
    for (int i = 1; i < (int)(sizeof(stops) / sizeof(stops[0])); i++) {
        expect(0, "train --resume stopped --stop-at %d -j %d --threads %d", stops[i], i % 3,
               1 + i % 2);
        expect_out(" (--stop-at)\n");
        ck_assert_int_eq(count_steps("stopped"), stops[i]);
    }
    expect(0, "train --resume stopped");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/best.safetensors", "stopped/best.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    expect_same_metrics("whole/metrics.jsonl", "stopped/metrics.jsonl", 3);
    end_folder();
}
END_TEST

/* Updates after 3 of the 20 steps of an epoch, and after its last 2: stopped and killed between
 * the steps of an update, too. */
START_TEST(accumulated_gradients_are_resumed)
{
    static const int stops[] = { 1, 5, 19, 22, 40 };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--accumulate 3 --out whole");
    expect_out("one update per 3 batches");
    expect(0, TRAIN "--accumulate 3 --out stopped --stop-at %d", stops[0]);
    for (int i = 1; i < (int)(sizeof(stops) / sizeof(stops[0])); i++)
        expect(0, "train --resume stopped --stop-at %d -j %d --threads %d", stops[i], i % 3,
               1 + i % 2);
    const pid_t pid = start_command(0, "train --resume stopped --checkpoint-every 4");
    while (count_steps("stopped") < 47) sleep_ms(1);
    kill(pid, SIGKILL);
    wait_command(pid);
    expect(0, "train --resume stopped");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/best.safetensors", "stopped/best.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    expect(2, "train --resume stopped --accumulate 2");
    expect_err("--accumulate can't be changed on resume: the run has 3");

    /* images per update; a schedule of 7 updates per epoch */
    expect(0, TRAIN "--accumulate 3 --lr-per-256 0.4 --out scaled --stop-at 1");
    expect_out("lr      0.0375 (0.4 per 256 images)");
    ck_assert_int_eq(system("grep -q '\"steps_per_epoch\": 7' scaled/manifest.json"), 0);
    end_folder();
}
END_TEST

START_TEST(shards_are_resumed)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--shards 4 --threads 1 --out whole");
    expect_out("in 4 shards");
    expect(0, TRAIN "--shards 4 --threads 3 -j 2 --out stopped --stop-at 7");
    const pid_t pid = start_command(0, "train --resume stopped --threads 2 --checkpoint-every 4");
    while (count_steps("stopped") < 27) sleep_ms(1);
    kill(pid, SIGKILL);
    wait_command(pid);
    expect(0, "train --resume stopped -j 1");
    ck_assert(same_files("whole/last.safetensors", "stopped/last.safetensors"));
    ck_assert(same_files("whole/best.safetensors", "stopped/best.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    ck_assert_int_eq(system("grep -q '\"shards\": 4' whole/manifest.json"), 0);
    expect(2, "train --resume stopped --shards 2");
    expect_err("--shards can't be changed on resume: the run has 4");
    expect(2, TRAIN "--shards 3 --out none");
    expect_err("--batch-size 8 is not a multiple of --shards 3");

    /* synchronised batch norms give another run, which is resumed as such */
    expect(0, TRAIN "--shards 4 --sync-batch-norm --out synced --stop-at 9");
    expect_out("in 4 shards with synchronised batch norms");
    expect(0, TRAIN "--shards 4 --sync-batch-norm --threads 2 --out synced_again --stop-at 4");
    expect(0, "train --resume synced_again --threads 1 --stop-at 9");
    ck_assert(same_files("synced/run_log.txt", "synced_again/run_log.txt"));
    ck_assert(!same_files("synced/run_log.txt", "whole/run_log.txt"));
    ck_assert_int_eq(system("grep -q '\"sync_batch_norm\": true' synced/manifest.json"), 0);
    expect(2, "train --resume stopped --sync-batch-norm");
    expect_err("--sync-batch-norm can't be changed on resume");

    /* another number gives another run */
    expect(0, TRAIN "--out one --stop-at 2");
    expect(0, TRAIN "--shards 2 --out two --stop-at 2");
    ck_assert(!same_files("one/run_log.txt", "two/run_log.txt"));
    end_folder();
}
END_TEST

/* A run far too long to end by itself is stopped once it has done a step. */
START_TEST(signals_save_and_stop)
{
    static const int numbers[] = { SIGTERM, SIGINT };
    begin_folder();
    draw_data();
    for (int i = 0; i < 2; i++) {
        const pid_t pid = start_command(0, TRAIN "--epochs 100000 --out signalled%d", i);
        char run[32], last[64];
        snprintf(run, sizeof(run), "signalled%d", i);
        snprintf(last, sizeof(last), "%s/last.safetensors", run);
        while (count_steps(run) < 1) sleep_ms(2);
        kill(pid, numbers[i]);
        ck_assert_int_eq(wait_command(pid), 128 + numbers[i]);
        expect_err("saved at epoch");
        const long steps = count_steps(run);
        expect(0, TRAIN "--epochs 100000 --out asked%d --stop-at %ld", i, steps);
        expect_same_tensors(i ? "asked1/last.safetensors" : "asked0/last.safetensors", last);
    }
    end_folder();
}
END_TEST

/* As in the background of a shell (&): an ignored signal does not stop a run, also not after
 * another signal. */
START_TEST(ignored_signals_stay_ignored)
{
    begin_folder();
    draw_data();
    ignored_signal = SIGINT;
    const pid_t pid = start_command(0, TRAIN "--epochs 100000 --out background");
    ignored_signal = 0;
    while (count_steps("background") < 1) sleep_ms(2);
    kill(pid, SIGINT); /* delivered before the other, which has the greater number */
    kill(pid, SIGTERM);
    kill(pid, SIGINT);
    ck_assert_int_eq(wait_command(pid), 128 + SIGTERM);
    expect_err("signal 15: saved at epoch");
    end_folder();
}
END_TEST

/* Kept checkpoints are what the run could have been resumed from. */
START_TEST(checkpoints_in_mid_epoch)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out whole --checkpoint-every 7 --keep-checkpoints");
    for (int step = 7; step <= 60; step += 7) {
        char kept[64], name[48];
        snprintf(kept, sizeof(kept), "whole/checkpoint-%012d.safetensors", step);
        snprintf(name, sizeof(name), "asked%d", step);
        expect(0, TRAIN "--out %s --stop-at %d", name, step);
        snprintf(name, sizeof(name), "asked%d/last.safetensors", step);
        expect_same_tensors(kept, name);
    }
    ck_assert(same_files("whole/checkpoint-000000000060.safetensors", "whole/last.safetensors"));
    ck_assert_int_eq(system("test $(ls whole/checkpoint-* | wc -l) = 12"), 0);
    expect(0, "train --resume whole");

    /* where last.safetensors is a link to a file elsewhere, each save is kept all the same */
    expect(0, TRAIN "--out linked --stop-at 1");
    ck_assert_int_eq(system("mv linked/last.safetensors elsewhere && "
                            "ln -s ../elsewhere linked/last.safetensors"),
                     0);
    expect(0, "train --resume linked --stop-at 4 --checkpoint-every 1 --keep-checkpoints");
    ck_assert(!same_files("linked/checkpoint-000000000003.safetensors",
                          "linked/checkpoint-000000000004.safetensors"));

    /* killed after its first save in mid-epoch, it resumes from there */
    const pid_t pid =
        start_command(0, TRAIN "--out killed --checkpoint-every 3 --keep-checkpoints");
    while (!exists("killed/checkpoint-000000000003.safetensors")) sleep_ms(1);
    kill(pid, SIGKILL);
    wait_command(pid);
    expect(0, "train --resume killed --checkpoint-every 1");
    ck_assert(same_files("whole/last.safetensors", "killed/last.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "killed/run_log.txt"));
    end_folder();
}
END_TEST

/* Killed early, usually in its first epoch before a checkpoint with a step, it resumes with the
 * kernels that were timed at its start, and with those of its manifest. */
START_TEST(killed_before_its_first_epoch_ends)
{
    if (!HAS_ONEDNN) SKIP("this build has no oneDNN");
    begin_folder();
    draw_data();
    const pid_t pid =
        start_command(0, TRAIN "--benchmark --arithmetic native --epochs 100000 --out run");
    while (count_steps("run") < 1) sleep_ms(1);
    kill(pid, SIGKILL);
    wait_command(pid);
    json_t *begun = read_identity("run/manifest.json");
    const long n_steps = count_steps("run"); /* however far it came */
    for (int i = 1; i <= 2; i++) {
        expect(0, "train --resume run --stop-at %ld", n_steps + i);
        ck_assert_int_eq(count_steps("run"), n_steps + i);
        json_t *now = read_identity("run/manifest.json");
        ck_assert(json_equal(now, begun));
        json_decref(now);
    }
    json_decref(begun);
    ck_assert_int_eq(remove("run/last.safetensors"), 0);
    expect(1, "train --resume run");
    expect_err("run/last.safetensors");
    end_folder();
}
END_TEST

/* Every file that is there is whole. */
static void check_files(const char *dir)
{
    static const char *const names[] = { "last.safetensors", "best.safetensors" };
    char path[128];
    ls_context *ctx = ls_context_open(NULL);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        if (!exists(path)) continue;
        ck_assert_msg(ls_tensor_file_open(ctx, path) != NULL, "%s", ls_context_message(ctx));
    }
    ls_context_close(&ctx);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    json_t *config = exists(path) ? json_load_file(path, 0, NULL) : NULL;
    ck_assert(!exists(path) || config);
    json_decref(config);
    snprintf(path, sizeof(path), "%s/metrics.jsonl", dir);
    size_t size;
    char *text = exists(path) ? read_file(path, &size) : NULL;
    /* Empty: killed between its first row and its first checkpoint, the run has begun again. */
    ck_assert(!text || size == 0 || text[size - 1] == '\n');
    free(text);
}

START_TEST(killed_at_any_moment)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out whole");
    for (long ms = 20; ms < 1500; ms = ms * 3 / 2) {
        const pid_t pid = exists("killed/config.json") ? start_command(0, "train --resume killed")
                                                       : start_command(0, TRAIN "--out killed");
        sleep_ms(ms);
        kill(pid, SIGKILL);
        wait_command(pid);
        if (exists("killed")) check_files("killed");
    }
    expect(0, exists("killed/config.json") ? "train --resume killed" : TRAIN "--out killed");
    ck_assert(same_files("whole/last.safetensors", "killed/last.safetensors"));
    ck_assert(same_files("whole/best.safetensors", "killed/best.safetensors"));
    ck_assert(same_files("whole/run_log.txt", "killed/run_log.txt"));
    expect_same_metrics("whole/metrics.jsonl", "killed/metrics.jsonl", 3);
    end_folder();
}
END_TEST

/* A file that a resume needs is missing: the error names it, and no file changes. */
START_TEST(a_failed_resume_changes_no_file)
{
    static const char *const files[] = { "metrics.jsonl", "run_log.txt" };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --stop-at 25");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char command[256];
        snprintf(command, sizeof(command), "rm -rf was && cp -r run was && rm run/%s was/%s",
                 files[i], files[i]);
        ck_assert_int_eq(system(command), 0);
        expect(1, "train --resume run");
        expect_err(files[i]);
        ck_assert_int_eq(system("diff -r run was"), 0);
        ck_assert_int_eq(system("rm -rf run was"), 0);
        expect(0, TRAIN "--out run --stop-at 25");
    }
    end_folder();
}
END_TEST

/* The run's manifest, with another digest of decoded pixels and an older libjpeg. */
static void change_decoders(void)
{
    json_t *manifest = json_load_file("run/manifest.json", 0, NULL);
    json_t *data = json_object_get(json_object_get(manifest, "identity"), "data");
    json_t *session = json_array_get(json_object_get(manifest, "sessions"), 0);
    const json_t *decoders = json_object_get(data, "decoders");
    ck_assert_int_eq(strncmp(json_string_value(decoders), "JPEG pixels ", 12), 0);
    json_object_set_new(data, "decoders", json_string("JPEG pixels 0123456789abcdef"));
    json_t *provenance = json_object_get(session, "provenance");
    ck_assert_ptr_nonnull(json_string_value(json_object_get(provenance, "jpeg")));
    json_object_set_new(provenance, "jpeg", json_string("libjpeg-turbo 1.0.0"));
    ck_assert_int_eq(json_dump_file(manifest, "run/manifest.json", 0), 0);
    json_decref(manifest);
}

START_TEST(decoder_of_other_pixels)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --stop-at 1");
    change_decoders();
    expect(1, "train --resume run --stop-at 2");
    expect_err("data.decoders is \"JPEG pixels 0123456789abcdef\" in the run, \"JPEG pixels ");
    expect_err(" now (versions of libjpeg or libwebp that decode the same files to different "
               "pixels)");
    expect_err("; libjpeg-turbo 1.0.0 in the run, libjpeg");
    end_folder();
}
END_TEST

START_TEST(changed_data)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --stop-at 1");
    ck_assert_int_eq(mkdir("elsewhere", 0777), 0);
    ck_assert_int_eq(chdir("elsewhere"), 0);
    expect(0, "train --resume ../run --stop-at 2");
    ck_assert_int_eq(chdir(".."), 0);
    ck_assert_int_eq(system("mv data moved"), 0);
    expect(3, "train --resume run");
    expect_err("/data: no such folder");
    expect_err("if it was moved, use --data-dir DIR");
    expect(0, "train --resume run --data-dir moved");
    ck_assert_int_eq(system("rm moved/train/star/000000.*"), 0);
    expect(1, "train --resume run --data-dir moved");
    expect_err("data.samples is 160 in the run, 159 now");
    expect_err("the identity differs from that of the run");
    expect(0, "train --resume run --data-dir moved --force");
    expect_err("warning: run: resumed although the identity differs: data.samples is 160 in the "
               "run, 159 now");
    json_t *manifest = json_load_file("run/manifest.json", 0, NULL);
    const json_t *sessions = json_object_get(manifest, "sessions");
    ck_assert_int_eq(json_array_size(sessions), 4);
    for (int i = 0; i < 4; i++) {
        const json_t *forced = json_object_get(json_array_get(sessions, i), "forced");
        ck_assert_int_eq(json_array_size(forced) > 0, i == 3);
    }
    json_decref(manifest);
    expect(0, "train --resume run --data-dir moved"); /* it is that run now */

    ck_assert_int_eq(remove("run/manifest.json"), 0);
    expect(1, "train --resume run --data-dir moved");
    expect_err("run/manifest.json");
    expect(0, "train --resume run --data-dir moved --force");
    ck_assert(exists("run/manifest.json"));
    end_folder();
}
END_TEST

/* What was found unreadable before the stop counts after it. */
START_TEST(bad_images_are_remembered)
{
    begin_folder();
    draw_data();
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof(path), "data/%s/star/bad%d.png", i < 3 ? "train" : "val", i);
        write_text(path, "no image");
    }
    expect(0, TRAIN "--on-bad-image skip --out whole");
    expect(0, TRAIN "--on-bad-image skip --out stopped --stop-at 19");
    expect(0, "train --resume stopped --stop-at 39");
    expect(0, "train --resume stopped");
    expect_err("data/train/star/bad0.png: not a JPEG");
    expect_same_metrics("whole/metrics.jsonl", "stopped/metrics.jsonl", 3);
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    end_folder();
}
END_TEST

START_TEST(an_active_run_is_not_resumed)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--out run --stop-at 1");
    write_text("run/.lockstep-1-0.tmp", "half of a file");
    const int fd = open("run/.lock", O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(flock(fd, LOCK_EX), 0);
    expect(1, "train --resume run");
    expect_err("run folder 'run': another process is training there");
    ck_assert(exists("run/.lockstep-1-0.tmp"));
    close(fd);
    expect(0, "train --resume run --steps 2");
    ck_assert(!exists("run/.lockstep-1-0.tmp"));
    end_folder();
}
END_TEST

START_TEST(seeding_by_worker_keeps_the_worker_count)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--epochs 1 --seeding worker -j 2 --out whole");
    expect(0, TRAIN "--epochs 1 --seeding worker -j 2 --out stopped --stop-at 3");
    for (int force = 0; force < 2; force++) {
        expect(2, "train --resume stopped -j 3 %s", force ? "--force" : "");
        expect_err("--workers 3: the run has 2 workers, and with --seeding worker");
    }
    expect(0, "train --resume stopped -j 2 --stop-at 5");
    expect(0, "train --resume stopped");
    ck_assert(same_files("whole/run_log.txt", "stopped/run_log.txt"));
    end_folder();
}
END_TEST

TEST_PROGRAM(train_stop)
{
    return RUN_SUITE("train_stop", stopped_and_resumed_is_the_same,
                     accumulated_gradients_are_resumed, shards_are_resumed, signals_save_and_stop,
                     ignored_signals_stay_ignored, checkpoints_in_mid_epoch,
                     killed_before_its_first_epoch_ends, killed_at_any_moment,
                     a_failed_resume_changes_no_file, decoder_of_other_pixels, changed_data,
                     seeding_by_worker_keeps_the_worker_count, bad_images_are_remembered,
                     an_active_run_is_not_resumed);
}
