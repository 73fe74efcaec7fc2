/* make_corpus.c: make_fuzz_corpus DIR writes DIR/TARGET/NAME: the inputs that fuzzing begins with,
 * small files of each kind. Facts about the machine are "@" in them, which the targets replace.
 *
 * A suite of tests, because the functions of tests/data that it calls check what they do. */
#include "corpus.h"

#include "../suite.h"
#include <stdio.h>
#include <sys/stat.h>

const char *corpus_root;

void put(const char *target, const char *name, const void *bytes, size_t n)
{
    mkdir(corpus_root, 0777);
    mkdir(path_in(corpus_root, "%s", target), 0777);
    write_file(path_in(corpus_root, "%s/%s", target, name), bytes, n);
}

START_TEST(images)
{
    make_jpegs();
    make_pngs();
    make_bmps();
    make_pnms();
    make_webps();
}
END_TEST

START_TEST(files)
{
    make_packs();
    make_lists();
    make_checkpoints();
    make_tensors();
    make_torch_files();
    make_texts();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_fuzz_corpus DIR\n");
        return 2;
    }
    corpus_root = argv[1];
    return RUN_SUITE("make_fuzz_corpus", images, files);
}
