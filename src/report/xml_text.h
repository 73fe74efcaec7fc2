/* xml_text.h: text in XML and HTML. */
#ifndef LS_REPORT_XML_TEXT_H
#define LS_REPORT_XML_TEXT_H

#include <lockstep/text.h>
#include <stdbool.h>

/* The next character of a text that has not ended: `bytes` bytes of it become `length` bytes at
 * `out`, which is the character or its escape: that of & < > and ", \u202e and the like for hidden
 * characters (ls_utf8_is_hidden), and U+FFFD for what is not UTF-8 and for characters that XML
 * cannot hold. */
typedef struct ls__xml_character {
    char out[12];
    int length, bytes;
} ls__xml_character;
ls__xml_character ls__xml_next(const char *text);

#endif
