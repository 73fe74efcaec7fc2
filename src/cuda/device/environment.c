/* environment.c: see ls__cuda_environment in slots.h. */
#include "base/hash.h"
#include "cuda/device/slots.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prefixes of the variables that NVIDIA's libraries read. Some are documented to change results:
 * they forbid or force tf32, emulate f32, or recompile code. For the others no document excludes
 * it. */
static const char *const prefixes[] = {
    "NVIDIA_TF32_OVERRIDE=", "CUBLAS_",           "CUBLASLT_", "CUDNN_", "CUDA_FORCE_",
    "CUDA_DISABLE_PTX_JIT=", "CUDA_DISABLE_JIT=", "CASK_",     "NVRTC_",
};
/* Variables with these in their names only configure logging and profiling. */
static const char *const harmless[] = { "_LOG", "_NVTX_" };

static bool matters(const char *variable)
{
    const size_t n_prefixes = sizeof(prefixes) / sizeof(prefixes[0]);
    const size_t name_length = strcspn(variable, "=");
    bool relevant = false;
    for (size_t i = 0; i < n_prefixes; i++)
        relevant |= strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0;
    for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++) {
        const char *found = strstr(variable, harmless[i]);
        relevant &= !found || found > variable + name_length;
    }
    return relevant;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Has it only characters that can stand in a list? */
static bool is_plain(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789_=:./+-";
    return text[strspn(text, plain)] == '\0';
}

void ls__cuda_environment(ls__text *out)
{
    enum { MAX_FOUND = 256, SIZE = 256 };
    const char *found[MAX_FOUND];
    char list[SIZE];
    ls__text text = { list, SIZE, 0 };
    uint64_t hash = 0;
    bool plain = true;
    int n = 0;
    list[0] = '\0';
    for (char **variable = environ; variable && *variable && n < MAX_FOUND; variable++)
        if (matters(*variable)) found[n++] = *variable;
    qsort(found, (size_t)n, sizeof(found[0]), by_text);
    for (int i = 0; i < n; i++) {
        hash = ls__hash(found[i], strlen(found[i]), hash);
        plain &= is_plain(found[i]);
        ls__text_put(&text, ", %s", found[i]);
    }
    if (plain && text.length < SIZE)
        ls__text_put(out, "%s", list);
    else
        ls__text_put(out, ", %d environment variables #%016" PRIx64, n, hash);
}
