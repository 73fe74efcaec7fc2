/* test_csv.c: lists of images in CSV files: quotes, headers, classes, and rows that are refused. */
#include "../suite.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ls_dataset *open_text(ls_context *ctx, const char *path, const char *text)
{
    write_text(path, text);
    return ls_csv_open(ctx, path, 0, NULL);
}

/* "name=class " of each sample, names below the folder. */
static const char *listing(const ls_dataset *data, const char *folder, char out[1024])
{
    out[0] = '\0';
    for (int64_t i = 0; i < ls_dataset_sample_count(data); i++) {
        const char *path = ls_dataset_sample_path(data, i);
        const bool below = strncmp(path, folder, strlen(folder)) == 0;
        sprintf(out + strlen(out), "%s=%s ", below ? path + strlen(folder) + 1 : path,
                ls_dataset_class_name(data, ls_dataset_label(data, i)));
    }
    return out;
}

START_TEST(rows)
{
    static const struct {
        const char *text, *listing, *classes;
    } cases[] = {
        { "a.jpg,cat\nb.jpg,dog\n", "a.jpg=cat b.jpg=dog ", "cat dog " },
        { "b.jpg,dog\r\n\r\na.jpg,cat", "b.jpg=dog a.jpg=cat ", "cat dog " },
        { "\"a, b.jpg\",\"say \"\"x\"\"\"\nc/d.jpg,\"\"\"\"\n", "a, b.jpg=say \"x\" c/d.jpg=\" ",
          "\" say \"x\" " },
        { "\"two\nlines.jpg\",x\n\"\"\"q\"\"\",y", "two\nlines.jpg=x \"q\"=y ", "x y " },
        { "\xef\xbb\xbf"
          "a.jpg,k\xc3\xa4se\n",
          "a.jpg=k\xc3\xa4se ", "k\xc3\xa4se " },
        { "/x/a.jpg,1\nb.jpg,0\n", "/x/a.jpg=1 b.jpg=0 ", "0 1 " },
        { "a,10\nb,9\nc,9\nd,100\n", "a=10 b=9 c=9 d=100 ", "9 10 100 " }, /* by value */
        { "a,10\nb,9\nc,09\n", "a=10 b=9 c=09 ", "09 10 9 " },             /* names */
        { "id,Label,split,FILENAME\n1,cat,x,a.jpg\n2,dog,,b.jpg\n", "a.jpg=cat b.jpg=dog ",
          "cat dog " },
        { "class,image\r\ncat,a.jpg\r\n", "a.jpg=cat ", "cat " },
        { "x,path,X,label\n1,a.jpg,2,cat\n", "a.jpg=cat ", "cat " }, /* unused columns */
        { "a,image\nlabel,x\n", "a=image label=x ", "image x " },    /* no header */
        /* headers by what the rows hold */
        { "id,breed\na.jpg,cat\nb.jpg,dog\n", "a.jpg=cat b.jpg=dog ", "cat dog " },
        { "what,where\ncat,a.jpg\ndog,b.jpg\n", "a.jpg=cat b.jpg=dog ", "cat dog " },
        { "photo;kind\na.png;cat\n", "a.png=cat ", "cat " },
        { "ImageId,ClassId\nx,cat\n", "x=cat ", "cat " }, /* no such file */
        { "image_id,class,n\nx.jpg,cat,3\n", "x.jpg=cat ", "cat " },
        { "id,file_name,label,text\n7,x.jpg,cat,a photo.jpg of\n", "x.jpg=cat ", "cat " },
        { "file_name,label\nx.webp,cat\n", "x.webp=cat ", "cat " },
        { "a0,cat\na1.jpg,dog\na2.jpg,cat\n", "a0=cat a1.jpg=dog a2.jpg=cat ", "cat dog " },
        { ",image_name,label\n0,5.png,cat\n1,7.png,dog\n", "5.png=cat 7.png=dog ", "cat dog " },
        { "label,image_id\n0,17.png\n1,18.png\n", "17.png=0 18.png=1 ", "0 1 " },
        { "mask_path,image_path,label\nm/a.png,i/a.png,cat\n", "i/a.png=cat ", "cat " },
        { "url,img_name,label\nx/a.png,b.png,cat\n", "b.png=cat ", "cat " },
        { "1,0.png\n2,1.png\n", "0.png=1 1.png=2 ", "1 2 " }, /* without a header */
        /* separators and blanks */
        { "a.jpg\tcat, small\nb.jpg\tdog\n", "a.jpg=cat, small b.jpg=dog ", "cat, small dog " },
        { "path; label\na.jpg; cat\n", "a.jpg=cat ", "cat " },
        { "path, label\n a b.jpg , cat \n", "a b.jpg=cat ", "cat " },
        { "path,label\n\"a.jpg\" , \" cat\"\n", "a.jpg= cat ", " cat " },
        { "./a.jpg,cat\n.\\b.jpg,dog\nc\\d.jpg,dog\n", "a.jpg=cat b.jpg=dog c/d.jpg=dog ",
          "cat dog " },
    };
    char *folder = new_folder(), text[1024];
    const char *path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        ls_dataset *data = open_text(ctx, path, cases[k].text);
        expect_ok(ctx);
        ck_assert_str_eq(listing(data, folder, text), cases[k].listing);
        text[0] = '\0';
        for (int c = 0; c < ls_dataset_class_count(data); c++)
            sprintf(text + strlen(text), "%s ", ls_dataset_class_name(data, c));
        ck_assert_str_eq(text, cases[k].classes);
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

START_TEST(refused_rows)
{
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "a.jpg,cat\nb.jpg\n", "line 2: 1 field, expected 2: a path and a label" },
        { "a.jpg,cat\n\nb.jpg,dog,3\n", "line 3: 3 fields, expected 2: a path and a label" },
        { "id,path,label\n1,a.jpg\n", "line 2: 2 fields, expected 3" },
        { "a.jpg,cat\n,dog\n", "line 2: an empty path" },
        { "a.jpg,\n", "line 1: an empty label" },
        { "a\"b.jpg,cat\n", "line 1: a quote inside a field that is not quoted" },
        { "x,y\n\"a\nb\"c,cat\n", "line 2: text after the closing quote of a field" },
        { "x,y\n\"a\n\nb,cat\n", "line 2: a quoted field without its closing quote" },
        { "\"a\nb\",x\nc\n", "line 3: 1 field" }, /* the first row has two lines */
        { "a\rb,cat\n", "line 1: a carriage return inside" },
        { "path,labels_2\na.jpg,1\n",
          "line 1: a header with the columns 'path', 'labels_2'; 'path' has the images; name" },
        { "path,targets\na.jpg,1\n",
          "line 1: a header with the columns 'path', 'targets'; 'path' has the images; " },
        { "image_id,rose,tulip\na,1,0\n", "a header with the columns 'image_id', 'rose', 'tulip'" },
        { "one,two,label\na.jpg,b.jpg,x\n", "a header with the columns 'one', 'two', 'label'" },
        { "photo,x,y\na.jpg,1,0\nb.jpg,0,1\n", "a header with the columns 'photo', 'x', 'y'" },
        { "a.jpg,cat,3\n", "a header that names them 'path' and 'label' allows further columns" },
        { "path,Path,label\na.jpg,b.jpg,1\n", "line 1: two columns 'path'" },
        { "\nlabel,path,x,LABEL\n1,a.jpg,,2\n", "line 2: two columns 'label'" },
        { "a.jpg,cat\nb.jpg,caf\xe9\n", "line 2: not UTF-8; 'iconv -f WINDOWS-1252 -t UTF-8 " },
        { "path,labels\na.jpg,cat;caf\xe9\n", "line 2: not UTF-8; " },
        { "caf\xe9,path,label\n1,a.jpg,cat\n", "line 1: not UTF-8; " },
        { "\n\r\n", "no rows" },
        { "", "no rows" },
        { "path,label\n", "no rows" },
    };
    char *folder = new_folder();
    const char *path = path_in(folder, "list.csv"), *cat = "cat";
    ls_context *ctx = ls_context_open(NULL);
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        ck_assert_ptr_null(open_text(ctx, path, cases[k].text));
        expect_error(ctx, LS_ERR_DATA, path, cases[k].said);
    }
    write_file(path, "a,b\nc\0d,e\n", 10);
    ck_assert_ptr_null(ls_csv_open(ctx, path, 0, NULL));
    expect_error(ctx, LS_ERR_DATA, path, "line 2: a 0 byte; expected text in UTF-8");
    static const char *const known = "caf\xe9"; /* of a class folder */
    write_text(path, "caf\xe9.jpg,caf\xe9\n");  /* paths may be any bytes */
    ls_dataset *named = ls_csv_open(ctx, path, 1, &known);
    expect_ok(ctx);
    ls_dataset_close(&named);
    write_text(path, "path,label\na,cat\nb,dog\n");
    ck_assert_ptr_null(ls_csv_open(ctx, path, 1, &cat));
    expect_error(ctx, LS_ERR_MISMATCH, path,
                 "line 3: the label 'dog' is not among the 1 known classes, such as 'cat'");
    ck_assert_ptr_null(ls_csv_open(ctx, path_in(folder, "none.csv"), 0, NULL));
    expect_error(ctx, LS_ERR_NOT_FOUND, "none.csv");
    ck_assert_ptr_null(ls_csv_open(ctx, NULL, 0, NULL));
    expect_error(ctx, LS_ERR_INVALID, "ls_csv_open: no file given");
    ck_assert_ptr_null(ls_csv_open(ctx, path, 2, NULL));
    expect_error(ctx, LS_ERR_INVALID, "names of classes");
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

/* Labels follow the given classes; the images are those of the files; a moved list has the same
 * digest; and it can't be packed. */
START_TEST(a_list_in_use)
{
    char *folder = new_folder();
    const char *const classes[] = { "dog", "cat", "bird" };
    ls_context *ctx = ls_context_open(NULL);
    ls_digest digests[2];
    for (int i = 0; i < 2; i++) {
        make_folder(path_in(folder, "%d", i));
        uint8_t *pixels = draw_image(4, 5, 3, 1);
        write_png(path_in(folder, "%d/x.png", i), 4, 5, 3, pixels);
        const char *path = path_in(folder, "%d/list.csv", i);
        write_text(path, "x.png,cat\n");
        ls_dataset *data = ls_csv_open(ctx, path, 3, classes);
        ck_assert_int_eq(ls_dataset_digest(data, true, &digests[i]), LS_OK);
        ls_loader *loader = ls_loader_open(data, &(ls_loader_config){ .batch_size = 1 });
        ls_batch batch;
        uint8_t got[60];
        int32_t label;
        ck_assert_int_eq(ls_loader_start(loader, 0), LS_OK);
        ck_assert(ls_loader_next(loader, &batch));
        ck_assert_int_eq(ls_tensor_read(batch.images, got, sizeof(got)), LS_OK);
        ck_assert_int_eq(ls_tensor_read(batch.labels, &label, sizeof(label)), LS_OK);
        ck_assert(memcmp(got, pixels, sizeof(got)) == 0 && label == 1);
        const ls_pack_split split = { "", data };
        ck_assert_int_eq(ls_pack_write(ctx, path_in(folder, "p"), 1, &split, NULL, NULL),
                         LS_ERR_INVALID);
        expect_error(ctx, LS_ERR_INVALID, "expected a dataset of an image folder");
        free(pixels);
    }
    ck_assert(ls_digest_equal(digests[0], digests[1]));
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

typedef struct list_digests {
    ls_digest all, validation;
} list_digests;

/* Of a list of eight images, FOLDER/cat/0.png to FOLDER/dog/7.png, whose folder is typed in two
 * ways. A text that begins with a slash is in `root`. `path` is how the list is opened. */
static list_digests digest_list(const char *root, const char *file, const char *path,
                                const char *even, const char *odd)
{
    char text[8192] = "";
    for (int i = 0; i < 8; i++) {
        const char *dir = i % 2 ? odd : even, *class = i < 4 ? "cat" : "dog";
        sprintf(text + strlen(text), "%s%s%s/%d.png,%s\n", *dir == '/' ? root : "", dir, class, i,
                class);
    }
    write_text(path_in(root, "%s", file), text);
    ls_context *ctx = ls_context_open(NULL);
    ls_dataset *train, *validation,
        *data = ls_csv_open(ctx, *path == '/' ? path_in(root, "%s", path + 1) : path, 0, NULL);
    list_digests digests;
    expect_ok(ctx);
    ck_assert_int_eq(ls_dataset_digest(data, false, &digests.all), LS_OK);
    ck_assert_int_eq(ls_dataset_split(data, 0.25, 0, &train, &validation), LS_OK);
    ck_assert_int_eq(ls_dataset_digest(validation, false, &digests.validation), LS_OK);
    ls_context_close(&ctx);
    return digests;
}

static bool equal_digests(list_digests a, list_digests b)
{
    return ls_digest_equal(a.all, b.all) && ls_digest_equal(a.validation, b.validation);
}

/* Neither the place of the data nor how the list's path is typed changes the digest and the split;
 * absolute paths below the list's folder count as relative ones. */
START_TEST(absolute_paths)
{
    static const char *const typed[] = { "/0/list.csv", "/link/list.csv", "list.csv",
                                         "../0/list.csv", "/0/../0/list.csv" };
    static const struct {
        const char *even, *odd;
    } same[] = {
        { "/0/in/", "/0/in/" },
        { "/0/in/", "in/" },
        { "/0//in/", "/link/in/" },
    };
    char *folder = new_folder(), here[4096];
    ck_assert_ptr_nonnull(getcwd(here, sizeof(here)));
    for (int i = 0; i < 2; i++) {
        make_folder(path_in(folder, "%d", i));
        make_folder(path_in(folder, "%d/in", i));
        make_folder(path_in(folder, "%d/lists", i));
    }
    ck_assert_int_eq(symlink("0", path_in(folder, "link")), 0);
    ck_assert_int_eq(chdir(path_in(folder, "0")), 0);
    const list_digests relative = digest_list(folder, "0/list.csv", "list.csv", "in/", "in/");
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 5; k++)
            ck_assert(equal_digests(
                relative, digest_list(folder, "0/list.csv", typed[k], same[i].even, same[i].odd)));
    /* Elsewhere, below the folders that all share, which need not exist. */
    const list_digests outside =
        digest_list(folder, "0/lists/l.csv", "lists/l.csv", "/0/in/", "/0/in/");
    const char *const others[] = { "/1/in/", "/none/x/" };
    for (int i = 0; i < 2; i++)
        ck_assert(equal_digests(
            outside, digest_list(folder, "1/lists/l.csv", "/1/lists/l.csv", others[i], others[i])));
    ck_assert(!equal_digests(
        outside, digest_list(folder, "1/lists/l.csv", "/1/lists/l.csv", "/none/x/", "/none/y/")));
    ck_assert_int_eq(chdir(here), 0);
    remove_folder(folder);
}
END_TEST

/* Each truncation and each replaced byte gives a dataset or an error that names the file. */
START_TEST(cut_and_replaced)
{
    static const char text[] = "id,path,label\r\n1,\"a, \"\"b\"\".jpg\",cat\r\n2,c.jpg,\"dog\"\r\n";
    char *folder = new_folder();
    const char *path = path_in(folder, "list.csv");
    ls_context *ctx = ls_context_open(NULL);
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        for (const char *byte = "\",\n\rx"; *byte; byte++) {
            char changed[sizeof(text)];
            memcpy(changed, text, sizeof(text));
            if (cut < strlen(text)) changed[cut] = *byte;
            write_file(path, changed, *byte == 'x' ? cut : strlen(text));
            ls_dataset *data = ls_csv_open(ctx, path, 0, NULL);
            expect_error(ctx, data ? LS_OK : LS_ERR_DATA, data ? "" : path);
            ls_dataset_close(&data);
        }
    }
    ls_context_close(&ctx);
    remove_folder(folder);
}
END_TEST

typedef struct list {
    const char *path;
    int n_classes;
    const char *const *classes;
} list;

static bool open_list(ls_context *ctx, void *user)
{
    const list *l = user;
    return ls_csv_open(ctx, l->path, l->n_classes, l->classes) != NULL;
}

START_TEST(every_allocation_may_fail)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "list.csv");
    const char *const classes[] = { "x", "y" };
    write_text(path, "a,x\n/b,y\n");
    fail_each_allocation(open_list, &(list){ path, 0, NULL });
    fail_each_allocation(open_list, &(list){ path, 2, classes });
    remove_folder(folder);
}
END_TEST

TEST_PROGRAM(csv)
{
    return RUN_SUITE("csv", rows, refused_rows, a_list_in_use, absolute_paths, cut_and_replaced,
                     every_allocation_may_fail);
}
