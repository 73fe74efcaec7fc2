/* test_check_command.c: what 'lockstep check' prints about clean, faulty and wrong folders, and its
 * exit status. */
#include "../data/planted.h"
#include "../data/support.h"
#include "../suite.h"
#include "command.h"
#include <jansson.h>
#include <string.h>
#include <unistd.h>

static char *said_before(void)
{
    char *copy = strdup(said_out);
    ck_assert_ptr_nonnull(copy);
    return copy;
}

START_TEST(a_clean_folder)
{
    begin_folder();
    make_folder("data");
    make_clean_folder("data");
    expect(0, "check data");
    expect_out("data: 24 images, 24 readable\n");
    expect_out("train\n  cat        4 images\n  dog        4 images\n  fox        4 images\nval\n");
    expect_out("width   32 to 32 pixels, median 32\nheight  24 to 24 pixels, median 24\n");
    expect_out("\nno findings\n");
    expect(0, "check data/train/ -j 0");
    expect_out("data/train: 12 images, 12 readable\n  cat ");
    expect(1, "check data --min-side 25 --limit 2");
    expect_out("\nvery small images: 24\n"
               "  train/cat/0.jpg: 32 x 24 pixels\n"
               "  train/cat/1.jpg: 32 x 24 pixels\n"
               "  ... and 22 more (--limit)\n\n24 findings\n");
    end_folder();
}
END_TEST

static void expect_text_member(const json_t *object, const char *key, const char *value)
{
    ck_assert_str_eq(json_string_value(json_object_get(object, key)), value);
}

static long long integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

START_TEST(planted_faults_in_text_and_json)
{
    begin_folder();
    make_folder("data");
    make_clean_folder("data");
    plant_faults("data");
    expect(1, "check data -j 0");
    char *text = said_before();
    expect_out("train\n  cat         11 images, 2 unreadable\n");
    expect_out("\nclass folders without images: 1\n  train/empty: no images");
    expect_out("\nunreadable images and folders: 7\n  train/cat/cut.jpg: damaged JPEG: ");
    expect_out("\nimages that are in several splits: 3\n"
               "  val/cat/copy.jpg: the same file as train/cat/3.jpg\n");
    expect_out("\n42 findings\n");
    for (int workers = 1; workers < 4; workers += 2) {
        expect(1, "check data -j %d", workers);
        ck_assert_str_eq(said_out, text);
    }
    free(text);

    expect(1, "check data --json");
    json_error_t error;
    json_t *all = json_loads(said_out, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(all, "%s", error.text);
    ck_assert_int_eq(integer(all, "images"), 53);
    ck_assert_int_eq(integer(all, "readable"), 46);
    ck_assert_int_eq(integer(json_object_get(all, "width"), "max"), 40);
    const json_t *cat = json_array_get(json_object_get(all, "classes"), 1);
    expect_text_member(cat, "split", "train");
    expect_text_member(cat, "class", "cat");
    ck_assert_int_eq(integer(cat, "readable"), 9);
    const json_t *folder = json_array_get(json_object_get(all, "folders"), 4);
    expect_text_member(folder, "path", "train/fox");
    const json_t *findings = json_object_get(all, "findings");
    ck_assert_uint_eq(json_array_size(findings), N_PLANTED);
    for (size_t i = 0; i < N_PLANTED; i++) {
        const json_t *f = json_array_get(findings, i);
        expect_text_member(f, "kind", ls_finding_name(planted[i].kind));
        expect_text_member(f, "path", planted[i].path);
        ck_assert_ptr_nonnull(
            strstr(json_string_value(json_object_get(f, "reason")), planted[i].reason));
        if (planted[i].kind == LS_FINDING_LEAK)
            ck_assert_int_eq(
                strncmp(json_string_value(json_object_get(f, "other")), "train/cat/", 10), 0);
    }
    json_decref(all);
    end_folder();
}
END_TEST

static void make_png(const char *path, unsigned seed)
{
    uint8_t *pixels = draw_scene(20, 20, seed);
    write_png(path, 20, 20, 3, pixels);
    free(pixels);
}

START_TEST(unlabelled_images)
{
    begin_folder();
    make_folder("photos");
    make_png("photos/1.png", 1);
    make_png("photos/2.png", 2);
    expect(0, "check photos");
    expect_out("photos: 2 images, 2 readable\n  unlabelled        2 images\nwidth ");
    expect_out("no findings\n");
    expect_err("note: photos: images without classes, which prediction reads; training reads");
    write_text("photos/3.png", "x");
    expect(1, "check photos");
    expect_out("  unlabelled        3 images, 1 unreadable\n");
    expect_out("unreadable images and folders: 1\n  3.png: ");
    end_folder();
}
END_TEST

START_TEST(trees_of_wrong_folders)
{
    begin_folder();
    make_folder("photos");
    make_folder("photos/train");
    make_png("photos/train/1.png", 1);
    make_png("photos/train/2.png", 2);
    expect(1, "check photos");
    expect_out("\nfolders are not arranged as DIR/train/<class>/<image> or DIR/<class>/<image>: 1\n"
               "  train: no class folders; found 2 images\n\n"
               "found           expected\n"
               "photos/         photos/\n"
               "  train/          train/\n"
               "    2 images        <class 1>/\n"
               "                      <image>...\n"
               "                    <class 2>/\n"
               "                      <image>...\n"
               "                  val/\n"
               "                    <class 1>/\n"
               "                    <class 2>/\n"
               "\n1 finding\n");
    make_folder("above");
    make_folder("above/photographs-of-the-second-expedition");
    make_folder("above/photographs-of-the-second-expedition/train");
    for (unsigned c = 0; c < 5; c++) {
        make_folder(path_in("above/photographs-of-the-second-expedition/train", "%u", c));
        make_png(path_in("above/photographs-of-the-second-expedition/train", "%u/0.png", c), c);
    }
    expect(1, "check above");
    expect_out("  above: one folder too many: 'photographs-of-the-second-expedition' holds no "
               "images, but folders such as 'train', and is taken for a class\n");
    expect_out("found                                      expected\n"
               "above/                                     above/\n"
               "  photographs-of-the-second-expedition/      train/\n"
               "    train/                                     <class 1>/\n"
               "      0/                                         <image>...\n"
               "        1 image                                <class 2>/\n"
               "      1/                                         <image>...\n"
               "        1 image                              val/\n"
               "      2/                                       <class 1>/\n"
               "        1 image                                <class 2>/\n"
               "      ... 2 more folders\n");
    make_folder("above/photographs-of-the-second-expedition-to-the-geographic-north-pole");
    expect(1, "check above");
    expect_out("\nfound\nabove/\n  photographs-of-the-second-expedition/\n    train/\n");
    expect_out(
        "      ... 2 more folders\n"
        "  "
        "photographs-of-the-second-expedition-to-the-geographic-north-pole/\n\nexpected\nabove/\n");
    end_folder();
}
END_TEST

/* What to do is printed once below the findings of a kind. */
START_TEST(advice_names_options)
{
    json_error_t error;
    begin_folder();
    make_folder("data");
    make_folder("data/a");
    make_folder("data/b");
    make_png("data/a/0.png", 0);
    for (unsigned i = 1; i <= 10; i++) make_png(path_in("data/b", "%u.png", i), i);
    expect(1, "check data");
    expect_out("\nclasses with many more training images than others: 1\n"
               "  data: class 'b' has 10 images, 'a' 1: 10 times as many\n"
               "  -> train --class-weights balanced or --sampler balanced");
    expect(1, "check data --json");
    json_t *all = json_loads(said_out, 0, &error);
    ck_assert_msg(all, "%s", error.text);
    const json_t *given = json_object_get(all, "advice");
    ck_assert_uint_eq(json_object_size(given), 1);
    ck_assert_ptr_nonnull(
        strstr(json_string_value(json_object_get(given, "imbalance")), "--class-weights"));
    json_decref(all);
    end_folder();
}
END_TEST

/* A link that leads back is a finding, and the rest is checked. */
START_TEST(unreadable_folders_are_findings)
{
    begin_folder();
    expect(0, "demo-data data --train 2 --val 2");
    ck_assert_int_eq(symlink(".", "data/train/star/loop"), 0);
    expect(1, "check data");
    expect_out("unreadable images and folders: 1\n"
               "  train/star/loop: a link that leads back to a folder above it\n");
    expect_out("40 images, 40 readable\n");
    end_folder();
}
END_TEST

START_TEST(misuse)
{
    begin_folder();
    expect(0, "demo-data data --train 2 --val 1");
    make_folder("empty");
    make_folder("bad");
    make_folder("bad/a");
    make_folder("bad/b");
    write_text("bad/a/1.jpg", "no image");
    write_text("bad/b/2.jpg", "");
    write_text("list", "");
    write_text("list.csv", "path,label\n1.png,a\n");
    write_text("train-images-idx3-ubyte", "");
    static const struct {
        int status;
        const char *line, *said;
    } cases[] = {
        { 2, "", "expected one folder or list, got 0 arguments" },
        { 2, "data data", "expected one folder or list, got 2 arguments" },
        { 2, "data --min-side 0", "--min-side: expected an integer from 1" },
        { 2, "data --data-dir data", "unknown option '--data-dir'" },
        { 3, "none", "image folder 'none': No such file or directory" },
        { 3, "/dev/null", "/dev/null: a device; expected a folder or a pack" },
        { 3, "list", "list: a file; expected a folder; 'lockstep pack --check' checks a pack" },
        { 3, "list.csv", "list.csv: no image can be read" },
        { 3, ".", ".: idx files, which hold all images in one file already" },
        { 3, "empty", "empty: no image can be read" },
        { 3, "bad --json", "bad: no image can be read" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect(cases[i].status, "check %s", cases[i].line);
        expect_err(cases[i].said);
    }
    expect(0, "check data");
    end_folder();
}
END_TEST

TEST_PROGRAM(check_command)
{
    return RUN_SUITE("check command", a_clean_folder, planted_faults_in_text_and_json,
                     unlabelled_images, trees_of_wrong_folders, advice_names_options,
                     unreadable_folders_are_findings, misuse);
}
