/* runner.c: the main of a folder's tests. "test_FOLDER NAME" runs the tests of test_NAME.c and
 * returns their exit status; "test_FOLDER" prints the names. */
#include "suite.h"

#include <stdio.h>
#include <string.h>

/* The build writes programs.h: PROGRAM(name) for each file of the folder. */
#define PROGRAM(name) int test_##name(void);
#include "programs.h"
#undef PROGRAM

static const struct {
    const char *name;
    int (*run)(void);
} programs[] = {
#define PROGRAM(name) { #name, test_##name },
#include "programs.h"
#undef PROGRAM
};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        if (argc != 2)
            puts(programs[i].name);
        else if (strcmp(programs[i].name, argv[1]) == 0)
            return programs[i].run();
    }
    if (argc == 2) fprintf(stderr, "%s: no tests named '%s'\n", argv[0], argv[1]);
    return 2;
}
