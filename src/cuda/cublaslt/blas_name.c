/* blas_name.c: see blas_name.h. */
#include "cuda/cublaslt/blas_name.h"
#include "base/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char begin[] = "cublaslt ";

void ls__blas_name_write(const ls__blas_name *name, char *out, size_t size)
{
    ls__text text = { out, size, 0 };
    ls__text_put(&text, "%s%" PRId32, begin, name->id);
    for (int i = 0; i < LS__BLAS_SETTINGS; i++)
        ls__text_put(&text, "%c%" PRIu32, i ? ',' : ' ', name->settings[i]);
}

/* Parses any numbers, and accepts them if they give the same text again. */
bool ls__blas_name_read(const char *text, ls__blas_name *out)
{
    char again[LS__BLAS_NAME_SIZE], *end;
    if (strncmp(text, begin, strlen(begin)) != 0) return false;
    out->id = (int32_t)strtol(text + strlen(begin), &end, 10);
    for (int i = 0; i < LS__BLAS_SETTINGS; i++) {
        if (*end == '\0') return false;
        const unsigned long value = strtoul(end + 1, &end, 10);
        out->settings[i] = i < LS__BLAS_SETTINGS_32 ? (uint32_t)value : (uint16_t)value;
    }
    ls__blas_name_write(out, again, sizeof(again));
    return out->id >= 0 && strcmp(text, again) == 0;
}
