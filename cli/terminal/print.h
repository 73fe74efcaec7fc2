/* print.h: what the command prints: control characters made visible, widths in columns, lines that
 * wrap between fields. Everything that is printed goes through print_text or print_field, because
 * class names, file names, arguments, metadata and the library's messages may hold any bytes. */
#ifndef LS_CLI_TERMINAL_PRINT_H
#define LS_CLI_TERMINAL_PRINT_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Prints as fprintf, with control characters escaped: \n, \r, \t, or \xHH for each byte of
 * controls, invisible characters and marks of text direction (ls_utf8_is_hidden), and of bytes
 * 0x80 to 0x9F outside of UTF-8. All other bytes stay as they are. Only newlines at the beginning
 * and the end of `format` itself end lines. */
void print_text(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Name of the command in execution, "train", which main sets; for messages. */
extern const char *command_name;
/* Prints "lockstep COMMAND: MESSAGE" to stderr. */
void print_message(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* MUTE_ALL_BUT_ERRORS: stderr gets only messages of print_message that are not warnings. MUTE_ALL:
 * nothing. */
typedef enum print_mute { MUTE_NOTHING, MUTE_ALL_BUT_ERRORS, MUTE_ALL } print_mute;
void set_print_mute(print_mute mute);
bool print_is_muted(const FILE *out);
/* --quiet: only errors and results are printed. */
void set_print_quiet(bool quiet);
bool print_is_quiet(void);
/* Whether print_warning prints. */
void set_print_warnings(bool on);
/* Delays the first message; no message is printed if *end is set meanwhile. */
void set_print_delay(int seconds, const volatile sig_atomic_t *end);
/* Every message, unless it is muted, and every line of fields on stdout is passed to `copy`, also
 * where --quiet or the level hides it; NULL: none. */
void set_print_copy(void (*copy)(const char *text));
void print_copy_line(const char *text);
#define print_warning(...) print_message("warning: " __VA_ARGS__)
/* Prints a message that is neither an error nor a warning. */
#define print_note(...) (print_is_quiet() ? (void)0 : print_message("note: " __VA_ARGS__))
/* Prints a message; its value is `status`. */
#define fail_with(status, ...) (print_message(__VA_ARGS__), (status))

/* A line of fields with two spaces between, escaped as by print_text. Where it would have more than
 * `columns` columns it continues, indented, in another line; columns 0: never. */
typedef struct field_line {
    FILE *out;
    int columns, at; /* at: the column reached */
} field_line;
field_line begin_fields(FILE *out); /* as wide as the terminal that `out` is, if it is one */
void print_field(field_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
void end_fields(const field_line *line);

/* Flushes stdout. Returns 0, or the system's error of the first write that failed. */
int print_finish(void);

enum { LOSS_SIZE = 32 };
/* Writes a loss with four decimals; of targets, whose loss may be small, with four significant
 * digits. Returns out. */
const char *loss_text(double loss, bool of_targets, char out[LOSS_SIZE]);

/* Prints the words of `text`, each followed by one space or newline, from column `at` on: in lines
 * of at most 80 columns. Lines after the first begin at column `indent`. A newline in the text
 * begins a line. Ends the last line. */
void print_words(FILE *out, int at, int indent, const char *text);

/* Prints a field of CSV (RFC 4180) as print_text does, in quotes if it needs them. */
void print_csv(FILE *file, const char *text);

/* For json_dump_callback, user = a FILE: prints JSON text, with the control characters that JSON
 * leaves unescaped in strings as \u007f and the like. */
int print_json(const char *text, size_t length, void *user);

/* After (v)snprintf wrote to a buffer of `size` bytes and returned `length`: a truncated text ends
 * with a whole UTF-8 character then. */
void cut_text(char *buffer, size_t size, int length);

/* Columns that print_text takes for `text`: 2 for East Asian wide characters and emoji, 0 for the
 * common combining marks and joiners, 1 for all else, also for a byte that is not UTF-8. The table
 * is fixed, so that layout does not depend on the locale. */
int text_columns(const char *text);

/* The larger number: `columns`, or those of `text`. */
int max_columns(int columns, const char *text);

/* Columns of the terminal behind a file descriptor; 0: it is no terminal. */
int terminal_columns(int fd);

#endif
