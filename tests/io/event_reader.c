/* event_reader.c: see event_reader.h. */
#include "event_reader.h"

#include "../suite.h"
#include <glob.h>
#include <string.h>

/* ---- Records ---- */

/* CRC-32C by its definition: the remainder of a division of polynomials, bit by bit from the
 * highest power, with all bits reversed. */
static uint32_t reversed(uint32_t x, int n)
{
    uint32_t out = 0;
    for (int i = 0; i < n; i++) out |= (x >> i & 1) << (n - 1 - i);
    return out;
}

static uint32_t crc32c(const unsigned char *bytes, uint64_t size)
{
    uint32_t remainder = 0xFFFFFFFFu;
    for (uint64_t i = 0; i < size; i++) {
        remainder ^= reversed(bytes[i], 8) << 24;
        for (int bit = 0; bit < 8; bit++)
            remainder = remainder << 1 ^ (remainder >> 31 ? 0x1EDC6F41u : 0);
    }
    return ~reversed(remainder, 32);
}

static uint64_t fixed(const unsigned char *bytes, int n)
{
    uint64_t out = 0;
    for (int i = 0; i < n; i++) out |= (uint64_t)bytes[i] << 8 * i;
    return out;
}

static void check_crc(const unsigned char *bytes, uint64_t size)
{
    const uint32_t stored = (uint32_t)fixed(bytes + size, 4) - 0xA282EAD8u;
    ck_assert_uint_eq(stored << 15 | stored >> 17, crc32c(bytes, size));
}

/* ---- Messages ---- */

typedef struct field {
    int number;
    uint64_t value; /* of varints and fixed numbers; else the length of the bytes */
    const unsigned char *bytes;
} field;

static uint64_t varint(const unsigned char **at)
{
    uint64_t out = 0;
    for (int shift = 0;; shift += 7) {
        out |= (uint64_t)(**at & 0x7F) << shift;
        if (!(*(*at)++ & 0x80)) return out;
    }
}

static bool next_field(const unsigned char **at, const unsigned char *end, field *out)
{
    if (*at == end) return false;
    const uint64_t key = varint(at);
    const int type = key & 7, n_fixed = type == 1 ? 8 : 4;
    *out = (field){ .number = (int)(key >> 3) };
    if (type == 0 || type == 2) out->value = varint(at);
    out->bytes = *at;
    if (type == 1 || type == 5) {
        out->value = fixed(*at, n_fixed);
        *at += n_fixed;
    } else if (type == 2) {
        *at += out->value;
    } else {
        ck_assert_int_eq(type, 0);
    }
    ck_assert(*at <= end);
    return true;
}

static double as_double(uint64_t bits)
{
    double out;
    memcpy(&out, &bits, sizeof(out));
    return out;
}

static double as_float(uint64_t bits)
{
    const uint32_t half = (uint32_t)bits;
    float out;
    memcpy(&out, &half, sizeof(out));
    return (double)out;
}

static void read_text(const field *f, char *out, size_t size)
{
    ck_assert_uint_lt(f->value, size);
    memcpy(out, f->bytes, f->value);
    out[f->value] = '\0';
}

static void read_image(const field *image, event_value *out)
{
    const unsigned char *at = image->bytes;
    for (field f; next_field(&at, image->bytes + image->value, &f);) {
        int64_t *const numbers[] = { NULL, &out->height, &out->width, &out->channels };
        if (f.number == 4) {
            out->png = f.bytes;
            out->png_bytes = f.value;
        } else {
            *numbers[f.number] = (int64_t)f.value;
        }
    }
}

static void read_histogram(const field *histogram, event_value *out)
{
    const unsigned char *at = histogram->bytes;
    for (field f; next_field(&at, histogram->bytes + histogram->value, &f);) {
        double *const numbers[] = { NULL,        &out->min, &out->max,
                                    &out->count, &out->sum, &out->squares };
        if (f.number < 6) {
            *numbers[f.number] = as_double(f.value);
            continue;
        }
        out->n_buckets = (int)(f.value / 8);
        ck_assert_int_le(out->n_buckets, EVENT_BUCKETS);
        for (int i = 0; i < out->n_buckets; i++)
            (f.number == 6 ? out->limits : out->buckets)[i] = as_double(fixed(f.bytes + 8 * i, 8));
    }
}

static void read_value(const field *value, event_value *out)
{
    const unsigned char *at = value->bytes;
    for (field f; next_field(&at, value->bytes + value->value, &f);) {
        if (f.number == 1) read_text(&f, out->tag, sizeof(out->tag));
        if (f.number == 2) out->scalar = as_float(f.value);
        out->has_scalar |= f.number == 2;
        if (f.number == 4) read_image(&f, out);
        if (f.number == 5) read_histogram(&f, out);
    }
}

static void read_event(const unsigned char *at, const unsigned char *end,
                       void (*visit)(void *user, const event_value *value), void *user)
{
    event_value event = { .step = 0 };
    for (field f; next_field(&at, end, &f);) {
        if (f.number == 1) event.wall_time = as_double(f.value);
        if (f.number == 2) event.step = (int64_t)f.value;
        if (f.number == 3) read_text(&f, event.version, sizeof(event.version));
        if (f.number == 7) event.session_start = f.value == 2 && fixed(f.bytes, 2) == 0x0108;
        if (f.number == 3 || f.number == 7) visit(user, &event);
        const unsigned char *in = f.bytes;
        for (field value; f.number == 5 && next_field(&in, f.bytes + f.value, &value);) {
            event_value one = event;
            read_value(&value, &one);
            visit(user, &one);
        }
    }
}

int read_events(const unsigned char *bytes, uint64_t size,
                void (*visit)(void *user, const event_value *value), void *user)
{
    enum { LENGTH = 8, CRC = 4 };
    int n = 0;
    for (uint64_t at = 0; at < size; n++) {
        ck_assert_uint_ge(size - at, LENGTH + CRC);
        check_crc(bytes + at, LENGTH);
        const uint64_t length = fixed(bytes + at, LENGTH);
        at += LENGTH + CRC;
        ck_assert_uint_ge(size - at, length + CRC);
        check_crc(bytes + at, length);
        read_event(bytes + at, bytes + at + length, visit, user);
        at += length + CRC;
    }
    return n;
}

int read_event_folder(const char *dir, void (*visit)(void *user, const event_value *value),
                      void *user)
{
    glob_t found;
    int n = 0;
    if (glob(path_in(dir, "events.out.tfevents.*"), 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        size_t size;
        char *bytes = read_file(found.gl_pathv[i], &size);
        n += read_events((const unsigned char *)bytes, size, visit, user);
        free(bytes);
    }
    globfree(&found);
    return n;
}
