/* splits.c: finds the training, validation and test data in a folder by the names of its entries.
 */
#include "data/dataset/splits.h"

#include "base/path.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256, PATH_SIZE = 4096, MAX_FOUND = 16 };
/* Penalties that are added to the rank of a name. */
enum { ANOTHER_CASE = 16, OTHER_WORDS = 32, CSV_FILE = 64, NO_CLASSES = 128 };

/* ---- Names ---- */

/* In the order of preference. */
static const struct {
    const char *word;
    ls_split split;
} split_words[] = {
    { "train", LS_SPLIT_TRAIN },           { "training", LS_SPLIT_TRAIN },
    { "val", LS_SPLIT_VALIDATION },        { "validation", LS_SPLIT_VALIDATION },
    { "valid", LS_SPLIT_VALIDATION },      { "validate", LS_SPLIT_VALIDATION },
    { "validating", LS_SPLIT_VALIDATION }, { "test", LS_SPLIT_TEST },
    { "testing", LS_SPLIT_TEST },
};
enum { N_SPLIT_WORDS = sizeof(split_words) / sizeof(split_words[0]) };

_Static_assert((int)LS__MAX_SPLIT_WORDS >= (int)N_SPLIT_WORDS, "all could be of one split");

void ls__list_split_words(ls_split split, int *n, const char *words[LS__MAX_SPLIT_WORDS])
{
    *n = 0;
    for (int i = 0; i < N_SPLIT_WORDS; i++)
        if (split_words[i].split == split) words[(*n)++] = split_words[i].word;
}

/* Words that may stand beside the split in a name. Only names of lists have the second ones. */
static const char *const other_words[] = {
    "images", "image", "imgs", "img",   "photos",  "photo",  "pictures",
    "pics",   "set",   "data", "split", "dataset", "folder", "seg",
};
static const char *const list_words[] = { "labels", "label", "list", "annotations" };

/* Compares ASCII letters in any case, in every locale. */
static bool equals(const char *text, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != word[i]) return false;
    }
    return true;
}

static bool is_one_of(const char *word, size_t length, int n, const char *const *words)
{
    for (int i = 0; i < n; i++)
        if (strlen(words[i]) == length && equals(word, words[i], length)) return true;
    return false;
}

static bool is_other_word(const char *word, size_t length, bool is_list)
{
    enum { N = sizeof(other_words) / sizeof(other_words[0]) };
    enum { N_LIST = sizeof(list_words) / sizeof(list_words[0]) };
    return is_one_of(word, length, N, other_words) ||
           (is_list && is_one_of(word, length, N_LIST, list_words));
}

/* The index of the word that `text` is, perhaps followed by another word ("trainset"), or -1. */
static int find_split_word(const char *text, size_t length, bool is_list, bool *alone)
{
    int found = -1;
    size_t longest = 0;
    for (int i = 0; i < N_SPLIT_WORDS; i++) {
        const size_t n = strlen(split_words[i].word);
        if (n <= longest || n > length || !equals(text, split_words[i].word, n)) continue;
        if (n < length && !is_other_word(text + n, length - n, is_list)) continue;
        found = i;
        longest = n;
    }
    *alone = found >= 0 && longest == length;
    return found;
}

/* The split of a name and its rank, of which the lowest is preferred; false if it is none. is_list:
 * of a CSV file, without its extension. */
static bool read_name(const char *name, size_t length, bool is_list, ls_split *split, int *rank)
{
    static const char separators[] = "_-. ";
    int word = -1;
    bool others = false, alone = false;
    for (size_t at = 0, n; at < length; at += n + 1) {
        n = 0;
        while (at + n < length && !strchr(separators, name[at + n])) n++;
        if (n == 0 || is_other_word(name + at, n, is_list)) {
            others = true;
            continue;
        }
        const int here = find_split_word(name + at, n, is_list, &alone);
        if (here < 0 || word >= 0) return false;
        word = here;
        others |= !alone;
    }
    if (word < 0) return false;
    *split = split_words[word].split;
    *rank = word;
    if (others)
        *rank += OTHER_WORDS;
    else if (strncmp(name, split_words[word].word, length) != 0)
        *rank += ANOTHER_CASE;
    return true;
}

bool ls_split_of_name(const char *name, ls_split *split)
{
    int rank;
    ls_split unused;
    return name && read_name(name, strlen(name), false, split ? split : &unused, &rank);
}

bool ls__split_of_list(const char *name, ls_split *split)
{
    int rank;
    const char *dot = strrchr(name, '.');
    return read_name(name, dot ? (size_t)(dot - name) : strlen(name), true, split, &rank);
}

/* ---- Entries ---- */

/* An entry of the folder that is searched. */
typedef struct entry {
    char name[NAME_SIZE];
    int rank;
} entry;

static bool is_folder(const char *dir, const char *name)
{
    char path[PATH_SIZE];
    return ls__path_join(path, PATH_SIZE, dir, name) && ls__is_folder(path);
}

/* Archives of macOS have a folder __MACOSX. */
static bool is_hidden(const char *name)
{
    return name[0] == '.' || strcmp(name, "__MACOSX") == 0;
}

/* Counts the folders and other files of a folder; *first: the name of one of the folders. False: it
 * can't be read. */
static bool count_entries(const char *path, int *n_folders, int *n_files, char first[NAME_SIZE])
{
    *n_folders = *n_files = 0;
    DIR *folder = opendir(path);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        if (is_hidden(e->d_name)) continue;
        const bool is_dir = is_folder(path, e->d_name);
        if (is_dir && *n_folders == 0) snprintf(first, NAME_SIZE, "%s", e->d_name);
        *n_folders += is_dir;
        *n_files += !is_dir;
    }
    if (folder) closedir(folder);
    return folder != NULL;
}

/* A folder that can't be read may have some; opening it then fails for that reason. */
static bool has_folders(const char *dir, const char *name)
{
    char path[PATH_SIZE], first[NAME_SIZE];
    int n_folders, n_files;
    return ls__path_join(path, PATH_SIZE, dir, name) &&
           (!count_entries(path, &n_folders, &n_files, first) || n_folders > 0);
}

/* Sets errno to 0 unless reading fails. */
static const struct dirent *next_entry(DIR *folder)
{
    errno = 0;
    return readdir(folder);
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
                              : strcmp(x->name, y->name);
}

/* A list "train.csv", or a folder. A folder without class folders comes last. It is a split by its
 * exact name, because "Train" may be a class of vehicles, but beside training images "Test" is one,
 * too. */
static bool is_candidate(const char *dir, const char *name, ls_split split, int *rank)
{
    const size_t length = strlen(name), n_csv = strlen(".csv");
    const bool is_csv = length > n_csv && equals(name + length - n_csv, ".csv", n_csv);
    ls_split found;
    if (length >= NAME_SIZE ||
        !read_name(name, length - (is_csv ? n_csv : 0), is_csv, &found, rank) || found != split)
        return false;
    if (is_csv) {
        char path[PATH_SIZE];
        *rank += CSV_FILE;
        return ls__path_join(path, PATH_SIZE, dir, name) && ls__is_file(path);
    }
    if (!is_folder(dir, name)) return false;
    if (has_folders(dir, name)) return true;
    char train[PATH_SIZE];
    const bool is_split = *rank < ANOTHER_CASE || (*rank < OTHER_WORDS && split != LS_SPLIT_TRAIN &&
                                                   ls_split_find(dir, LS_SPLIT_TRAIN, 0, train,
                                                                 sizeof(train), NULL) == LS_OK);
    *rank += NO_CLASSES;
    return is_split;
}

/* "train/train": a folder that holds nothing but a folder of class folders. */
static void descend(const char *dir, char name[PATH_SIZE])
{
    char path[PATH_SIZE], only[NAME_SIZE];
    int n_folders, n_files;
    if (!ls__path_join(path, PATH_SIZE, dir, name)) return;
    count_entries(path, &n_folders, &n_files, only);
    const size_t length = strlen(name);
    if (n_folders != 1 || n_files > 0 || !has_folders(path, only)) return;
    snprintf(name + length, PATH_SIZE - length, "/%s", only);
}

ls_status ls_split_find(const char *dir, ls_split split, int i, char *name, size_t size,
                        ls_split_kind *kind)
{
    entry found[MAX_FOUND];
    int n = 0;
    if (!dir || !name || i < 0) return LS_ERR_INVALID;
    errno = 0;
    DIR *folder = opendir(dir);
    if (!folder && (errno == ENOENT || errno == ENOTDIR)) return LS_ERR_NOT_FOUND;
    for (const struct dirent *e; folder && n < MAX_FOUND && (e = next_entry(folder));) {
        if (is_hidden(e->d_name) || !is_candidate(dir, e->d_name, split, &found[n].rank)) continue;
        snprintf(found[n++].name, NAME_SIZE, "%s", e->d_name);
    }
    const int error = n < MAX_FOUND ? errno : 0; /* of opendir or readdir */
    if (folder) closedir(folder);
    errno = error;
    if (error != 0) return LS_ERR_IO;
    if (i >= n) return LS_ERR_NOT_FOUND;
    qsort(found, (size_t)n, sizeof(*found), compare_entries);
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%s", found[i].name);
    descend(dir, path);
    if (kind)
        *kind = found[i].rank & NO_CLASSES ? LS_SPLIT_FLAT_FOLDER
                : found[i].rank & CSV_FILE ? LS_SPLIT_LIST
                                           : LS_SPLIT_CLASS_FOLDERS;
    return snprintf(name, size, "%s", path) < (int)size ? LS_OK : LS_ERR_INVALID;
}
