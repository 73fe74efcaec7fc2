/* session_log.c: see runs.h. */
#include "runs/runs.h"
#include "cli.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static FILE *file;  /* in memory until the folder is known; NULL = no log */
static char *early; /* what the file in memory holds */
static size_t early_size;

static void put_line(const char *text)
{
    struct tm utc;
    char stamp[32] = "";
    const time_t now = time(NULL);
    if (gmtime_r(&now, &utc)) strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &utc);
    print_text(file, "%s %s\n", stamp, text);
    fflush(file);
}

static void put_command(int argc, char *const *argv)
{
    char *text = NULL;
    size_t size;
    const char **words = calloc((size_t)argc + 2, sizeof(*words));
    FILE *out = words ? open_memstream(&text, &size) : NULL;
    if (out) {
        words[0] = "train";
        for (int i = 0; i < argc; i++) words[i + 1] = argv[i];
        fputs("command: ", out);
        print_command_line(out, words);
        if (fclose(out) == 0 && text) put_line(text);
    }
    free(text);
    free(words);
}

void session_log_begin(int argc, char *const *argv)
{
    file = open_memstream(&early, &early_size);
    if (!file) return;
    put_command(argc, argv);
    set_print_copy(put_line);
}

/* A link is not followed, because another user may have prepared the folder. */
static FILE *open_file(const char *path)
{
    struct stat there;
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const int fd = open(path, flags, 0666);
    if (fd < 0) return NULL;
    const bool is_regular = fstat(fd, &there) == 0 && S_ISREG(there.st_mode);
    if (!is_regular) errno = EINVAL;
    FILE *out = is_regular ? fdopen(fd, "a") : NULL;
    if (!out) close(fd);
    return out;
}

void session_log_open(const char *dir)
{
    char path[4096 + 16];
    if (!file) return;
    set_print_copy(NULL);
    /* Without memory the stream has lost its lines. */
    const bool is_kept = fclose(file) == 0 && early;
    snprintf(path, sizeof(path), "%s/log.txt", dir);
    file = open_file(path);
    if (!file) {
        print_warning("%s is not written: %s", path, strerror(errno));
        return;
    }
    if (is_kept) fwrite(early, 1, early_size, file);
    if (!is_kept) print_warning("%s lacks its first lines: out of memory", path);
    fflush(file);
    set_print_copy(put_line);
}

void session_log_close(void)
{
    set_print_copy(NULL);
    if (file) fclose(file);
    file = NULL;
    free(early);
    early = NULL;
}
