/* test_lists.c: lists with columns of other names, splits in a column, classes in the names of
 * files, and groups. */
#include "command.h"

#include "../suite.h"
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN                                                                                        \
    " --model lenet5 --image-size 32 -b 8 --epochs 1 --steps 1 -j 0 --threads 1 --no-report "
#define EVAL "eval --checkpoint run/last.safetensors --threads 1 -j 0 "

static void make(const char *commands)
{
    ck_assert_int_eq(system(commands), 0);
}

/* data: folders; flat: the same with classes in the names of files, "star_3.png". */
static void begin(void)
{
    begin_folder();
    expect(0, "demo-data data --train 8 --val 2");
    make("for s in train val; do mkdir -p flat/$s; for f in data/$s/*/*; do c=${f%/*}; "
         "cp $f flat/$s/${c##*/}_${f##*/}; done; done");
    /* every fifth image is for validation; one of 4 persons is in each fourth row */
    make(
        "(echo 'who,file,kind,split'; find data/train -type f | sort | awk -F/ '{ print \"p\" NR % "
        "4 \",\" $0 \",\" $3 \",\" (NR % 5 ? \"train\" : \"val\") }') > list.csv");
}

START_TEST(groups_of_a_given_split)
{
    begin();
    expect(0,
           "train --data-dir list.csv --group-column who --csv-columns label=kind --out run" RUN);
    expect_err(
        "16 of 16 validation images are of groups that have training images, too, such as 'p0'");
    expect(1, "check list.csv --group-column who --csv-columns label=kind");
    expect_out("groups whose images are in several splits: 4");
    make("sed '1s/who/patient_id/' list.csv > patients.csv");
    expect(0, "train --data-dir patients.csv --csv-columns label=kind --out unused" RUN);
    expect_err("note: csv file 'patients.csv': column 'split' divides the rows");
    expect_err("column 'patient_id' is not used; if its images belong together");
    expect(0, "train --data-dir patients.csv --csv-columns label=kind --group-column patient_id "
              "--out used" RUN);
    ck_assert_ptr_null(strstr(said_err, "is not used"));
    expect(0, "train --data-dir data --group-pattern ([0-9]+) --out folders" RUN);
    expect_err("validation images are of groups that have training images");
    expect(1, "check data --group-pattern ([0-9]+)");
    expect_out("groups whose images are in several splits");
    expect(2, "check data --group-column who");
    expect_err("--group-column is for lists");
    expect(2, "train --data-dir data --no-val --group-pattern ([0-9]+) --out x" RUN);
    expect_err("--group-pattern has no effect here");
}
END_TEST

/* DIR/labels.csv beside DIR/images, and classes in the names of files. */
START_TEST(lists_in_folders)
{
    begin();
    make("mkdir -p all/images && (echo file,kind; for f in data/train/*/*; do k=${f%/*}; "
         "k=${k##*/}; "
         "n=$k.${f##*/}; cp $f all/images/$n; echo images/$n,$k; done) > all/labels.csv");
    expect(3, "train --data-dir all --out run" RUN);
    expect_err("did you mean --data-dir all/labels.csv --val-split 0.2?");
    expect(3, "train --data-dir all --val-split 0.2 --out run" RUN);
    expect_err("found one: 'images'; did you mean --data-dir all/labels.csv?");
    expect(1, "check all");
    expect_err("are checked by: lockstep check all/labels.csv");
    expect(3, "train --data-dir all/images --val-split 0.2 --out run" RUN);
    expect_err("did you mean --data-dir all/labels.csv?");
    make("cp -r all/images named");
    expect(3, "train --data-dir named --val-split 0.2 --out run" RUN);
    expect_err("--label-pattern '^([A-Za-z]+)[._ -]' reads them");
    expect(3, "pack named p.pack");
    expect_err("'lockstep train --data-dir named --label-pattern REGEX' reads classes");
    /* A list beside flat folders of splits; the sample submission lists the other folder. */
    make("mkdir beside && cp -r all/images beside/train && mkdir beside/test && "
         "cp all/images/s* beside/test && sed 's,images/,,; s,[.][a-z]*\\,,\\,,' all/labels.csv > "
         "beside/labels.csv && (echo id,star,ring; cd beside/test && for f in *; do "
         "echo ${f%.*},0.5,0.5; done) > beside/a_sample.csv");
    expect(3, "train --data-dir beside --out run" RUN);
    expect_err("did you mean --data-dir beside/labels.csv --val-split 0.2?");
    expect(3, "train --data-dir beside/train --out run" RUN);
    expect_err("did you mean --data-dir beside/labels.csv --val-split 0.2?");
    expect(3, "train --data-dir named --out run" RUN);
    expect_err("--label-pattern '^([A-Za-z]+)[._ -]' --val-split 0.2 reads them");
    ck_assert_ptr_null(strstr(said_err, "folder of class folders"));
    expect(3, "train --data-dir named --label-pattern ^([a-z]+)[.] --out run" RUN);
    expect_err("to divide this folder add --val-split 0.2");
    expect(0, "check named");
    expect_out("  unlabelled ");
    expect_err("note: --label-pattern '^([A-Za-z]+)[._ -]' reads classes");
    /* A folder in a folder stands for it. */
    make("mkdir -p 'outer/My Photos' && cp -r data/train/star data/train/ring 'outer/My Photos'");
    expect(3, "train --data-dir outer --out run" RUN);
    expect_err("did you mean --data-dir 'outer/My Photos' --val-split 0.2?");
    expect(0, "check outer");
    expect_err("note: outer: checks 'outer/My Photos', the only folder in it");
    expect(0, "train --data-dir outer --val-split 0.2 --out wrapped" RUN);
    expect_err("note: outer: reads 'outer/My Photos', the only folder in it");
    expect(0, "eval --checkpoint wrapped/last.safetensors --threads 1 -j 0 --data-dir outer");
    expect_out("the validation split of --val-split");
    expect(3, "pack beside p.pack");
    expect_err("'lockstep train --data-dir beside/");
    expect(1, "check beside");
    expect_err("the images that it lists are checked by: lockstep check beside/labels.csv");
    expect(0, "train --data-dir beside/labels.csv --val-split 0.2 --on-bad-image skip --out next "
              "--model mlp --image-size 8 -b 8 --epochs 1 -j 0 --threads 1 --no-report");
    expect_out("--per-class --on-bad-image skip");
    make("mkdir -p kaggle/train kaggle/test && cp -r data/train/star data/train/ring kaggle/train "
         "&& "
         "cp data/val/star/* kaggle/test");
    expect(3, "train --data-dir kaggle --out run" RUN);
    expect_err("kaggle/test: images without classes");
    expect_err("--val-split 0.2 splits validation images off");
    make("mv kaggle/test kaggle/val"); /* flat, so it can't be validated on */
    expect(0, "train --data-dir kaggle --val-split 0.2 --out kag" RUN);
    expect_err("note: kaggle: 'val' is not used: its images have no classes");
    make("mkdir only && cp -r data/train only"); /* train/ does not stand for only/ */
    expect(3, "eval --checkpoint kag/last.safetensors --threads 1 -j 0 --data-dir only");
    make("cp -r data/train/star data/train/ring all");
    expect(0, "train --data-dir all --val-split 0.2 --out run" RUN);
    expect_err("note: all/labels.csv is not read");
    end_folder();
}
END_TEST

/* The first image is missing; lr-find reads the rows that train does; test.csv has no labels. */
START_TEST(rows_of_lists)
{
    begin();
    make("mkdir -p far/pictures && (echo id,label,split; echo none,star,train; echo none,star,val; "
         "i=0; "
         "for f in data/train/*/*; do k=${f%/*}; k=${k##*/}; i=$((i+1)); cp $f "
         "far/pictures/n$i.${f##*.}; "
         "echo n$i,$k,$([ $((i % 5)) = 0 ] && echo val || echo train); done) > far/list.csv");
    expect(3, "train --data-dir far/list.csv --out run" RUN);
    expect_err("1 of 65 training images are missing, such as");
    expect_err("--image-root");
    expect(0, "train --data-dir far/list.csv --on-bad-image skip --out run" RUN);
    expect_out("65 training images  17 validation images");
    make("grep -v none far/list.csv > far/good.csv");
    make("cp far/good.csv far/moved.csv && sed -i '/val$/s/^n/m/' far/moved.csv");
    /* lr-find reads no validation row, and misses none of their images. */
    ck_assert_int_ne(run_command("lr-find --data-dir far/moved.csv --model mlp --image-size 8 -b 8 "
                                 "-j 0 --threads 1 --steps 10"),
                     3);
    ck_assert_ptr_null(strstr(said_err, "missing"));
    make("cp -r data/train unsplit"); /* the command that it would print does not train these */
    expect(3, "lr-find --data-dir unsplit --model mlp --image-size 8 -b 8 -j 0");
    expect_err("add --val-split 0.2 or --no-val");
    ck_assert_int_ne(
        run_command("lr-find --data-dir unsplit --no-val --model mlp --image-size 8 -b 8 -j 0 "
                    "--threads 1 --steps 10"),
        3);
    make("mkdir -p sub && cp -r far/pictures sub/train && grep -v none far/list.csv | cut -d, "
         "-f1,2 > "
         "sub/train.csv && (echo id; echo n1; echo n2) > sub/test.csv");
    expect(3, "train --data-dir sub --out run2" RUN);
    expect_err("a list without labels can't be validated: --val-split 0.2");
    expect(0, "check sub");
    expect_err("sub/test.csv: not checked, because it has no labels");
    expect(0, "train --data-dir sub --val-split 0.2 --out run2" RUN);
    end_folder();
}
END_TEST

/* Several lists, files that are none, and a list beside its images in one folder. */
START_TEST(which_list_in_a_folder)
{
    begin();
    expect(0, "train --data-dir list.csv --csv-columns path=file,label=kind --out run" RUN);
    make("mkdir -p many/images && (echo file,kind; for f in data/train/*/*; do k=${f%/*}; "
         "k=${k##*/}; "
         "n=$k.${f##*/}; cp $f many/images/$n; echo images/$n,$k; done) > many/labels.txt && "
         "printf 'class,color\nstar,red\nring,blue\n' > many/a.csv && echo 'a, b' > many/a.txt");
    expect(3, "train --data-dir many --out x" RUN);
    expect_err("did you mean --data-dir many/labels.txt --val-split 0.2?");
    expect(3, EVAL "--data-dir many");
    expect_err("did you mean --data-dir many/labels.txt?");
    make("sed '1s/.*/path,kind,patient/; 2,$s/$/,9/' many/labels.txt > many/b.csv");
    expect(3, "train --data-dir many --val-split 0.2 --out x" RUN);
    expect_err("did you mean --data-dir many/b.csv --csv-columns 'label=kind' or many/labels.txt?");
    make("mkdir one && cp many/images/* one && sed s,images/,, many/labels.txt > one/list.csv");
    expect(3, "train --data-dir one --val-split 0.2 --out x" RUN);
    expect_err("did you mean --data-dir one/list.csv?");
    make("echo 'no list' > one/list.csv");
    expect(3, "train --data-dir one --val-split 0.2 --out x" RUN);
    expect_err("--label-pattern '^([A-Za-z]+)[._ -]' reads them");
    expect(3, "train --data-dir list.csv --csv-columns label=kind,split=none --no-val --out x" RUN);
    expect_err("--csv-columns split=NAME names the column");
    end_folder();
}
END_TEST

START_TEST(columns_of_lists)
{
    begin();
    expect(3, "train --data-dir list.csv --out run" RUN);
    expect_err("--csv-columns label=NAME names the column;");
    expect(2, "train --data-dir list.csv --csv-columns file --out run" RUN);
    expect_err("expected path=NAME, label=NAME, split=NAME or group=NAME");
    expect(2, "train --data-dir list.csv --csv-columns label=a,label=b --out run" RUN);
    expect_err("label twice");
    expect(3, "train --data-dir list.csv --csv-columns label=none --out run" RUN);
    expect_err("no column 'none' (--csv-columns label=)");
    expect(2, "train --data-dir data --csv-columns label=kind --out run" RUN);
    expect_err("--csv-columns is for lists");
    expect(2, "train --data-dir list.csv --label-pattern (a) --no-val --out run" RUN);
    expect_err("--label-pattern is for folders of image files");
    expect(0, "train --data-dir list.csv --csv-columns path=file,label=3 --out run" RUN);
    expect_out("64 training images  16 validation images");
    expect(0, EVAL "--data-dir list.csv --csv-columns label=kind");
    expect_out("16 images: loss");
    expect(0, EVAL "--data-dir list.csv"); /* the columns of the training */
    expect_out("16 images: loss");
    make("sed s/kind/class/ list.csv > renamed.csv");
    expect(0, EVAL "--data-dir renamed.csv"); /* label=3 in the training */
    expect(3, EVAL "--data-dir renamed.csv --csv-columns label=kind");
    expect(2, "train --resume run --csv-columns label=kind --steps 2");
    expect_err("--csv-columns can't be changed on resume");
    expect(0, "train --resume run --steps 2");
    /* moved: the list elsewhere, the images by --image-root */
    expect(0, "train --data-dir list.csv --csv-columns label=kind --image-root . --out rooted" RUN);
    make("mkdir lists; mv list.csv lists/moved.csv");
    make("cp -r rooted lists && cd lists && " LOCKSTEP_COMMAND
         " train --resume rooted --steps 2 --data-dir moved.csv >/dev/null"); /* the stored root */
    expect(0, "train --resume run --steps 3 --data-dir lists/moved.csv --image-root .");
    expect(0,
           "train --data-dir lists/moved.csv --image-root . --csv-columns label=kind --val-split "
           "0.2 --out all" RUN);
    expect_out("60 training images  20 validation images");
    end_folder();
}
END_TEST

START_TEST(classes_in_names)
{
    begin();
    expect(3, "train --data-dir flat/train --val-split 0.2 --out run" RUN);
    expect_err("--label-pattern");
    expect(0, "train --data-dir flat --label-pattern ^([a-z]+)_ --out run" RUN);
    expect_out("80 training images  20 validation images  10 classes");
    expect(0, EVAL "--data-dir flat --label-pattern ^([a-z]+)_");
    expect_out("20 images: loss");
    expect(0, EVAL "--data-dir flat");
    expect_out("20 images: loss");
    expect(0, EVAL "--data-dir data"); /* the classes are those of the folders */
    expect_out("20 images: loss");
    expect(0,
           "augment --data-dir flat --label-pattern ^([a-z]+)_ --image-size 32 -b 8 --grid g.png");
    write_text("names.sweep",
               "method = grid\nout = trials\n[train]\ndata-dir = flat\nmodel = mlp\n"
               "image-size = 8\nbatch-size = 40\nworkers = 0\nthreads = 1\n"
               "label-pattern = '^([a-z]+)_'\nepochs = 1\n[search]\nlr = 0.1, 0.01\n");
    expect(0, "sweep names.sweep");
    write_text("names.sweep", "[train]\ndata-dir = flat\n[search]\nlabel-pattern = '(a)', '(b)'\n");
    expect(2, "sweep names.sweep");
    expect_err("all trials have the same; it belongs to [train]");
    expect(3, "train --data-dir flat --label-pattern ^([b-z]+)_ --out other" RUN);
    expect_err("does not match the paths of");
    expect(3, "train --data-dir flat --label-pattern ^(.*_ --out other" RUN);
    expect_err("is no regular expression");
    expect(0, "pack data all.pack");
    expect(3, "train --data-dir all.pack --label-pattern (a) --out other" RUN);
    expect_err("all.pack: a pack, whose classes are stored in it");
    expect(3, EVAL "--data-dir all.pack --label-pattern (a)");
    expect_err("--label-pattern is for folders of image files");
    expect(2, "train --data-dir flat --label-pattern (a) --image-root . --out other" RUN);
    expect_err("--label-pattern is for folders of image files");
    end_folder();
}
END_TEST

/* The path of the i-th validation image, where a half of data/val is divided off. */
static void divide(ls_dataset *data, const char *paths[10])
{
    ls_dataset *train, *val;
    ck_assert_int_eq(ls_dataset_split(data, 0.5, 1, &train, &val), LS_OK);
    ck_assert_int_eq(ls_dataset_sample_count(val), 10);
    for (int i = 0; i < 10; i++) paths[i] = ls_dataset_sample_path(val, i);
}

/* The pattern of a checkpoint groups a dataset only while its validation split is searched. */
static void other_data_stays_ungrouped(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    const char *before[10], *after[10];
    ls_saved_model *model = ls_saved_model_open(ctx, "run/last.safetensors");
    divide(ls_image_folder_open(ctx, "data/val"), before);
    ls_dataset *data = ls_image_folder_open(ctx, "data/val");
    ck_assert_ptr_null(ls_saved_model_validation_split(model, data));
    divide(data, after);
    for (int i = 0; i < 10; i++) ck_assert_str_eq(before[i], after[i]);
    expect_ok(ctx);
    ls_context_close(&ctx);
}

static void columns_of_checkpoint(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    ls_saved_model *model = ls_saved_model_open(ctx, "run/last.safetensors");
    expect_ok(ctx);
    const ls_csv_config config = ls_saved_model_csv_config(model);
    ck_assert_str_eq(config.label_column, "kind");
    ck_assert_str_eq(config.group_column, "who");
    ck_assert_ptr_null(config.path_column);
    ck_assert_int_eq(config.n_classes, 10);
    ck_assert_str_eq(config.classes[9], "triangle");
    ck_assert_ptr_null(ls_saved_model_label_pattern(model));
    ck_assert_ptr_null(ls_saved_model_csv_config(NULL).label_column);
    ls_context_close(&ctx);
}

START_TEST(groups)
{
    begin();
    expect(0,
           "train --data-dir data/train --val-split 0.2 --group-pattern ([0-9])[.] --out run" RUN);
    expect_out("60 training images  20 validation images");
    ck_assert_int_eq(
        system("test $(grep -c '\"group_pattern\": \"(\\[0-9\\])\\[.\\]\"' run/manifest.json) = 2"),
        0);
    expect(0, EVAL "--data-dir data/train"); /* the checkpoint has the pattern */
    expect_out("20 of 80 images, the validation split");
    expect(2, "train --resume run --group-pattern ([0-9][0-9])[.] --steps 2");
    expect_err("--group-pattern can't be changed on resume");
    expect(0, "train --resume run --steps 2");
    other_data_stays_ungrouped();
    make("rm -r run");
    expect(0,
           "train --data-dir list.csv --csv-columns label=kind --group-column who --val-split 0.2 "
           "--out run" RUN);
    expect_err("although column 'split' divides them");
    expect(0, EVAL "--data-dir list.csv --csv-columns label=kind,group=who");
    expect_out("of 80 images, the validation split");
    expect(0, EVAL "--data-dir list.csv"); /* the checkpoint has the columns */
    expect_out("of 80 images, the validation split");
    make("sed 's/^who,/person,/' list.csv > tests.csv");
    expect(0, EVAL "--data-dir tests.csv"); /* another list, without the column of groups */
    expect_out("80 images: loss");
    expect(3, EVAL "--data-dir list.csv --group-column nope");
    expect_err("--group-column NAME names the column of groups");
    expect(0, EVAL "--data-dir list.csv --csv-columns group=split");
    expect_err("with the columns of the training alone");
    columns_of_checkpoint();
    end_folder();
}
END_TEST

START_TEST(checks)
{
    begin();
    expect(3, "check list.csv");
    expect_err("--csv-columns label=NAME names the column;");
    expect(0, "check list.csv --csv-columns label=kind --json");
    expect_out("\"images\": 80");
    expect_out("\"split\": \"val\"");
    expect(0, "check flat --label-pattern ^([a-z]+)_");
    expect_out("100 images, 100 readable");
    expect(2, "check data --image-root .");
    expect_err("--image-root is for lists");
    expect(2, "check list.csv --label-pattern (a)");
    expect_err("--label-pattern is for folders");
    make("mkdir two; sed 's|data/|../data/|' list.csv | sed 's/,[a-z]*$//' > two/train.csv;"
         "(sed 1q two/train.csv; sed -n 7p two/train.csv; echo p1,none.png,star) > two/val.csv");
    expect(1, "check two --csv-columns label=kind --json");
    expect_out("\"kind\": \"leak\"");
    expect_out("\"kind\": \"unreadable\"");
    /* a list beside class folders, and beside images without classes */
    make("rm two/val.csv; cp -r data/val two; mkdir two/test; cp data/val/star/* two/test");
    expect(2, "check two --csv-columns label=kind --json");
    expect_err("--csv-columns is for lists");
    make("sed -i 's/kind/label/' two/train.csv");
    expect(0, "check two --json");
    expect_out("\"images\": 100");
    expect_out("\"split\": \"val\"");
    expect_err("note: two/test: not checked, because its images have no classes");
    make("mv two/train.csv two/val.csv; rm -r two/val; cp -r data/train two");
    expect(1, "check two --json");
    expect_out("\"split\": \"train\"");
    expect_out("\"kind\": \"leak\"");
    end_folder();
}
END_TEST

/* What is wrong with a folder or list is said, with the way out. */
START_TEST(advice)
{
    begin();
    make("mkdir yolo; mkdir -p yolo/images/train yolo/images/val yolo/labels/train; cp "
         "flat/train/star_* yolo/images/train");
    expect(3, "train --data-dir yolo --out run" RUN);
    expect_err("a dataset of boxes (images/, labels/), which are not read");
    expect(3, "train --data-dir yolo --val-split 0.2 --out run" RUN);
    expect_err("a dataset of boxes");
    make("for c in star ring; do for s in train test; do mkdir -p inner/$c/$s; cp data/train/$c/* "
         "inner/$c/$s; done; done");
    expect(3, "train --data-dir inner --val-split 0.2 --out run" RUN);
    expect_err("2 folders, such as 'inner/ring', have a folder 'train' each");
    expect_err("move the images to inner/train/<class>/<image>");
    /* numbers and numbered names in byte order */
    make("for n in 1 10 2; do mkdir -p numbers/c$n; cp data/train/star/* numbers/c$n; done");
    expect(0, "train --data-dir numbers --no-val --out run" RUN);
    expect_err("the classes are in byte order, 'c10' before 'c2'");
    make("sed 's/,p[0-9]*//; s/,star,/,10.0,/; s/,ring,/,5.0,/' list.csv > floats.csv");
    expect(0, "train --data-dir floats.csv --csv-columns label=kind --out floats" RUN);
    expect_err("'10.0' before '5.0'");
    ck_assert(!strstr(said_err, "are two classes"));
    /* one class in two spellings */
    make("awk '/star.*train/ && !n++ { sub(/,star,/, \",Star,\") } { print }' list.csv > "
         "capitals.csv");
    expect(0, "train --data-dir capitals.csv --csv-columns label=kind --out capitals" RUN);
    expect_err("'Star' and 'star' are two classes");
    make("for c in 'a_b' 'A b' ab; do mkdir -p \"spelled/$c\"; cp data/train/star/* "
         "\"spelled/$c\"; done");
    expect(0, "train --data-dir spelled --no-val --out spelled-run" RUN);
    expect_err("'A b' and 'a_b' are two classes");
    /* missing images in eval, byte order marks */
    expect(0, "train --data-dir list.csv --csv-columns label=kind --out all" RUN);
    make("sed 's/000001/9/' list.csv > bad.csv");
    expect(3, "eval --checkpoint all/last.safetensors --data-dir bad.csv --csv-columns label=kind");
    expect_err("listed images are missing, such as");
    expect_err("--on-bad-image skip replaces the missing images by others");
    make("(printf '\\357\\273\\277'; find data/val -type f | head -2) | " LOCKSTEP_COMMAND
         " predict --checkpoint all/last.safetensors --threads 1 -j 0 - > predictions");
    make("test $(grep -c '^data/val' predictions) = 2");
    end_folder();
}
END_TEST

TEST_PROGRAM(lists)
{
    return RUN_SUITE("lists", lists_in_folders, rows_of_lists, which_list_in_a_folder,
                     columns_of_lists, groups_of_a_given_split, classes_in_names, groups, checks,
                     advice);
}
