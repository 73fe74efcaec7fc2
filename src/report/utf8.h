/* utf8.h: characters that a report or a message must not show as they are. */
#ifndef LS_REPORT_UTF8_H
#define LS_REPORT_UTF8_H

#include "base/utf8.h"

/* Whether a character is a control, shows nothing, or changes the order of others, so that a text
 * would look like another one. Joiners and selectors of variants, which scripts and emoji require,
 * are not among them. */
bool ls__utf8_is_hidden(int32_t code);

#endif
