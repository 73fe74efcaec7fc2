/* event_folder.c: see event_folder.h. */
#include "io/event_folder.h"

#include "base/file.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double ls__event_clock_next(ls__event_clock *clock, double wall, double monotonic)
{
    const double elapsed = clock->last_at > 0 ? fmax(monotonic - clock->last_at, 0) : 0;
    clock->last = wall < clock->last ? clock->last + elapsed : wall;
    clock->last_at = monotonic;
    return clock->last;
}

/* The last wall time of the file's whole records, which are: 8 bytes of length, 4 of CRC, the
 * event, 4 of CRC. An event begins with its wall time. */
static double last_time(int fd, int64_t size)
{
    enum { HEAD = 12, TAIL = 4, WALL_TIME_KEY = 1 << 3 | 1 }; /* field 1, 8 bytes */
    double last = 0;
    for (int64_t at = 0; size - at >= HEAD + TAIL;) {
        unsigned char bytes[HEAD + 1 + sizeof(double)];
        uint64_t length = 0, bits = 0;
        const ssize_t n = pread(fd, bytes, sizeof(bytes), at);
        if (n < HEAD) break;
        for (int i = 0; i < 8; i++) length |= (uint64_t)bytes[i] << 8 * i;
        if (length > (uint64_t)(size - at - HEAD - TAIL)) break;
        at += HEAD + TAIL + (int64_t)length;
        if (n < (ssize_t)sizeof(bytes) || length <= sizeof(double) || bytes[HEAD] != WALL_TIME_KEY)
            continue;
        for (int i = 0; i < 8; i++) bits |= (uint64_t)bytes[HEAD + 1 + i] << 8 * i;
        double time;
        memcpy(&time, &bits, sizeof(time));
        if (isfinite(time) && time > last) last = time;
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
