/* print.c: what the command prints; see print.h. */
#include "terminal/print.h"
#include <lockstep/text.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

typedef struct range {
    int32_t first, last;
} range;

static bool is_in(int32_t code, int n, const range *ranges)
{
    for (int i = 0; i < n; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

void cut_text(char *buffer, size_t size, int length)
{
    if (length >= 0 && (size_t)length >= size)
        buffer[ls_utf8_whole_length(buffer, size - 1)] = '\0';
}

static bool is_control(const char *at, int32_t code)
{
    const unsigned char byte = (unsigned char)*at;
    if (code < 0) return byte >= 0x80 && byte <= 0x9F;
    return ls_utf8_is_hidden(code);
}

enum { MAX_ESCAPED = 4 }; /* "\x1b" for each byte */

/* Writes up to MAX_ESCAPED bytes per byte of `text`; returns how many. */
static size_t escape(const char *text, size_t length, char *out)
{
    static const char hex[] = "0123456789abcdef";
    char *to = out;
    int32_t code;
    for (const char *at = text, *end = text + length; at < end;) {
        const int n = ls_utf8_next(at, &code);
        const bool control = is_control(at, code);
        const char *letter = control ? memchr("\nn\rr\tt", *at, 6) : NULL;
        if (letter) {
            *to++ = '\\';
            *to++ = letter[1];
        } else if (control) {
            for (int i = 0; i < n; i++) {
                const unsigned char byte = (unsigned char)at[i];
                const char bytes[] = { '\\', 'x', hex[byte >> 4], hex[byte & 15] };
                memcpy(to, bytes, sizeof(bytes));
                to += sizeof(bytes);
            }
        } else {
            memcpy(to, at, (size_t)n);
            to += n;
        }
        at += n;
    }
    return (size_t)(to - out);
}

/* The system's error of the first write to stdout that failed; 0: none. */
static int output_error;

static void note_output(FILE *out)
{
    if (out == stdout && !output_error && ferror(out)) output_error = errno ? errno : EIO;
}

int print_finish(void)
{
    if (!ferror(stdout)) errno = 0; /* else it is probably that of the write that failed */
    fflush(stdout);
    note_output(stdout);
    return output_error;
}

/* `before` and `after` as they are, `text` escaped, all at once: other processes may write to the
 * same file. */
static void print_line(FILE *out, size_t n_before, size_t n_after, const char *text, size_t length)
{
    char small[4096], *line = small;
    const size_t size = n_before + MAX_ESCAPED * length + n_after;
    if (size > sizeof(small)) line = malloc(size);
    if (!line) return;
    memset(line, '\n', n_before);
    size_t n = n_before + escape(text, length, line + n_before);
    memset(line + n, '\n', n_after);
    n += n_after;
    fwrite(line, 1, n, out);
    note_output(out);
    if (line != small) free(line);
}

static print_mute muted;
static bool quiet, hides_warnings;
static int delay_seconds;
static const volatile sig_atomic_t *delay_end;

void set_print_mute(print_mute mute)
{
    muted = mute;
}

bool print_is_muted(const FILE *out)
{
    return out == stderr && muted;
}

void set_print_quiet(bool is_quiet)
{
    quiet = is_quiet;
}

bool print_is_quiet(void)
{
    return quiet;
}

void set_print_warnings(bool on)
{
    hides_warnings = !on;
}

void set_print_delay(int seconds, const volatile sig_atomic_t *end)
{
    delay_seconds = seconds;
    delay_end = end;
}

/* Another thread may run the signal's handler, so a signal does not end a sleep of this one. */
static void wait_delay(void)
{
    enum { SLEEPS_PER_SECOND = 20 };
    const struct timespec sleep = { .tv_nsec = 1000000000 / SLEEPS_PER_SECOND };
    for (int i = 0; i < delay_seconds * SLEEPS_PER_SECOND && !*delay_end; i++)
        nanosleep(&sleep, NULL);
    if (delay_seconds > 0 && *delay_end) muted = MUTE_ALL;
    delay_seconds = 0;
}

void print_text(FILE *out, const char *format, ...)
{
    if (print_is_muted(out)) return;
    char small[1024], *text = small;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    if (length >= (int)sizeof(small)) {
        va_start(args, format);
        length = vasprintf(&text, format, args);
        va_end(args);
    }
    if (length < 0) return;
    const size_t format_length = strlen(format), n_before = strspn(format, "\n");
    size_t n_after = 0;
    while (n_before + n_after < format_length && format[format_length - 1 - n_after] == '\n')
        n_after++;
    print_line(out, n_before, n_after, text + n_before, (size_t)length - n_before - n_after);
    if (text != small) free(text);
}

const char *command_name = "";

static void (*line_copy)(const char *text);

void set_print_copy(void (*copy)(const char *text))
{
    line_copy = copy;
}

void print_copy_line(const char *text)
{
    if (line_copy && !muted) line_copy(text);
}

static void print_formatted(const char *text)
{
    wait_delay();
    if (muted == MUTE_ALL) return;
    const print_mute mute = muted;
    muted = MUTE_NOTHING;
    print_text(stderr, "lockstep %s: %s\n", command_name, text);
    muted = mute;
}

void print_message(const char *format, ...)
{
    const bool is_warning = strncmp(format, "warning: ", 9) == 0;
    if (muted == MUTE_ALL || (is_warning && muted)) return;
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    if (text) print_copy_line(text);
    if (!is_warning || !(quiet || hides_warnings)) print_formatted(text ? text : "out of memory");
    free(text);
}

int print_json(const char *text, size_t length, void *user)
{
    FILE *out = user;
    int32_t code;
    for (const char *at = text, *end = text + length; at < end;) {
        const int n = ls_utf8_next(at, &code);
        const bool is_escaped = code >= 0x7F && is_control(at, code);
        if (is_escaped && code >= 0x10000) /* a surrogate pair */
            fprintf(out, "\\u%04x\\u%04x", 0xD800 + (((unsigned)code - 0x10000) >> 10),
                    0xDC00 + ((unsigned)code & 0x3FF));
        else if (is_escaped)
            fprintf(out, "\\u%04x", (unsigned)code);
        else
            fwrite(at, 1, (size_t)n, out);
        at += n;
    }
    note_output(out);
    return 0;
}

/* The fields of a line for print_copy_line. */
static char field_texts[1024];

field_line begin_fields(FILE *out)
{
    *field_texts = '\0';
    return (field_line){ .out = out, .columns = terminal_columns(fileno(out)) };
}

void print_field(field_line *line, const char *format, ...)
{
    enum { INDENT = 4, GAP = 2 };
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    if (!text) return;
    const int width = text_columns(text);
    if (line->at > 0 && line->columns > 0 && line->at + GAP + width > line->columns) {
        fprintf(line->out, "\n%*s", INDENT, "");
        line->at = INDENT;
    } else if (line->at > 0) {
        fprintf(line->out, "%*s", GAP, "");
        line->at += GAP;
    }
    print_line(line->out, 0, 0, text, strlen(text));
    const size_t length = strlen(field_texts);
    const size_t left = sizeof(field_texts) - length;
    cut_text(field_texts + length, left,
             snprintf(field_texts + length, left, "%s%s", length ? "  " : "", text));
    line->at += width;
    free(text);
}

void end_fields(const field_line *line)
{
    fputc('\n', line->out);
    fflush(line->out);
    note_output(line->out);
    if (line->out == stdout) print_copy_line(field_texts);
}

void print_words(FILE *out, int at, int indent, const char *text)
{
    enum { COLUMNS = 80 };
    bool begins = true;
    while (*text) {
        const int length = (int)strcspn(text, " \n");
        const bool fits = at + !begins + length <= COLUMNS;
        if (!fits) {
            fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (!begins) {
            fputc(' ', out);
            at++;
        }
        print_text(out, "%.*s", length, text);
        at += length;
        begins = false;
        text += length;
        if (*text == '\n') at = COLUMNS;
        text += *text != '\0';
    }
    fputc('\n', out);
}

int text_columns(const char *text)
{
    /* Unicode's East Asian Width W and F, in whole blocks; marks of general use. */
    static const range wide[] = { { 0x1100, 0x115F },   { 0x2E80, 0x303E },   { 0x3041, 0xA4CF },
                                  { 0xA960, 0xA97F },   { 0xAC00, 0xD7A3 },   { 0xF900, 0xFAFF },
                                  { 0xFE30, 0xFE6F },   { 0xFF01, 0xFF60 },   { 0xFFE0, 0xFFE6 },
                                  { 0x1F300, 0x1F64F }, { 0x1F680, 0x1F6FF }, { 0x1F900, 0x1F9FF },
                                  { 0x20000, 0x3FFFD } };
    static const range none[] = { { 0x0300, 0x036F }, { 0x0483, 0x0489 }, { 0x0591, 0x05BD },
                                  { 0x064B, 0x065F }, { 0x1AB0, 0x1AFF }, { 0x1DC0, 0x1DFF },
                                  { 0x200B, 0x200F }, { 0x20D0, 0x20FF }, { 0xFE00, 0xFE0F },
                                  { 0xFE20, 0xFE2F } };
    int columns = 0;
    int32_t code;
    for (int n; *text; text += n) {
        n = ls_utf8_next(text, &code);
        if (is_control(text, code))
            columns += memchr("\n\r\t", *text, 3) ? 2 : MAX_ESCAPED * n;
        else if (!is_in(code, sizeof(none) / sizeof(none[0]), none))
            columns += is_in(code, sizeof(wide) / sizeof(wide[0]), wide) ? 2 : 1;
    }
    return columns;
}

int max_columns(int columns, const char *text)
{
    const int of_text = text_columns(text);
    return of_text > columns ? of_text : columns;
}

int terminal_columns(int fd)
{
    enum { UNKNOWN = 80 };
    struct winsize size;
    if (!isatty(fd)) return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : UNKNOWN;
}

const char *loss_text(double loss, bool of_targets, char out[LOSS_SIZE])
{
    snprintf(out, LOSS_SIZE, of_targets ? "%#.4g" : "%.4f", loss);
    return out;
}

void print_csv(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        print_text(file, "%s", text);
        return;
    }
    print_text(file, "\"");
    for (const char *at = text; *at;) {
        const int n = (int)strcspn(at, "\"");
        print_text(file, "%.*s", n, at);
        at += n;
        if (*at) print_text(file, "\"\"");
        if (*at) at++;
    }
    print_text(file, "\"");
}
