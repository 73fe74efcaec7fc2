/* test_pack_command.c: 'lockstep pack', and runs that read packs. */
#include "command.h"
#include "run_files.h"

#include "../suite.h"
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 10 steps an epoch, with everything that draws random numbers. */
#define TRAIN "train --image-size 8 --epochs 2 -b 8 --crop-padding 2 --seed 7 --threads 1 "

static void draw_data(void)
{
    expect(0, "demo-data data --train 8 --val 2");
}

/* No temporary file is left. */
static void expect_clean(void)
{
    DIR *here = opendir(".");
    for (const struct dirent *e; (e = readdir(here)) != NULL;)
        ck_assert_msg(strncmp(e->d_name, ".lockstep", 9) != 0, "%s was left", e->d_name);
    closedir(here);
}

START_TEST(packs_train_to_the_same_bits)
{
    static const char *const packs[] = { "files.pack", "raw.pack" };
    begin_folder();
    draw_data();
    expect(0, TRAIN "--data-dir data --out run -j 0");
    expect(0, "pack data files.pack -j 2");
    expect_out("files.pack: 100 images");
    expect_out("train      80 images, 10 classes");
    expect_out("next: " LOCKSTEP_COMMAND " train --data-dir files.pack\n");
    expect(0, "pack --raw data raw.pack -j 0");
    expect_out("of pixels");
    for (int i = 0; i < 2; i++) {
        expect(0, TRAIN "--data-dir %s --out %s.run -j 2", packs[i], packs[i]);
        char path[64];
        snprintf(path, sizeof(path), "%s.run/run_log.txt", packs[i]);
        ck_assert(same_files("run/run_log.txt", path));
        snprintf(path, sizeof(path), "%s.run/metrics.jsonl", packs[i]);
        expect_same_metrics("run/metrics.jsonl", path, 2);
        expect(0, "compare run %s.run", packs[i]);
        expect_out("result: identical");

        /* Begun on the folder, gone on with the pack, ended on the folder. */
        expect(0, TRAIN "--data-dir data --out mixed%d --stop-at 7", i);
        expect(0, "train --resume mixed%d --data-dir %s --stop-at 13", i, packs[i]);
        expect(0, "train --resume mixed%d --data-dir data", i);
        snprintf(path, sizeof(path), "mixed%d/run_log.txt", i);
        ck_assert(same_files("run/run_log.txt", path));

        expect(0, "eval --checkpoint run/best.safetensors --data-dir %s", packs[i]);
        char *said = strdup(said_out);
        ck_assert_ptr_nonnull(said);
        expect(0, "eval --checkpoint run/best.safetensors --data-dir data");
        ck_assert_str_eq(said, said_out);
        free(said);
    }
    /* What the digest of all contents says is the same, too. */
    expect(0, TRAIN "--data-dir data --out a --digest-contents --steps 2");
    expect(0, TRAIN "--data-dir raw.pack --out b --digest-contents --steps 2");
    expect(0, "compare a b");
    end_folder();
}
END_TEST

START_TEST(resized_packs_are_other_data)
{
    begin_folder();
    draw_data();
    expect(0, "pack data small.pack --resize 8");
    expect_out("shorter sides of 8");
    expect(0, TRAIN "--data-dir data --out run --steps 2");
    expect(0, TRAIN "--data-dir small.pack --out small --steps 2");
    ck_assert_int_ne(run_command("compare run small"), 0);
    expect_out("data.resized_in_pack is missing in A, 8 in B");
    expect(0, TRAIN "--data-dir data --out begun --stop-at 2");
    ck_assert_int_ne(run_command("train --resume begun --data-dir small.pack"), 0);
    expect_err("data.digest");
    end_folder();
}
END_TEST

START_TEST(a_folder_of_classes)
{
    begin_folder();
    draw_data();
    expect(0, TRAIN "--data-dir data --out run --steps 1 --epochs 1");
    expect(0, "pack data/val val.pack");
    expect(0, "eval --checkpoint run/last.safetensors --data-dir val.pack");
    expect_out("20 images");
    ck_assert_int_eq(run_command(TRAIN "--data-dir val.pack --out other"), 3);
    expect_err("val.pack: a pack without a folder 'train'");
    expect(0, "pack data all.pack");
    expect(0, "eval --checkpoint run/last.safetensors --data-dir all.pack/val");
    expect_out("20 images");
    ck_assert_int_eq(run_command("eval --checkpoint run/last.safetensors --data-dir all.pack/of"),
                     3);
    expect_err("all.pack/of: no such folder");
    expect(0, "pack data/train train.pack");
    ck_assert_int_eq(run_command(TRAIN "--data-dir none.pack --out other"), 3);
    expect_err("none.pack: no such folder");
    end_folder();
}
END_TEST

START_TEST(bad_images)
{
    begin_folder();
    draw_data();
    write_text("data/train/star/cut.png", "\x89PNG\r\n\x1a\n cut");
    write_text("data/train/star/notes.txt", "no image");
    expect(3, "pack data p");
    expect_err("image 'data/train/star/cut.png': ");
    expect_err("ignored 1 file not in a supported image format");
    expect_err("lockstep pack: --on-bad-image skip packs such images as they are; 'lockstep train "
               "--on-bad-image skip' replaces them\n");
    ck_assert(!exists("p"));
    expect_clean();
    for (int raw = 0; raw < 2; raw++) {
        expect(0, "pack data p --overwrite --on-bad-image skip %s", raw ? "--raw" : "-j 1");
        expect_err("image 'data/train/star/cut.png': ");
        expect_out("; 1 unreadable image\n");
        expect(3, TRAIN "--data-dir p --out fails%d", raw);
        expect_err("p/train/star/cut.png");
        expect(0, TRAIN "--data-dir p --out skips%d --on-bad-image skip", raw);
        expect_err("unreadable image replaced: p/train/star/cut.png");
    }
    expect(0, TRAIN "--data-dir data --out run --on-bad-image skip");
    ck_assert(same_files("run/run_log.txt", "skips0/run_log.txt"));
    ck_assert(same_files("run/run_log.txt", "skips1/run_log.txt"));
    end_folder();
}
END_TEST

/* Images that were removed or became unreadable after the folder was listed: the status is that of
 * unusable images. */
START_TEST(unreadable_files)
{
    begin_folder();
    draw_data();
    ck_assert_int_eq(symlink("nowhere.png", "data/train/star/gone.png"), 0);
    expect(3, "pack data p");
    expect_err("image 'data/train/star/gone.png': No such file or directory\n");
    expect_err("--on-bad-image skip");
    ck_assert_int_eq(unlink("data/train/star/gone.png"), 0);
    ck_assert_int_eq(symlink("loop.png", "data/train/star/loop.png"), 0);
    expect(3, "pack data p");
    expect_err("image 'data/train/star/loop.png': Too many levels");
    expect(0, "pack data p --on-bad-image skip");
    expect(1, "pack data none/q --on-bad-image skip");
    ck_assert_ptr_null(strstr(said_err, "--on-bad-image"));
    end_folder();
}
END_TEST

/* A pack without a usable image is not written; an existing file stays. */
START_TEST(no_usable_image)
{
    begin_folder();
    draw_data();
    expect(3, "pack data p --resize 65536 --on-bad-image skip");
    expect_err("resized to 96256 x 65536, the limit is 268435455 pixels");
    expect_err("'p': none of the 100 images can be used");
    ck_assert(!exists("p"));
    expect(0, "pack data p");
    expect(0, "pack data before");
    expect(3, "pack data p --resize 65536 --on-bad-image skip --overwrite");
    ck_assert(same_files("p", "before"));
    expect_clean();
    end_folder();
}
END_TEST

START_TEST(damage_and_mistakes)
{
    begin_folder();
    draw_data();
    expect(0, "pack data p");
    expect(1, "pack data p");
    expect_err("there is a file already");
    expect_err("--overwrite replaces it");
    expect(1, "pack data data");
    expect_err("Is a directory");
    ck_assert_ptr_null(strstr(said_err, "--overwrite"));
    expect(1, "pack data /dev/full");
    expect_err("No space left");
    ck_assert_ptr_null(strstr(said_err, "--overwrite"));
    expect(3, "pack p/train q");
    expect_err("p/train: is already a pack");
    expect(0, "pack data p --overwrite");
    expect(0, "pack --check p");
    expect_out("no damage found");
    size_t size;
    char *bytes = read_file("p", &size);
    FILE *file = fopen("p", "r+b");
    fseek(file, 500, SEEK_SET);
    fputc(bytes[500] ^ 1, file);
    fclose(file);
    free(bytes);
    expect(1, "pack --check p");
    expect_err("pack 'p': damaged: image '");
    ck_assert_int_eq(truncate("p", (off_t)size / 2), 0);
    expect(1, "pack --check p");
    expect_err("pack 'p': truncated or damaged pack");
    expect(3, TRAIN "--data-dir p --out run");
    expect_err("p/train': file 'p': truncated or damaged pack");
    expect(3, "pack none q");
    expect_err("none");
    expect(2, "pack data");
    expect_err("expected a folder and the file to write");
    expect(2, "pack --check data q");
    expect_err("expected one pack to check");
    expect(3, "pack p q");
    expect(1, "pack data none/q");
    ck_assert(!exists("q"));
    end_folder();
}
END_TEST

/* However the command ends, the previous file stays. */
START_TEST(packs_appear_whole_or_not_at_all)
{
    begin_folder();
    draw_data();
    write_text("q", "before");
    ck_assert_int_ne(wait_command(start_command(20000, "pack data p")), 0);
    ck_assert(!exists("p"));
    ck_assert_int_ne(wait_command(start_command(20000, "pack data q --overwrite")), 0);
    size_t size;
    char *text = read_file("q", &size);
    ck_assert_str_eq(text, "before");
    free(text);
    expect_clean();
    static const int signals[] = { SIGKILL, SIGTERM, SIGINT };
    for (int i = 0; i < 3; i++) {
        const pid_t pid = start_command(0, "pack data p --raw --overwrite");
        usleep((useconds_t)(20000 * i)); /* somewhere: before, within or after */
        kill(pid, signals[i]);
        wait_command(pid);
        if (exists("p")) expect(0, "pack --check p");
    }
    end_folder();
}
END_TEST

TEST_PROGRAM(pack_command)
{
    return RUN_SUITE("pack_command", packs_train_to_the_same_bits, resized_packs_are_other_data,
                     a_folder_of_classes, bad_images, unreadable_files, no_usable_image,
                     damage_and_mistakes, packs_appear_whole_or_not_at_all);
}
