/* test_command_results.c: printed results: losses, classes, predictions, checkpoints of other
 * programs; on any terminal and with any names. */
#include "command.h"
#include "one_epoch.h"

#include "../suite.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two losses of one checkpoint that differ by definition must not look like an error. */
START_TEST(losses_name_their_label_smoothing)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN);
    expect_out("loss    cross-entropy with label smoothing 0.1  validation uses it, too; 'lockstep "
               "eval' does not\n");
    expect(0, "eval --checkpoint run/last.safetensors --data-dir data");
    ck_assert_ptr_nonnull(strstr(strstr(said_out, ": loss "), " without label smoothing, top-1 "));
    char plain[32];
    expect(0, TRAIN "--label-smoothing 0 --out plain");
    ck_assert_ptr_null(strstr(said_out, "smoothing"));
    const char *loss = strstr(said_out, "val loss ") + strlen("val loss ");
    snprintf(plain, sizeof(plain), ": loss %.6s without", loss);
    expect(0, "eval --checkpoint plain/last.safetensors --data-dir data");
    expect_out(plain);
    end_folder();
}
END_TEST

/* On a terminal no line of results is wider than it. */
START_TEST(lines_fit_the_terminal)
{
    static const int widths[] = { 60, 80, 120 };
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        char line[1024];
        snprintf(line, sizeof(line),
                 "script -qec \"stty cols %d; exec " LOCKSTEP_COMMAND " " TRAIN
                 " --out run%d 2>/dev/null\" /dev/null </dev/null >said",
                 widths[i], widths[i]);
        ck_assert_int_eq(system(line), 0);
        size_t size;
        char *said = read_file("said", &size), *rest = said;
        ck_assert_ptr_nonnull(strstr(said, "'lockstep eval' does not"));
        for (char *at; (at = strsep(&rest, "\r\n"));) {
            const bool is_command = strstr(at, LOCKSTEP_COMMAND) != NULL;
            ck_assert_msg(is_command || strlen(at) <= (size_t)widths[i], "%s", at);
        }
        free(said);
    }
    end_folder();
}
END_TEST

/* The same run gives the same bytes. */
START_TEST(curves)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN);
    expect(0, "plot run");
    ck_assert_str_eq(said_out, "run/curves.svg\n");
    size_t size;
    char *first = read_file("run/curves.svg", &size);
    ck_assert_ptr_nonnull(strstr(first, ">run</text>"));
    ck_assert_ptr_nonnull(strstr(first, ">validation</text>"));
    expect(0, "plot --log --title=a&b run");
    char *second = read_file("run/curves.svg", &size);
    ck_assert_ptr_nonnull(strstr(second, ">a&amp;b</text>"));
    expect(0, "plot run");
    free(second);
    second = read_file("run/curves.svg", &size);
    ck_assert_str_eq(first, second);
    free(first);
    free(second);
    expect(2, "plot");
    expect_err("expected one run folder, got 0");
    expect(1, "plot data");
    expect_err("data/metrics.jsonl: no epoch is complete");
    end_folder();
}
END_TEST

START_TEST(checkpoints_from_elsewhere)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN);
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    expect_out("  class       images  recall  precision  F1      most confused with\n");
    expect_out("20 images: loss");
    expect_out("triangle");
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data/val");
    expect(3, "eval --checkpoint run/best.safetensors --data-dir nowhere");
    expect(1, "eval --checkpoint run/config.json --data-dir data");
    expect_err("run/config.json");
    expect(1, "predict --checkpoint nothing.safetensors data/val/star/000000.png");
    expect_err("nothing.safetensors");

    expect(1, "eval --checkpoint data --data-dir data");
    expect_err("--checkpoint data: a folder without best.safetensors and last.safetensors; ");

    /* cut off, or with other contents than its metadata says */
    ck_assert_int_eq(system("head -c 100000 run/best.safetensors > cut.safetensors;"
                            "sed s/resnet20/resnet21/ run/best.safetensors > named.safetensors;"
                            "sed s/resnet20/resnet32/ run/best.safetensors > other.safetensors"),
                     0);
    expect(1, "predict --checkpoint cut.safetensors data/val/star/000000.png");
    expect_err("cut.safetensors");
    expect(1, "predict --checkpoint named.safetensors data/val/star/000000.png");
    expect_err("unusable 'model' in its metadata: resnet21");
    expect(1, "predict --checkpoint other.safetensors data/val/star/000000.png");
    expect_err("other.safetensors");
    end_folder();
}
END_TEST

/* The numbers of all classes stand below each other, whatever the names are. */
START_TEST(classes_are_aligned)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("for d in data/train data/val; do"
                            " mv $d/ring $d/\xe7\x8c\xab\xe3\x81\xae\xe8\xbc\xaa;"
                            " mv $d/star $d/$(printf 'a%040d' 0); done"),
                     0);
    expect(0, TRAIN);
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    char line[128];
    snprintf(line, sizeof(line),
             "\n  %-40s    images  recall  precision  F1      most confused with\n", "class");
    expect_out(line);
    snprintf(line, sizeof(line), "\n  %-40s         2  ", "triangle");
    expect_out(line);
    snprintf(line, sizeof(line), "\n  \xe7\x8c\xab\xe3\x81\xae\xe8\xbc\xaa%34s         2  ", "");
    expect_out(line);
    snprintf(line, sizeof(line), "\n  a%040d\n  %40s         2  ", 0, "");
    expect_out(line);
    end_folder();
}
END_TEST

/* The table, the matrix, the JSON object and the CSV file have the same numbers. */
START_TEST(evaluation_of_classes)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("mv data/val/ring 'data/val/<b>&\",'; mv data/train/ring "
                            "'data/train/<b>&\",'"),
                     0);
    expect(0, TRAIN);
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --csv classes.csv");
    expect_out("mean of the classes: recall ");
    expect_out(", AUC 0.");
    expect_out("\n                0  1  2  3  4  5  6  7  8  9\n  <b>&\",     0  ");
    size_t size;
    char *csv = read_file("classes.csv", &size);
    int n, predicted = 0, images = 0, lines = 0;
    const char *at = strchr(csv, '\n');
    ck_assert_int_eq(strncmp(at + 1, "\"<b>&\"\",\",2,", strlen("\"<b>&\"\",\",2,")), 0);
    at = strchr(at + 1, '\n');
    for (int k; sscanf(at + 1, "%*[^,],%d,%d", &n, &k) == 2; lines++, at = strchr(at + 1, '\n')) {
        images += n;
        predicted += k;
    }
    free(csv);
    ck_assert_int_eq(lines, 9);
    ck_assert_int_eq(images, 18);
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --json");
    json_t *json = json_loads(said_out, 0, NULL);
    ck_assert_msg(json_object_get(json, "loss") != NULL, "%s", said_out);
    const json_t *classes = json_object_get(json, "classes"), *pair;
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(classes, 0), "class")),
                     "<b>&\",");
    size_t i;
    int64_t sum = 0, own = 0;
    json_array_foreach(json_object_get(json, "confusion"), i, pair)
    {
        sum += json_integer_value(json_array_get(pair, 2));
        if (json_integer_value(json_array_get(pair, 1)) == 0)
            own += json_integer_value(json_array_get(pair, 2));
    }
    ck_assert_int_eq(sum, 20);
    ck_assert_int_eq(predicted, 20 - own);
    char path[512];
    snprintf(path, sizeof(path), "data/val/%s",
             json_string_value(
                 json_object_get(json_array_get(json_object_get(json, "mistakes"), 0), "path")));
    ck_assert_msg(exists(path), "%s", path);
    json_decref(json);
    expect(1, "eval --checkpoint run/best.safetensors --data-dir data --csv none/classes.csv");
    expect_err("--csv none/classes.csv: No such file or directory");
    expect(2, "eval --checkpoint run/best.safetensors --data-dir data --csv run/best.safetensors");
    expect_err("expected a name that ends in .csv");
    expect(2, "eval --checkpoint run/best.safetensors --data-dir data --csv run/metrics.csv");
    expect_err("--csv run/metrics.csv: a file of the run; expected another file");
    end_folder();
}
END_TEST

/* The accuracies of the classes are those of the same predictions as the whole. */
START_TEST(evaluation_with_flips)
{
    double loss[2], top1[2], sum = 0;
    begin_folder();
    expect(0, "demo-data data --train 8 --val 4");
    expect(0, TRAIN);
    for (int i = 0; i < 2; i++) {
        expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class%s",
               i ? " --test-time-flip" : "");
        ck_assert_int_eq(sscanf(strstr(said_out, ": loss "),
                                ": loss %lf without label smoothing, top-1 %lf", &loss[i],
                                &top1[i]),
                         2);
    }
    ck_assert(loss[0] != loss[1]);
    int n = 0;
    const char *at = strstr(strstr(said_out, "most confused with"), "\n");
    for (double class_top1; sscanf(at + 1, " %*s %*d %lf", &class_top1) == 1; n++) {
        sum += class_top1;
        at = strchr(at + 1, '\n');
    }
    ck_assert_int_eq(n, 10);
    ck_assert(sum / n - top1[1] < 1e-4 && top1[1] - sum / n < 1e-4);
    end_folder();
}
END_TEST

START_TEST(predictions)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN);
    ck_assert_int_eq(system("mkdir elsewhere; cp run/best.safetensors elsewhere/w.safetensors;"
                            "cp $(ls data/val/star/* | head -1) elsewhere/image;"
                            "echo no image > elsewhere/text.jpg; rm -r data run"),
                     0);
    expect(0, "predict --checkpoint elsewhere/w.safetensors elsewhere/image");
    double sum = 0, last = 1;
    int n = 0;
    const char *at = strchr(said_out, '\n');
    for (double p; at && sscanf(at, " %lf", &p) == 1; at = strchr(at + 1, '\n'), n++) {
        ck_assert(p <= last);
        sum += last = p;
    }
    ck_assert_int_eq(n, 5);
    ck_assert(sum > 0.5 && sum < 1.001);
    expect(0, "predict --checkpoint elsewhere/w.safetensors --top 99 elsewhere/image");
    expect_out("triangle");
    static char plain[sizeof(said_out)];
    memcpy(plain, said_out, sizeof(plain));
    expect(0, "predict --checkpoint elsewhere/w.safetensors --top 99 --test-time-flip "
              "elsewhere/image");
    expect_out("triangle");
    ck_assert_str_ne(said_out, plain);
    /* one bad image does not keep the others from being answered */
    expect(3, "predict --checkpoint elsewhere/w.safetensors elsewhere/text.jpg elsewhere/image "
              "elsewhere/none.png");
    expect_out("elsewhere/image\n  0.");
    expect_err("lockstep predict: elsewhere/text.jpg: ");
    ck_assert_ptr_null(strstr(said_err, "epoch"));
    expect_err("elsewhere/none.png");
    end_folder();
}
END_TEST

/* The same predictions in all formats, in the order of the paths. */
START_TEST(predictions_of_many_images)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    expect(0, TRAIN);
    ck_assert_int_eq(system("mkdir -p 'in/a,\"b'; cp $(ls data/val/star/* | head -1) in/z.png;"
                            "cp in/z.png 'in/a,\"b/x.png'; echo no image > in/m.jpg"),
                     0);
#define PREDICT "predict --checkpoint run/best.safetensors -k 1 -b 2 "
    for (int workers = 0; workers < 3; workers++) {
        expect(3, PREDICT "-j %d in in/z.png", workers);
        const char *second = strstr(said_out, "\nin/z.png\n  ");
        ck_assert_msg(second && strncmp(said_out, "in/a,\"b/x.png\n  0.", 18) == 0, "%s", said_out);
        ck_assert_ptr_nonnull(strstr(second + 1, "\nin/z.png\n  "));
        ck_assert_str_eq(said_err,
                         "lockstep predict: in/m.jpg: not a JPEG, PNG, WebP, BMP or PNM file\n");
    }
    ck_assert_int_eq(system("printf 'in/z.png\\r\\n\\nin/m.jpg\\nin' | " LOCKSTEP_COMMAND
                            " " PREDICT "--json - >json 2>err; test $? = 3 && " LOCKSTEP_COMMAND
                            " " PREDICT "--csv in >csv 2>err; test $? = 3"),
                     0);
    ck_assert_int_eq(system("printf 'in/z.png\\0in/m.jpg' | " LOCKSTEP_COMMAND " " PREDICT
                            "- 2>err; test $? = 2 && grep -q 'zero byte' err && " LOCKSTEP_COMMAND
                            " " PREDICT "- <in 2>err; test $? = 2 && grep -q 'directory' err"),
                     0);
    size_t size;
    char *text = read_file("json", &size), *rest = text;
    static const char *const paths[] = { "in/z.png", "in/m.jpg", "in/a,\"b/x.png", "in/m.jpg",
                                         "in/z.png" };
    double probability = 0;
    for (int i = 0; i < 5; i++) {
        json_t *line = json_loads(strsep(&rest, "\n"), 0, NULL);
        ck_assert_str_eq(json_string_value(json_object_get(line, "path")), paths[i]);
        const json_t *list = json_object_get(line, "predictions");
        ck_assert_int_eq(json_array_size(list), i % 2 == 1 ? 0 : 1);
        ck_assert((json_object_get(line, "error") != NULL) == (i % 2 == 1));
        if (i % 2 == 0)
            probability =
                json_number_value(json_object_get(json_array_get(list, 0), "probability"));
        json_decref(line);
    }
    free(text);
    text = read_file("csv", &size);
    char name[32];
    double value;
    ck_assert_int_eq(sscanf(text,
                            "path,class,probability \"in/a,\"\"b/x.png\",%31[^,],%lf in/m.jpg,, "
                            "in/z.png,",
                            name, &value),
                     2);
    ck_assert(value > probability - 1e-6 && value < probability + 1e-6);
    free(text);
    /* Images of other formats are not left out. */
    write_text("in/b.avif", "....ftypavif....");
    write_text("in/n.GIF", "GIF89a");
    write_text("in/notes.txt", "no image");
    expect(3, PREDICT "--csv in");
    ck_assert_ptr_nonnull(strstr(said_out, "\nin/b.avif,,\nin/m.jpg,,\nin/n.GIF,,\nin/z.png,"));
    expect_err("in/b.avif: a file of type HEIF, AVIF or MP4, expected JPEG, PNG, WebP, BMP or PNM; "
               "ImageMagick converts it: mogrify -format png FILE\n");
    expect_err("in/n.GIF: a file of type GIF, ");
    ck_assert_ptr_null(strstr(said_err, "notes"));
    expect(2, PREDICT "--json --csv in");
    expect_err("--json and --csv exclude each other");
    ck_assert_int_eq(system("mkdir none; " LOCKSTEP_COMMAND " " PREDICT "- </dev/null; "
                            "test $? = 2"),
                     0);
    expect(3, PREDICT "none");
    expect_err("folder 'none': no images at any depth; expected names that end in jpg, jpeg, png, "
               "webp, bmp, ppm or pgm\n");
    write_text("list.csv", "path,label\nin/z.png,a\n");
    write_text("t10k-images-idx3-ubyte", "");
    write_text("a.pack", "");
    expect(2, PREDICT "list.csv");
    expect_err("list.csv: a list; predict reads images, folders, and paths from standard input");
    write_text("list(1).txt", "in/z.png\n");
    expect(3, PREDICT "--csv list(1).txt in/z.png");
    expect_err("list(1).txt: not an image; if it is a list of paths: lockstep predict ... - < "
               "'list(1).txt'\n");
    ck_assert_ptr_nonnull(strstr(said_out, "\nlist(1).txt,,\nin/z.png,"));
    make_folder("mnist");
    write_text("mnist/t10k-images-idx3-ubyte", "");
    expect(3, PREDICT "mnist");
    expect_err(
        "mnist: has idx files, which predict does not read; 'lockstep eval --data-dir mnist'");
    expect(2, PREDICT "./t10k-images-idx3-ubyte");
    expect_err("ubyte: an idx file; predict reads image files");
    expect(2, PREDICT "a.pack");
    expect_err("a.pack: a pack; predict reads image files and folders");
    end_folder();
}
END_TEST

/* A folder that can't be read is an error for its path, and the others are predicted; results are
 * printed while standard input is open. */
START_TEST(predictions_go_on)
{
    begin_folder();
    expect(0, "demo-data data --train 4 --val 1");
    expect(0, TRAIN);
    ck_assert_int_eq(system("mkdir in && cp $(ls data/val/star/* | head -1) in/a.png && "
                            "cp in/a.png in/z.png && ln -s . in/loop"),
                     0);
    expect(3, PREDICT "in");
    expect_out("in/a.png\n");
    expect_out("in/z.png\n");
    expect_err("image folder 'in/loop': a link that leads back to a folder above it");
    expect_err("in/loop: ");
    ck_assert_int_eq(
        system("mkfifo paths; (" LOCKSTEP_COMMAND " " PREDICT "-b 1 - <paths >out 2>err; "
               "echo $? >status) & exec 3>paths; for i in 1 2 3 4 5 6 7 8; do echo in/a.png >&3; "
               "done; for i in $(seq 1000); do test $(grep -c a.png out) = 8 && break; sleep "
               "0.05; done; test $(grep -c a.png out) = 8 || exit 1; echo in/z.png >&3; exec 3>&-; "
               "wait; grep -q z.png out && test $(cat status) = 0"),
        0);
    end_folder();
}
END_TEST

/* What was printed has no control character but newlines, and no line that a name has forged. */
static void expect_clean(void)
{
    static const char *const outputs[] = { said_out, said_err };
    for (int i = 0; i < 2; i++) {
        for (const char *at = outputs[i]; *at; at++)
            ck_assert_msg((*at & 0xE0) != 0 || *at == '\n', "\\x%02x in: %s", *at, outputs[i]);
        ck_assert_msg(!strstr(outputs[i], "\nforged"), "%s", outputs[i]);
        ck_assert_msg(!strstr(outputs[i], "\xc2\x9b"), "%s", outputs[i]);
    }
}

/* Names of folders, files and arguments, and metadata, must not reach a terminal as commands. */
START_TEST(hostile_names)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    ck_assert_int_eq(system("e=$(printf 'e\\033]0;t\\007\\nforged\\302\\233m');"
                            "for d in data/train data/val; do mv $d/ring $d/\"$e\"; done;"
                            "touch data/train/star/\"$e\"; mkdir damaged;"
                            "echo no image > damaged/\"$e\".jpg; ln -s data \"$e\";"
                            "cp $(ls data/val/star/* | head -1) image.png"),
                     0);
    expect(0, TRAIN);
    expect_err("ignored 1 file not in a supported image format, such as");
    expect_clean();
    expect(0, "eval --checkpoint run/best.safetensors --data-dir data --per-class");
    expect_out("\n  e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm ");
    expect_clean();
    expect(0, "predict --checkpoint run/best.safetensors --top 10 image.png");
    expect_out("  e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm\n");
    expect_clean();
#define NAME "e\033]0;t\007\nforged\xc2\x9bm"
    expect(3, "predict --checkpoint run/best.safetensors damaged/" NAME ".jpg");
    expect_err("damaged/e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm.jpg: ");
    expect_clean();
    expect(0, "pack data " NAME ".pack");
    expect_out("e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm.pack: ");
    expect_out("--data-dir $'e\\x1b]0;t\\x07\\nforged\\xc2\\x9bm.pack'\n");
    expect_clean();
    expect(3, "eval --checkpoint run/best.safetensors --data-dir missing" NAME);
    expect_clean();
    expect(0, TRAIN "--data-dir " NAME " --stop-at 1 --out run" NAME);
    expect_clean();
    expect(2, NAME);
    expect_err("unknown command 'e\\x1b");
    expect_clean();
    expect(2, "train --" NAME);
    expect_err("unknown option '--e\\x1b");
    expect_clean();
    expect(2, "train --model " NAME);
    expect_clean();
    expect(0, "compare run run" NAME);
    expect_out("B: rune\\x1b");
    expect_clean();

    /* a name in JSON's own escapes, of the same length */
    ck_assert_int_eq(system("sed 's/resnet20/\\\\u001b20/' run/best.safetensors > w.safetensors"),
                     0);
    expect(1, "predict --checkpoint w.safetensors image.png");
    expect_err("unusable 'model' in its metadata: \\x1b20");
    expect_clean();
    end_folder();
}
END_TEST

/* The table of a class and its prediction takes memory for the images, not for all pairs. */
START_TEST(per_class_of_many_classes)
{
    begin_folder();
    expect(0, "demo-data data --train 1 --val 1");
    ck_assert_int_eq(system("cp data/train/star/* x && "
                            "seq 0 69999 | sed 's/^/x,/' >all.csv && "
                            "printf 'x,3\nx,69999\nx,3\n' >val.csv"),
                     0);
    expect(0, "train --data-dir all.csv --no-val --model lenet5 --grey -b 2 --steps 1 --threads 1 "
              "--out run");
    ck_assert_int_eq(system(LOCKSTEP_COMMAND " eval --checkpoint run/last.safetensors "
                                             "--data-dir val.csv --per-class --threads 1 >out && "
                                             "sed '1,/most confused with/d' out >classes && "
                                             "test $(wc -l <classes) = 70000 && "
                                             "grep -q '^  3             2  0.0000  .* (2)$' "
                                             "out && grep -q '^  69999         1  [01]' out"),
                     0);
    end_folder();
}
END_TEST

TEST_PROGRAM(command_results)
{
    return RUN_SUITE("command_results", per_class_of_many_classes,
                     losses_name_their_label_smoothing, lines_fit_the_terminal, curves,
                     checkpoints_from_elsewhere, classes_are_aligned, evaluation_of_classes,
                     evaluation_with_flips, predictions, predictions_of_many_images,
                     predictions_go_on, hostile_names);
}
