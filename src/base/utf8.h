/* utf8.h: whether texts are UTF-8. <lockstep/text.h> has their characters, and base/text.h
 * truncates them. */
#ifndef LS_BASE_UTF8_H
#define LS_BASE_UTF8_H

#include <lockstep/text.h>

/* Whether the whole text is UTF-8, which JSON and so all our files require. */
bool ls__utf8_is_valid(const char *text);

#endif
