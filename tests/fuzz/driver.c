/* driver.c: runs a fuzz target without libFuzzer: over each file that is named, and over all files
 * in each folder that is named, in the order of their names. A finding ends the process as it does
 * in the fuzzer. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file && fseek(file, 0, SEEK_END) == 0);
    const long size = ftell(file);
    FUZZ_CHECK(size >= 0);
    rewind(file);
    /* Of just that size, so that a read beyond the end is seen by the address sanitizer. */
    uint8_t *bytes = malloc((size_t)size);
    FUZZ_CHECK(fread(bytes, 1, (size_t)size, file) == (size_t)size);
    fclose(file);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    free(bytes);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run_folder(const char *path)
{
    struct dirent **files;
    const int n = scandir(path, &files, is_visible, alphasort);
    for (int i = 0; i < n; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, files[i]->d_name);
        run_file(name);
        free(files[i]);
    }
    if (n >= 0) free(files);
    return n;
}

int main(int argc, char **argv)
{
    int n_inputs = 0;
    for (int i = 1; i < argc; i++) {
        const int n = run_folder(argv[i]);
        if (n < 0) run_file(argv[i]);
        n_inputs += n < 0 ? 1 : n;
    }
    fuzz_context_close();
    printf("%d inputs\n", n_inputs);
    return n_inputs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
