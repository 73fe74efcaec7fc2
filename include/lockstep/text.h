/* text.h: texts that may hold any bytes, such as names of files and classes, for programs that
 * print them. All functions are thread-safe and do not depend on the locale. */
#ifndef LOCKSTEP_TEXT_H
#define LOCKSTEP_TEXT_H

#include <lockstep/export.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LS_BEGIN_DECLARATIONS

/* Bytes of the character at `at`, which is not the end of the text: a whole UTF-8 sequence
 * (RFC 3629), or one byte that begins none, whose code is then -1. */
LS_API int ls_utf8_next(const char *at, int32_t *code);

/* Whether a character is a control, shows nothing, or changes the order of others, so that a text
 * would look like another one. Joiners and selectors of variants, which scripts and emoji require,
 * are not among them. */
LS_API bool ls_utf8_is_hidden(int32_t code);

/* The first `length` bytes of a text, without an incomplete UTF-8 sequence at their end: how many
 * bytes these are. For texts that are truncated to a buffer. */
LS_API size_t ls_utf8_whole_length(const char *text, size_t length);

/* A word of a command line as a POSIX shell reads it back, in quotes where it needs them; control
 * characters as in $'\n'. The caller frees it by free(). NULL without memory. */
LS_API char *ls_shell_word(const char *word);

/* A message of the library (ls_context_message, ls_log_fn) without the name of the call that it may
 * begin with, "ls_net_build: ", for readers who do not know the calls. Points into `message`. */
LS_API const char *ls_plain_message(const char *message);

LS_END_DECLARATIONS

#endif
