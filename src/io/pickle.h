/* pickle.h: a reader of Python's pickles that executes no code of the file: a stack machine for the
 * opcodes of protocols 2 to 5. Its caller gives a table of C functions, which stand for functions
 * of Python. The results of all other calls are opaque values, so that what a file holds beside the
 * values that are needed is no error.
 * https://docs.python.org/3/library/pickletools.html */
#ifndef LS_IO_PICKLE_H
#define LS_IO_PICKLE_H

#include "io/pickle_value.h"

/* Runs the pickle that begins at byte p->at; p->at is then the byte after it. *out and all values
 * lie in p->bump; their texts lie in p->bytes. Memory is at most 96 bytes per byte of the pickle,
 * without what `find` and `call` allocate. LS_ERR_FORMAT names the byte and the opcode that is
 * malformed or not supported. */
ls_status ls__pickle_run(ls__pickle *p, const ls__pickle_value **out);

#endif
