/* event_folder.c: see event_folder.h. */
#include "io/event_folder.h"

#include "base/file.h"
#include "io/event_file.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH_BYTES = 8, CRC_BYTES = 4 }; /* of a record */

double ls__event_clock_next(ls__event_clock *clock, double wall, double monotonic)
{
    const double elapsed = clock->last_at > 0 ? fmax(monotonic - clock->last_at, 0) : 0;
    clock->last = wall < clock->last ? clock->last + elapsed : wall;
    clock->last_at = monotonic;
    return clock->last;
}

static uint64_t number_of(const unsigned char *bytes, int n)
{
    uint64_t number = 0;
    for (int i = 0; i < n; i++) number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

/* Whether the CRC of the bytes from `at` on follows them. */
static bool is_whole(int fd, int64_t at, uint64_t length)
{
    unsigned char bytes[4096];
    uint32_t crc = 0;
    for (uint64_t left = length; left > 0;) {
        const size_t n = left < sizeof(bytes) ? (size_t)left : sizeof(bytes);
        if (pread(fd, bytes, n, at) != (ssize_t)n) return false;
        crc = ls__crc32c(crc, bytes, n);
        at += (int64_t)n;
        left -= n;
    }
    return pread(fd, bytes, CRC_BYTES, at) == CRC_BYTES &&
           number_of(bytes, CRC_BYTES) == ls__mask_crc(crc);
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
        const uint64_t length = number_of(bytes, LENGTH_BYTES);
        if (length > (uint64_t)(size - at - HEAD - CRC_BYTES)) break;
        const int64_t event = at + HEAD;
        at = event + (int64_t)length + CRC_BYTES;
        if (n < (ssize_t)sizeof(bytes) || length <= sizeof(double) || bytes[HEAD] != WALL_TIME_KEY)
            continue;
        const uint64_t bits = number_of(bytes + HEAD + 1, sizeof(double));
        double time;
        memcpy(&time, &bits, sizeof(time));
        if (isfinite(time) && time > last && is_whole(fd, event, length)) last = time;
    }
    return last;
}

static double read_last_time(const char *dir, const char *name)
{
    char path[PATH_MAX], reason[LS__ERRNO_TEXT_SIZE];
    int fd;
    int64_t size;
    const int length = snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (length >= (int)sizeof(path) ||
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
