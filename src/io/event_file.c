/* event_file.c: writes event files; see event_file.h. Fields of protobuf messages are written by
 * their numbers in event.proto and summary.proto of TensorFlow. Numbers in the files are
 * little-endian, as in this machine's memory. */
#include "io/event_file.h"

#include "base/alloc.h"
#include "base/crc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/path.h"
#include "base/write.h"
#include "io/bytes.h"
#include "io/png_write.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ls__event_file {
    ls_context *ctx;
    char *path;
    int fd;
    int64_t size;                   /* bytes of whole records */
    ls__bytes event, summary, part; /* part: of the value that is added */
};

/* ---- Protobuf ---- */

typedef enum wire_type { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 } wire_type;

static void put_varint(ls__bytes *b, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = (unsigned char)(value | 0x80);
    bytes[n++] = (unsigned char)value;
    ls__bytes_put(b, bytes, n);
}

static void put_key(ls__bytes *b, int field, wire_type type)
{
    put_varint(b, (uint64_t)field << 3 | type);
}

static void put_integer(ls__bytes *b, int field, int64_t value)
{
    put_key(b, field, VARINT);
    put_varint(b, (uint64_t)value);
}

static void put_double(ls__bytes *b, int field, double value)
{
    put_key(b, field, FIXED64);
    ls__bytes_put(b, &value, sizeof(value));
}

static void put_float(ls__bytes *b, int field, double value)
{
    const float rounded = (float)value;
    put_key(b, field, FIXED32);
    ls__bytes_put(b, &rounded, sizeof(rounded));
}

static void put_bytes(ls__bytes *b, int field, const void *bytes, size_t size)
{
    put_key(b, field, LENGTH);
    put_varint(b, size);
    ls__bytes_put(b, bytes, size);
}

/* ---- Records ---- */

/* The masked form of TFRecord, which is for data that contains CRCs. */
static uint32_t mask_crc(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + UINT32_C(0xA282EAD8);
}

static void put_masked_crc(ls__bytes *b, const void *bytes, size_t size)
{
    const uint32_t crc = mask_crc(ls__crc_add(LS__CRC32C, 0, bytes, size));
    ls__bytes_put(b, &crc, sizeof(crc));
}

/* Appends a record of the event's bytes. */
static ls_status write_record(ls__event_file *f)
{
    ls__bytes record = { .ctx = f->ctx };
    const uint64_t size = f->event.size;
    ls__bytes_put(&record, &size, sizeof(size));
    put_masked_crc(&record, &size, sizeof(size));
    ls__bytes_put(&record, f->event.data, size);
    put_masked_crc(&record, f->event.data, size);
    ls_status status = LS_OK;
    if (record.failed || f->event.failed) status = ls__fail_memory(f->ctx, f->path, record.size);
    const int error = status == LS_OK ? ls__write(f->fd, record.data, record.size, -1) : 0;
    if (error) {
        status = ls__fail_errno(f->ctx, error, "writing '%s'", f->path);
        if (ftruncate(f->fd, f->size) == 0) (void)lseek(f->fd, f->size, SEEK_SET);
    } else if (status == LS_OK) {
        f->size += (int64_t)record.size;
    }
    ls__bytes_free(&record);
    return status;
}

/* ---- Events ---- */

/* Fields of the messages. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_FILE_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SCALAR, VALUE_IMAGE = 4, VALUE_HISTOGRAM };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH, IMAGE_CHANNELS, IMAGE_PNG };
enum {
    HISTOGRAM_MIN = 1,
    HISTOGRAM_MAX,
    HISTOGRAM_COUNT,
    HISTOGRAM_SUM,
    HISTOGRAM_SQUARES,
    HISTOGRAM_LIMITS,
    HISTOGRAM_BUCKETS
};

void ls__event_begin(ls__event_file *f, double wall_time, int64_t step)
{
    ls__bytes_clear(&f->event);
    ls__bytes_clear(&f->summary);
    put_double(&f->event, EVENT_WALL_TIME, wall_time);
    put_integer(&f->event, EVENT_STEP, step);
}

void ls__event_add_session_start(ls__event_file *f)
{
    ls__bytes_clear(&f->part);
    put_integer(&f->part, SESSION_STATUS, SESSION_START);
    put_bytes(&f->event, EVENT_SESSION, f->part.data, f->part.size);
}

static void begin_value(ls__event_file *f, const char *tag)
{
    ls__bytes_clear(&f->part);
    put_bytes(&f->part, VALUE_TAG, tag, strlen(tag));
}

static void end_value(ls__event_file *f)
{
    f->summary.failed |= f->part.failed;
    put_bytes(&f->summary, SUMMARY_VALUE, f->part.data, f->part.size);
}

void ls__event_add_scalar(ls__event_file *f, const char *tag, double value)
{
    begin_value(f, tag);
    put_float(&f->part, VALUE_SCALAR, value);
    end_value(f);
}

void ls__event_add_image(ls__event_file *f, const char *tag, int64_t height, int64_t width,
                         int64_t channels, const unsigned char *pixels)
{
    ls__bytes png = { .ctx = f->ctx }, image = { .ctx = f->ctx };
    ls__png_write(&png, height, width, channels, pixels);
    put_integer(&image, IMAGE_HEIGHT, height);
    put_integer(&image, IMAGE_WIDTH, width);
    put_integer(&image, IMAGE_CHANNELS, channels);
    put_bytes(&image, IMAGE_PNG, png.data, png.size);
    begin_value(f, tag);
    f->part.failed |= png.failed || image.failed;
    put_bytes(&f->part, VALUE_IMAGE, image.data, image.size);
    end_value(f);
    ls__bytes_free(&png);
    ls__bytes_free(&image);
}

enum { N_BUCKETS = 64 };

typedef struct histogram {
    double min, max, count, sum, squares;
    double limits[N_BUCKETS], buckets[N_BUCKETS]; /* limits: upper ones */
} histogram;

static histogram count_values(int64_t n, const float *values)
{
    histogram h = { .count = 0 };
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)values[i];
        if (!isfinite(x)) continue;
        h.min = h.count > 0 ? fmin(h.min, x) : x;
        h.max = h.count > 0 ? fmax(h.max, x) : x;
        h.count++;
        h.sum += x;
        h.squares += x * x;
    }
    const double width = (h.max - h.min) / N_BUCKETS;
    for (int k = 0; k < N_BUCKETS; k++) h.limits[k] = h.min + width * (k + 1);
    h.limits[N_BUCKETS - 1] = h.max;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)values[i];
        if (!isfinite(x)) continue;
        const int k = width > 0 ? (int)((x - h.min) / width) : 0;
        h.buckets[k < N_BUCKETS ? k : N_BUCKETS - 1]++;
    }
    return h;
}

void ls__event_add_histogram(ls__event_file *f, const char *tag, int64_t n, const float *values)
{
    ls__bytes out = { .ctx = f->ctx };
    const histogram h = count_values(n, values);
    put_double(&out, HISTOGRAM_MIN, h.min);
    put_double(&out, HISTOGRAM_MAX, h.max);
    put_double(&out, HISTOGRAM_COUNT, h.count);
    put_double(&out, HISTOGRAM_SUM, h.sum);
    put_double(&out, HISTOGRAM_SQUARES, h.squares);
    put_bytes(&out, HISTOGRAM_LIMITS, h.limits, sizeof(h.limits)); /* packed lists */
    put_bytes(&out, HISTOGRAM_BUCKETS, h.buckets, sizeof(h.buckets));
    begin_value(f, tag);
    f->part.failed |= out.failed;
    put_bytes(&f->part, VALUE_HISTOGRAM, out.data, out.size);
    end_value(f);
    ls__bytes_free(&out);
}

ls_status ls__event_commit(ls__event_file *f)
{
    f->event.failed |= f->summary.failed;
    if (f->summary.size > 0) put_bytes(&f->event, EVENT_SUMMARY, f->summary.data, f->summary.size);
    return write_record(f);
}

/* ---- Files ---- */

ls_status ls__event_file_create(ls_context *ctx, const char *path, double wall_time,
                                ls__event_file **out)
{
    static const char version[] = "brain.Event:2";
    *out = NULL;
    ls__event_file *f = ls__zalloc(ctx, sizeof(*f));
    if (!f) return ls__fail_memory(ctx, path, sizeof(*f));
    *f = (ls__event_file){ .ctx = ctx,
                           .path = ls__strdup(ctx, path),
                           .fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666),
                           .event = { .ctx = ctx },
                           .summary = { .ctx = ctx },
                           .part = { .ctx = ctx } };
    ls_status status = LS_OK;
    if (f->fd < 0) status = ls__fail_errno(ctx, errno, "writing '%s'", path);
    if (!f->path) status = ls__fail_memory(ctx, path, strlen(path));
    if (status == LS_OK) {
        put_double(&f->event, EVENT_WALL_TIME, wall_time);
        put_bytes(&f->event, EVENT_FILE_VERSION, version, strlen(version));
        status = write_record(f);
    }
    if (status != LS_OK && f->fd >= 0) unlink(path);
    if (status == LS_OK)
        *out = f;
    else
        ls__event_file_close(&f);
    return status;
}

void ls__event_file_close(ls__event_file **file)
{
    ls__event_file *f = *file;
    *file = NULL;
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    ls__bytes_free(&f->event);
    ls__bytes_free(&f->summary);
    ls__bytes_free(&f->part);
    ls__free(f->ctx, f->path);
    ls__free(f->ctx, f);
}

/* ---- Folders ---- */

enum { LENGTH_BYTES = 8, CRC_BYTES = 4 }; /* of a record */

double ls__event_clock_next(ls__event_clock *clock, double wall, double monotonic)
{
    const double elapsed = clock->last_at > 0 ? fmax(monotonic - clock->last_at, 0) : 0;
    clock->last = wall < clock->last ? clock->last + elapsed : wall;
    clock->last_at = monotonic;
    return clock->last;
}

/* Whether the CRC of the bytes from `at` on follows them. */
static bool is_whole(int fd, int64_t at, uint64_t length)
{
    unsigned char bytes[4096];
    uint32_t crc = 0;
    for (uint64_t left = length; left > 0;) {
        const size_t n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
        if (pread(fd, bytes, n, at) != (ssize_t)n) return false;
        crc = ls__crc_add(LS__CRC32C, crc, bytes, n);
        at += (int64_t)n;
        left -= n;
    }
    uint32_t stored;
    return pread(fd, &stored, CRC_BYTES, at) == CRC_BYTES && stored == mask_crc(crc);
}

/* The last wall time of the file's whole records, which are: 8 bytes of length, their CRC, the
 * event, its CRC. An event begins with its wall time. */
static double last_time(int fd, int64_t size)
{
    enum { HEAD = LENGTH_BYTES + CRC_BYTES, WALL_TIME_KEY = 1 << 3 | 1 }; /* field 1, 8 bytes */
    double last = 0;
    for (int64_t at = 0; size - at >= HEAD + CRC_BYTES;) {
        unsigned char bytes[HEAD + 1 + sizeof(double)];
        const ssize_t n = pread(fd, bytes, sizeof(bytes), at);
        if (n < HEAD || !is_whole(fd, at, LENGTH_BYTES)) break;
        uint64_t length;
        memcpy(&length, bytes, sizeof(length));
        if (length > (uint64_t)(size - at - HEAD - CRC_BYTES)) break;
        const int64_t event = at + HEAD;
        at = event + (int64_t)length + CRC_BYTES;
        if (n < (ssize_t)sizeof(bytes) || length <= sizeof(double) || bytes[HEAD] != WALL_TIME_KEY)
            continue;
        double time;
        memcpy(&time, bytes + HEAD + 1, sizeof(time));
        if (isfinite(time) && time > last && is_whole(fd, event, length)) last = time;
    }
    return last;
}

static double read_last_time(const char *dir, const char *name)
{
    char path[PATH_MAX], reason[LS__ERRNO_TEXT_SIZE];
    int fd;
    int64_t size;
    if (!ls__path_join(path, sizeof(path), dir, name) ||
        ls__open_regular(path, O_RDONLY, &fd, &size, reason) != LS_OK)
        return 0;
    const double last = last_time(fd, size);
    close(fd);
    return last;
}

int64_t ls__event_folder_scan(const char *dir, double wall, double *last)
{
    static const char prefix[] = "events.out.tfevents.";
    static const int64_t max_number = 9999999999; /* names have ten digits */
    int64_t number = wall > 0 ? (int64_t)fmin(wall, (double)max_number) : 0;
    DIR *folder = opendir(dir);
    *last = 0;
    for (const struct dirent *file; folder && (file = readdir(folder));) {
        if (strncmp(file->d_name, prefix, strlen(prefix)) != 0) continue;
        *last = fmax(*last, read_last_time(dir, file->d_name));
        const int64_t other = strtoll(file->d_name + strlen(prefix), NULL, 10);
        if (other >= number && other < max_number) number = other + 1;
    }
    if (folder) closedir(folder);
    return number;
}
