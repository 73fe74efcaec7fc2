/* library_count.h: what the emulated libraries hold, for tests that count it. */
#ifndef LS_TEST_EMULATED_LIBRARY_COUNT_H
#define LS_TEST_EMULATED_LIBRARY_COUNT_H

/* Adds to the number of descriptors and handles that are open. */
void emulated_library_count(int change);

#endif
