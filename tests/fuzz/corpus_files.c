/* corpus_files.c: packs, checkpoints and the text files of a run. */
#include "corpus.h"
#include "small_run.h"

#include "log/step_digest.h"
#include <jansson.h>
#include <lockstep/pack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>
#include <zlib.h>

static ls_context *open_context(void)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .threads = 1 });
    expect_ok(ctx);
    return ctx;
}

/* Moves a file that was written elsewhere to its place. */
static void take(const char *path, const char *target, const char *name)
{
    size_t n;
    unsigned char *bytes = read_file(path, &n);
    put(target, name, bytes, n);
    free(bytes);
}

void make_packs(void)
{
    char *folder = new_folder();
    uint8_t *pixels = draw_image(9, 11, 3, 5);
    make_folder(path_in(folder, "cat"));
    make_folder(path_in(folder, "dog"));
    write_png(path_in(folder, "cat/1.png"), 9, 11, 3, pixels);
    write_file(path_in(folder, "cat/2.pgm"), "P5\n3 3\n255\nabcdefghi", 20);
    write_file(path_in(folder, "dog/1.ppm"), "P3\n2 1\n9\n1 2 3 4 5 6\n", 21);
    write_file(path_in(folder, "dog/2.bmp"), "none", 4);
    ls_context *ctx = open_context();
    ls_dataset *data = ls_image_folder_open(ctx, folder);
    const ls_pack_split splits[] = { { "train", data }, { "val", data } }, whole = { "", data };
    static const ls_pack_config files = { .on_bad_image = LS_BAD_IMAGE_SKIP, .overwrite = true },
                                resized = { .pixels = true,
                                            .resize = 4,
                                            .on_bad_image = LS_BAD_IMAGE_SKIP,
                                            .overwrite = true };
    const char *path = path_in(folder, "x.pack");
    ls_pack_write(ctx, path, 2, splits, &files, NULL);
    expect_ok(ctx);
    take(path, "pack", "files");
    ls_pack_write(ctx, path, 1, &whole, &resized, NULL);
    expect_ok(ctx);
    take(path, "pack", "pixels");
    ls_context_close(&ctx);
    free(pixels);
    remove_folder(folder);
}

/* Idx files of two images of 3x3, and of two labels; lists. */
void make_lists(void)
{
    static const char images[] = "\0\0\10\3\0\0\0\2\0\0\0\3\0\0\0\3"
                                 "123456789abcdefghi";
    static const char labels[] = "\0\0\10\1\0\0\0\2\1";
    char *folder = new_folder();
    put("idx", "images", images, sizeof(images) - 1);
    put("idx", "labels", labels, sizeof(labels));
    PUT_TEXT("idx", "one_image",
             "\0\0\10\3\0\0\0\1\0\0\0\3\0\0\0\3"
             "123456789");
    for (int i = 0; i < 2; i++) {
        const char *path = path_in(folder, "x.gz");
        gzFile file = gzopen(path, "wb");
        gzwrite(file, i ? labels : images, i ? sizeof(labels) : sizeof(images) - 1);
        ck_assert_int_eq(gzclose(file), Z_OK);
        take(path, "idx", i ? "labels_gzip" : "images_gzip");
    }
    PUT_TEXT("csv", "rows", "a.jpg,cat\nb/c.jpg,dog\nd.jpg,cat\n");
    PUT_TEXT("csv", "quotes", "\"a, \"\"b\"\".jpg\",\"cat\"\r\n\r\n\"x\ny.jpg\",dog");
    PUT_TEXT("csv", "header", "\xef\xbb\xbfid,Label,split,filename\n1,cat,,a.jpg\n");
    PUT_TEXT("csv", "numbers", "a,10\nb,9\nc,0\n");
    PUT_TEXT("csv", "labels", "path,labels\na,cat; dog\nb,\n");
    PUT_TEXT("csv", "targets", "path,target,target_x\na,1.5,-2e3\nb,0,9\n");
    remove_folder(folder);
}

/* Puts "@" in the place of each member of a JSON text. */
static void blank(json_t *metadata, const char *key, const char *but)
{
    json_t *json = json_loads(json_string_value(json_object_get(metadata, key)), 0, NULL), *value;
    const char *name;
    void *next;
    json_object_foreach_safe(json, next, name, value)
    {
        if (!strstr(but, name)) json_object_set_new(json, name, json_string("@"));
    }
    char *text = json_dumps(json, JSON_COMPACT);
    json_object_set_new(metadata, key, json_string(text));
    free(text);
    json_decref(json);
}

static void put_checkpoint(const char *name, const json_t *header, const unsigned char *data,
                           size_t n)
{
    char *text = json_dumps(header, JSON_COMPACT);
    const uint64_t length = strlen(text);
    unsigned char *file = malloc(sizeof(length) + length + n);
    memcpy(file, &length, sizeof(length));
    memcpy(file + sizeof(length), text, length);
    memcpy(file + sizeof(length) + length, data, n);
    put("checkpoint", name, file, sizeof(length) + length + n);
    free(file);
    free(text);
}

void make_checkpoints(void)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "x.safetensors");
    ls_context *ctx = open_context();
    ls_training_state state = small_run_open(ctx);
    ls_batch batch;
    ls_loader_start(state.loader, 0);
    ls_loader_next(state.loader, &batch);
    ls_net_step(state.net, state.optimizer, &batch, 0.1);
    state.step = 1;
    ls_checkpoint_save(&state, path);
    expect_ok(ctx);
    size_t size;
    unsigned char *bytes = read_file(path, &size);
    uint64_t length;
    memcpy(&length, bytes, sizeof(length));
    json_t *header = json_loadb((const char *)bytes + sizeof(length), length, 0, NULL);
    json_t *metadata = json_object_get(header, "__metadata__");
    const unsigned char *data = bytes + sizeof(length) + length;
    const size_t n = size - sizeof(length) - length;
    blank(metadata, "identity", "");
    blank(metadata, "kernels", "format");
    json_object_set_new(metadata, "lockstep", json_string(""));
    put_checkpoint("all", header, data, n);
    json_object_set_new(metadata, "bad_images",
                        json_string("{\"loader\":[[1,\"\\\\xE9\"],[3,\"\"]],\"validation\":[]}"));
    json_object_set_new(metadata, "identity",
                        json_string("{\"seed\":\"1\",\"device\":\"@\",\"data\":{\"samples\":4,"
                                    "\"classes\":[\"0\",2]},\"kernels\":{\"conv2d\":\"x\"}}"));
    json_object_set_new(metadata, "best", json_string("-inf"));
    put_checkpoint("another_run", header, data, n);
    json_decref(header);
    free(bytes);
    ls_context_close(&ctx);
    remove_folder(folder);
}

void make_tensors(void)
{
    static const char *const metadata[] = {
        "model",           "resnet20", "stem",      "small",   "shortcuts",
        "projection",      "resize",   "32",        "exif",    "ignored",
        "decode",          "exact",    "crop",      "32",      "mean",
        "[0.5, 0.5, 0.5]", "std",      "[1, 1, 1]", "classes", "[\"cat\", \"\\\\xE9\"]",
        "progress",        "",         NULL
    };
    static const char *const names[] = { "a", "b", "c" };
    char *folder = new_folder();
    const char *path = path_in(folder, "x.safetensors");
    ls_context *ctx = open_context();
    const ls_tensor *tensors[] = { ls_tensor_open(ctx, LS_F32, LS_SHAPE(2, 3)),
                                   ls_tensor_open(ctx, LS_BF16, LS_SHAPE(1)),
                                   ls_tensor_open(ctx, LS_U8, LS_SHAPE(1, 2, 1, 3)) };
    ls_tensors_save(ctx, path, 3, names, tensors, metadata);
    expect_ok(ctx);
    take(path, "tensors", "card");
    ls_context_close(&ctx);
    remove_folder(folder);
    static const char foreign[] =
        "{\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
        "\"c\":{\"dtype\":\"F8_E5M2\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[16,17]},"
        "\"d\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[17,17]}}";
    const uint64_t length = sizeof(foreign) - 1;
    unsigned char file[8 + sizeof(foreign) - 1 + 17] = { 0 };
    memcpy(file, &length, 8);
    memcpy(file + 8, foreign, length);
    put("tensors", "foreign", file, sizeof(file));
}

static unsigned char *read_entry(zip_t *zip, const char *name, size_t *size)
{
    zip_stat_t stat;
    ck_assert_int_eq(zip_stat(zip, name, 0, &stat), 0);
    unsigned char *bytes = malloc(stat.size);
    zip_file_t *entry = zip_fopen(zip, name, 0);
    ck_assert_int_eq(zip_fread(entry, bytes, stat.size), (zip_int64_t)stat.size);
    zip_fclose(entry);
    *size = stat.size;
    return bytes;
}

/* An archive, a file of PyTorch before 1.6, and the pickles of several archives. */
void make_torch_files(void)
{
    static const char *const names[] = { "layouts", "module", "nested", "types", "checkpoint" };
    char path[512], name[64];
    size_t size;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        snprintf(path, sizeof(path), LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/%s.pt", names[i]);
        if (i == 0) take(path, "torch_file", "archive");
        if (i == 0)
            take(LOCKSTEP_SOURCE_DIR "/tests/fixtures/torch/before_1.6.pt", "torch_file",
                 "before_1.6");
        int code;
        zip_t *zip = zip_open(path, ZIP_RDONLY, &code);
        snprintf(path, sizeof(path), "%s/data.pkl", names[i]);
        unsigned char *bytes = read_entry(zip, path, &size);
        snprintf(name, sizeof(name), "pickle_%s", names[i]);
        put("torch_file", name, bytes, size);
        free(bytes);
        zip_discard(zip);
    }
}

static void make_records(void)
{
    char lines[3 * LS__LINE_SIZE + 1];
    const ls_step_digest digest = { .batch = { { 1, 2 } }, .loss = 0.25, .weights = { { 3, 4 } } };
    for (int64_t i = 0; i < 3; i++) ls__run_log_format(i, &digest, lines + i * LS__LINE_SIZE);
    put("record", "3_steps", lines, sizeof(lines) - 1);
    put("record", "cut", lines, sizeof(lines) - 9);
}

void make_texts(void)
{
    make_records();
    PUT_TEXT("metrics", "2_epochs",
             "{\"epoch\": 1, \"loss\": 2.5, \"val_top1\": null}\n{\"epoch\": 2, \"loss\": 1e-3}\n");
    PUT_TEXT("metrics", "not_rows", "{\"epoch\": 1}\n[2]\n");
    PUT_TEXT("algorithm_cache", "2_ops",
             "{\"format\": \"lockstep algorithm cache 1\", \"lockstep\": \"@\", \"device\": \"@\", "
             "\"libraries\": \"@\", \"processor\": \"@\", \"kernels\": {\"conv2d x=1x2x2x3\": "
             "\"onednn\", \"linear x=2x3\": \"gemm\"}}\n");
    PUT_TEXT("run_folder", "one_session",
             "{\"options\": {\"data-dir\": \"photos\", \"epochs\": 3, \"model\": \"resnet18\", "
             "\"lr\": 0.5, \"opt\": "
             "\"adam\", \"algorithm-cache\": null}}\0{\"identity\": {\"seed\": \"0\", \"device\": "
             "\"cpu\", "
             "\"kernels\": {\"a\": \"b\"}}, \"sessions\": [{\"from_step\": 0, \"provenance\": "
             "{\"host\": \"a\", \"compiler\": \"b\"}}]}");
    PUT_TEXT("command_line", "train",
             "train\0--data-dir\0photos\0--epochs=3\0-b32\0--lr\0001e-1\0--opt\0adamw\0--exif");
    PUT_TEXT("command_line", "train_schedule",
             "train\0--lr-scheduler\0onecycle\0--seed\0009000000000000000000\0--model=resnet34\0"
             "--resume=run");
    PUT_TEXT("command_line", "predict", "predict\0--checkpoint\0a.safetensors\0-\0--\0--b.png");
    PUT_TEXT("command_line", "help", "repro\0--help");
    PUT_TEXT("command_line", "unknown", "pack\0--resiz\0003");
    PUT_TEXT("command_line", "eval", "eval\0--per-class\0--checkpoint=x\0--data-dir=y");
    PUT_TEXT("command_line", "compare", "compare\0a\0b\0--no-such");
    PUT_TEXT("command_line", "describe", "describe\0--model\0resnet50\0--batch-size\0004");
    PUT_TEXT("command_line", "demo_data", "demo-data\0out\0--classes=3");
}
