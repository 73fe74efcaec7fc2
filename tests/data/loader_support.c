/* loader_support.c: see loader_support.h. */
#include "loader_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const int64_t bad_images[N_BAD_KINDS] = { 3, 4, 17, 40 };

void write_bad_image(const char *path, int kind)
{
    uint8_t *pixels = draw_image(30, 30, 3, 1);
    size_t n;
    unsigned char *jpeg = make_jpeg(30, 30, pixels, (jpeg_options){ 0 }, &n);
    switch (kind) {
    case 0: write_file(path, "", 0); break;
    case 1: write_file(path, jpeg, n / 2); break;
    case 2: write_file(path, "<html>not found</html>", 22); break;
    default: ck_assert_int_eq(symlink("nowhere", path), 0);
    }
    free(jpeg), free(pixels);
}

char *make_images(bool bad)
{
    char *folder = new_folder();
    for (int c = 0; c < 3; c++) make_folder(path_in(folder, "class%d", c));
    for (int i = 0; i < N_IMAGES; i++) {
        const char *path =
            path_in(folder, "class%d/%02d.%s", i / 15, i, i % 4 == 0 ? "png" : "jpg");
        int bad_kind = bad ? 0 : N_BAD_KINDS;
        while (bad_kind < N_BAD_KINDS && bad_images[bad_kind] != i) bad_kind++;
        const int h = 20 + i * 7 % 41, w = 20 + i * 11 % 41;
        uint8_t *pixels = draw_image(h, w, 3, (unsigned)i);
        if (bad_kind < N_BAD_KINDS) {
            write_bad_image(path, bad_kind);
        } else if (i % 4 == 0) {
            write_png(path, h, w, 3, pixels);
        } else {
            write_jpeg(path, h, w, pixels, (jpeg_options){ .orientation = i % 9 });
        }
        free(pixels);
    }
    return folder;
}

static void note_batch(trace *t, ls_context *ctx, ls_loader *loader, const ls_batch *b)
{
    ck_assert_int_lt(t->n, MAX_TRACE);
    ck_assert_int_eq(ls_tensor_shape(b->images)->dims[0], b->n);
    ck_assert_int_eq(ls_tensor_shape(b->labels)->dims[0], b->n);
    ls_tensor *samples = ls_tensor_from_data(ctx, LS_I64, LS_SHAPE(b->n), b->samples);
    ls_tensor_digest(b->images, &t->batches[t->n].images);
    ls_tensor_digest(b->labels, &t->batches[t->n].labels);
    if (b->targets) ls_tensor_digest(b->targets, &t->batches[t->n].targets);
    ls_tensor_digest(samples, &t->batches[t->n].samples);
    t->batches[t->n].count = b->n;
    t->batches[t->n].epoch = b->epoch;
    t->batches[t->n].step = b->step;
    t->batches[t->n].n_bad = ls_loader_statistics(loader).n_bad;
    t->n++;
    ls_tensor_close(&samples);
}

void run_epochs_from(ls_context *ctx, ls_dataset *data, ls_loader_config config, int first,
                     int64_t step, int last, trace *out)
{
    memset(out, 0, sizeof(*out));
    ls_loader *loader = ls_loader_open(data, &config);
    expect_ok(ctx);
    for (int epoch = first; epoch <= last && out->status == LS_OK; epoch++) {
        ck_assert_int_eq(ls_loader_start_at(loader, epoch, epoch == first ? step : 0), LS_OK);
        for (ls_batch b; ls_loader_next(loader, &b);) note_batch(out, ctx, loader, &b);
        out->status = ls_loader_status(loader);
    }
    if (out->status != LS_OK)
        snprintf(out->message, sizeof(out->message), "%s", ls_context_message(ctx));
    ls_context_clear_error(ctx);
    out->n_images = ls_loader_statistics(loader).n_images;
    out->n_bad = ls_loader_statistics(loader).n_bad;
    for (int64_t i = 0; i < out->n_bad; i++) {
        const char *reason;
        out->bads[i] = ls_loader_bad_sample(loader, i, &reason);
        snprintf(out->reasons[i], sizeof(out->reasons[i]), "%s", reason);
        if (i > 0) ck_assert_int_lt(out->bads[i - 1], out->bads[i]);
    }
    ck_assert_int_eq(ls_loader_bad_sample(loader, out->n_bad, NULL), -1);
    ls_loader_close(&loader);
    ck_assert_ptr_null(loader);
}

void run_epochs(ls_context *ctx, ls_dataset *data, ls_loader_config config, int first, int last,
                trace *out)
{
    run_epochs_from(ctx, data, config, first, 0, last, out);
}

void expect_same_trace(const trace *a, const trace *b, const char *what)
{
    ck_assert_msg(a->n == b->n, "%s: %d and %d batches", what, a->n, b->n);
    for (int i = 0; i < a->n; i++)
        ck_assert_msg(memcmp(&a->batches[i], &b->batches[i], sizeof(a->batches[i])) == 0,
                      "%s: batch %d differs", what, i);
    ck_assert_msg(memcmp(a, b, sizeof(*a)) == 0, "%s: the endings differ: '%s', '%s'", what,
                  a->message, b->message);
}
