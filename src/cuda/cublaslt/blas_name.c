/* blas_name.c: see blas_name.h. */
#include "cuda/cublaslt/blas_name.h"
#include "base/text.h"
#include <inttypes.h>

static const char begin[] = "cublaslt ";

void ls__blas_name_write(const ls__blas_name *name, char *out, size_t size)
{
    ls__text text = { out, size, 0 };
    ls__text_put(&text, "%s%" PRId32, begin, name->id);
    for (int i = 0; i < LS__BLAS_SETTINGS; i++)
        ls__text_put(&text, "%c%" PRIu32, i ? ',' : ' ', name->settings[i]);
}

/* Parses a number up to `most` at *text and moves *text behind it. */
static bool parse_number(const char **text, uint32_t most, uint32_t *out)
{
    const char *t = *text;
    uint64_t value = 0;
    if (*t < '0' || *t > '9' || (*t == '0' && t[1] >= '0' && t[1] <= '9')) return false;
    for (; *t >= '0' && *t <= '9' && value <= most; t++) value = 10 * value + (uint64_t)(*t - '0');
    if (value > most) return false;
    *out = (uint32_t)value;
    *text = t;
    return true;
}

bool ls__blas_name_read(const char *text, ls__blas_name *out)
{
    uint32_t id;
    for (const char *b = begin; *b; b++, text++)
        if (*text != *b) return false;
    if (!parse_number(&text, INT32_MAX, &id)) return false;
    out->id = (int32_t)id;
    for (int i = 0; i < LS__BLAS_SETTINGS; i++) {
        const uint32_t most = i < LS__BLAS_SETTINGS_32 ? UINT32_MAX : UINT16_MAX;
        if (*text != (i ? ',' : ' ')) return false;
        text++;
        if (!parse_number(&text, most, &out->settings[i])) return false;
    }
    return *text == '\0';
}
