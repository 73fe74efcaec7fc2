/* Decoders are identified by the pixels that they make of test images. */
#include "decode_support.h"
#include "../suite.h"
#include "data/decode/test_images.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <webp/decode.h>
#include <jpeglib.h> /* needs stdio.h */

static const char *decoders(bool webp)
{
    static char text[LS__DECODERS_SIZE];
    ck_assert_ptr_nonnull(ls__decoders(webp, text));
    return text;
}

START_TEST(text_has_the_digests)
{
    char jpeg[LS__DECODERS_SIZE];
    unsigned long long digests[2];
    int length = 0;
    snprintf(jpeg, sizeof(jpeg), "%s", decoders(false));
    ck_assert_int_eq(sscanf(jpeg, "JPEG pixels %16llx%n", &digests[0], &length), 1);
    ck_assert_uint_eq((size_t)length, strlen(jpeg));
    const char *both = decoders(true);
    ck_assert_int_eq(strncmp(both, jpeg, strlen(jpeg)), 0);
    ck_assert_int_eq(sscanf(both + length, LS__WEBP_DECODER "%16llx%n", &digests[1], &length), 1);
    ck_assert_uint_eq((size_t)length, strlen(both + strlen(jpeg)));
    ck_assert_uint_ne(digests[0], digests[1]);
    ck_assert_str_eq(decoders(false), jpeg);
}
END_TEST

/* If one could not be decoded, the digest would be that of a status. */
START_TEST(test_images_can_be_decoded)
{
    ls_context *ctx = open_context();
    ls__decoder decoder = { .ctx = ctx };
    for (int i = 0; i < LS__N_TEST_JPEGS + LS__N_TEST_WEBPS; i++) {
        const ls__test_image *image =
            i < LS__N_TEST_JPEGS ? &ls__test_jpegs[i] : &ls__test_webps[i - LS__N_TEST_JPEGS];
        ck_assert_msg(decode(&decoder, image->file, image->bytes, false) == LS_OK, "image %d: %s",
                      i, decoder.reason);
        uint8_t least = 255, most = 0;
        const int64_t n = decoder.image.height * decoder.image.width * 3;
        for (int64_t k = 0; k < n; k++) {
            const uint8_t v = decoder.image.pixels[k];
            if (v < least) least = v;
            if (v > most) most = v;
        }
        ck_assert_msg(most - least > 200, "image %d: %d to %d", i, least, most);
    }
    ls__decoder_free(&decoder);
    ls_context_close(&ctx);
}
END_TEST

/* The text of a new process, in which libjpeg reads its environment. */
static void decoders_of_process(const char *variable, char text[LS__DECODERS_SIZE])
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (variable) setenv(variable, "1", 1);
        _exit(write(ends[1], decoders(true), LS__DECODERS_SIZE) != LS__DECODERS_SIZE);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], text, LS__DECODERS_SIZE), LS__DECODERS_SIZE);
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, NULL, 0), child);
}

/* libjpeg-turbo selects its code by the processor, which must not change a pixel. */
START_TEST(processors_have_equal_pixels)
{
    static const char *const variables[] = { "JSIMD_FORCENONE", "JSIMD_FORCESSE2",
                                             "JSIMD_FORCEAVX2" };
    char best[LS__DECODERS_SIZE], text[LS__DECODERS_SIZE];
    decoders_of_process(NULL, best);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        decoders_of_process(variables[i], text);
        ck_assert_msg(strcmp(text, best) == 0, "%s: %s, else %s", variables[i], text, best);
    }
}
END_TEST

/* These are the digests of libjpeg-turbo 2.1.0 to 3.2.0 and of libwebp 1.2.4 to 1.6.0. */
START_TEST(tested_versions_have_equal_pixels)
{
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2001000 &&            \
    LIBJPEG_TURBO_VERSION_NUMBER <= 3002000
    ck_assert_str_eq(decoders(false), "JPEG pixels 3eeeb0de3057ef56");
#endif
    if (WebPGetDecoderVersion() >= 0x010204 && WebPGetDecoderVersion() <= 0x010600)
        ck_assert_ptr_nonnull(strstr(decoders(true), LS__WEBP_DECODER "8b3c4e6d2e5576c5"));
}
END_TEST

static void *decoders_of_thread(void *text)
{
    return (void *)ls__decoders(true, text);
}

START_TEST(threads_have_one_text)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    char texts[THREADS][LS__DECODERS_SIZE];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, decoders_of_thread, texts[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) ck_assert_str_eq(texts[i], decoders(true));
}
END_TEST

TEST_PROGRAM(decoders)
{
    return RUN_SUITE("decoders", text_has_the_digests, test_images_can_be_decoded,
                     processors_have_equal_pixels, tested_versions_have_equal_pixels,
                     threads_have_one_text);
}
