/* numbers.h: fixtures that are lines of numbers. */
#ifndef LS_TESTS_NUMBERS_H
#define LS_TESTS_NUMBERS_H

#include <stdio.h>

enum { MOST_NUMBERS = 512 };

/* Reads the numbers of a line, separated by spaces. Returns how many. */
int read_numbers(FILE *file, double out[MOST_NUMBERS]);

#endif
