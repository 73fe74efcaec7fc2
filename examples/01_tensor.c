/* 01_tensor.c: a context and eager tensors: make, fill, draw, convert, compare, digest, print,
 * save, load. Calls that make something return a pointer, calls that do something a status; the
 * first error waits in the context, so one question at the end answers for all of them.
 *
 *     01_tensor [FILE]     writes and reads FILE (default 01_tensor.safetensors)
 *
 * Checks itself: the exit status is 0 only when everything came out as it says here. */
#include <lockstep/lockstep.h>

#include <stdio.h>

/* Counts what did not come out as expected. */
static int n_wrong;

static void expect(bool right, const char *what)
{
    printf("%-58s %s\n", what, right ? "yes" : "NO");
    if (!right) n_wrong++;
}

static void print(const ls_tensor *tensor)
{
    char text[4096];
    if (ls_tensor_format(tensor, text, sizeof(text)) >= 0) puts(text);
}

static ls_status run(ls_context *ctx, const char *path)
{
    printf("device: %s\n\n", ls_context_device(ctx));

    /* Shapes are written in memory order. A new tensor holds zeros. */
    ls_tensor *a = ls_tensor_open(ctx, LS_F32, LS_SHAPE(2, 3));
    ls_tensor *b =
        ls_tensor_from_data(ctx, LS_F32, LS_SHAPE(2, 3), (float[]){ 1, 2, 3, 4, 5, 6.5f });
    LS_TRY(ls_tensor_fill(a, 0.5));
    print(b);

    ls_difference difference;
    LS_TRY(ls_tensor_compare(a, b, &difference));
    expect(difference.n_different == 6 && difference.max_absolute == 6.0,
           "six elements differ, by 6 at most");

    /* Conversion truncates towards zero and saturates. */
    ls_tensor *bytes = ls_tensor_open(ctx, LS_U8, LS_SHAPE(2, 3));
    unsigned char host[6];
    LS_TRY(ls_tensor_cast(bytes, b));
    LS_TRY(ls_tensor_read(bytes, host, sizeof(host)));
    expect(host[0] == 1 && host[5] == 6, "6.5 becomes 6");

    /* Random numbers are functions of the context's seed, the draw and the element: two tensors of
     * one draw are equal, on any machine, with any number of threads. */
    ls_tensor *noise = ls_tensor_open(ctx, LS_F32, LS_SHAPE(32, 28, 28, 1));
    ls_tensor *again = ls_tensor_open(ctx, LS_F32, LS_SHAPE(32, 28, 28, 1));
    LS_TRY(ls_tensor_random_normal(noise, 7, 0.0f, 1.0f));
    LS_TRY(ls_tensor_random_normal(again, 7, 0.0f, 1.0f));
    ls_digest digest, digest_again;
    LS_TRY(ls_tensor_digest(noise, &digest));
    LS_TRY(ls_tensor_digest(again, &digest_again));
    char text[LS_DIGEST_TEXT_SIZE];
    printf("\ndigest of the noise: %s\n", ls_digest_text(digest, text));
    expect(ls_digest_equal(digest, digest_again), "the same draw gives the same bits");

    /* Files appear whole or not at all. */
    LS_TRY(ls_tensors_save(ctx, path, 2, (const char *[]){ "noise", "bytes" },
                           (const ls_tensor *[]){ noise, bytes },
                           (const char *[]){ "made by", "01_tensor", NULL }));
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    ls_tensor *loaded = ls_tensor_file_load(file, "noise");
    LS_TRY(ls_tensor_compare(loaded, noise, &difference));
    expect(difference.n_different == 0, "what was saved is loaded");
    ls_tensor_file_close(&file);

    /* An error names what it got and what it wanted, and is kept until it is cleared. */
    puts("");
    ls_tensor_copy(a, noise);
    expect(ls_tensor_fill(a, 1.0) == LS_ERR_EARLIER, "an error that is kept refuses further work");
    printf("  %s\n", ls_context_message(ctx));
    ls_context_clear_error(ctx);
    expect(ls_tensor_fill(a, 1.0) == LS_OK, "once it is cleared, work goes on");

    const ls_memory_stats memory = ls_context_memory(ctx);
    printf("\nmemory: %zu bytes in %lld blocks, at most %zu\n", memory.current_bytes,
           (long long)memory.n_blocks, memory.peak_bytes);
    return ls_context_status(ctx);
}

int main(int argc, char **argv)
{
    ls_context *ctx = ls_context_open(&(ls_context_config){ .seed = 42 });
    const ls_status status = run(ctx, argc > 1 ? argv[1] : "01_tensor.safetensors");
    if (status != LS_OK) {
        fprintf(stderr, "error: %s\n", ls_context_message(ctx));
        n_wrong++;
    }
    ls_context_close(&ctx); /* closes the tensors, too */
    return n_wrong ? 1 : 0;
}
