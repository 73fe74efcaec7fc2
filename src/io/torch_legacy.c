/* torch_legacy.c: a PyTorch file as torch.save wrote it before version 1.6: five pickles (a magic
 * number, the version of the format, facts about the machine, the saved value, the keys of the
 * storages), then each storage: its number of elements as 64 bits, and the elements. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "io/pickle.h"
#include "io/torch_tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    const char *key;
    int64_t begin, bytes; /* in the file */
} place;

/* file->data. */
typedef struct legacy_file {
    place *places; /* by key */
    size_t n;
} legacy_file;

static int compare_places(const void *a, const void *b)
{
    return strcmp(((const place *)a)->key, ((const place *)b)->key);
}

static int compare_storages(const void *a, const void *b)
{
    return strcmp((*(const ls__torch_storage *const *)a)->key,
                  (*(const ls__torch_storage *const *)b)->key);
}

/* ---- Pickles ---- */

static ls_status run_pickle(const ls_tensor_file *file, ls__pickle *p, const ls__pickle_value **out)
{
    const ls_status status = ls__pickle_run(p, out);
    if (status != LS_OK && status != LS_ERR_MEMORY)
        ls__error_in(p->ctx, "'%s' is no readable PyTorch state dict", file->path);
    return status;
}

/* The facts about the machine are not needed: numbers are little-endian on all machines. */
static ls_status read_header(const ls_tensor_file *file, ls__pickle *p)
{
    enum { VERSION = 1001 };
    const ls__pickle_value *magic, *version, *machine;
    LS_TRY(run_pickle(file, p, &magic));
    LS_TRY(run_pickle(file, p, &version));
    LS_TRY(run_pickle(file, p, &machine));
    if (version->kind == LS__PICKLE_INTEGER && version->u.integer == VERSION) return LS_OK;
    return ls__tensor_file_fail(file, "the version of the format is not %d", (int)VERSION);
}

/* Lists each storage once, sorted by key. */
static ls_status sort_storages(const ls_tensor_file *file, ls__bump *bump,
                               const ls__torch_storage *first, const ls__torch_storage ***out,
                               size_t *n)
{
    size_t unique = 0, all = 0, i = 0;
    for (const ls__torch_storage *s = first; s; s = s->next) all++;
    const ls__torch_storage **storages = ls__bump_alloc(bump, (all + 1) * sizeof(*storages));
    if (!storages) return ls__fail_memory(file->owned.ctx, file->path, 0);
    for (const ls__torch_storage *s = first; s; s = s->next) storages[i++] = s;
    qsort(storages, all, sizeof(*storages), compare_storages);
    for (i = 0; i < all; i++) {
        const ls__torch_storage *last = unique > 0 ? storages[unique - 1] : NULL, *s = storages[i];
        if (!last || strcmp(s->key, last->key) != 0)
            storages[unique++] = s;
        else if (s->count != last->count || strcmp(s->dtype, last->dtype) != 0)
            return ls__tensor_file_fail(file, "two storages have the key '%.*s'",
                                        LS__CUT(s->key, 100));
    }
    *out = storages;
    *n = unique;
    return LS_OK;
}

/* ---- Storages ---- */

/* Reads the number of elements at byte `at`, and sets the place of a storage. */
static ls_status set_place(const ls_tensor_file *file, const ls__torch_storage *storage, int64_t at,
                           place *out)
{
    ls__tensor_header type = { .dtype = storage->dtype };
    int64_t count;
    size_t bytes;
    if (at > file->file_bytes - (int64_t)sizeof(count))
        return ls__tensor_file_fail(file, "the file ends before storage '%.*s'",
                                    LS__CUT(storage->key, 100));
    LS_TRY(ls__tensor_file_read_at(file, &count, sizeof(count), at));
    if (count != storage->count)
        return ls__tensor_file_fail(file,
                                    "storage '%.*s' has %" PRId64 " elements, expected %" PRId64,
                                    LS__CUT(storage->key, 100), count, storage->count);
    ls__tensor_header_set_type(&type);
    at += (int64_t)sizeof(count);
    if (!ls__mul_size((size_t)count, type.element_bytes, &bytes) ||
        bytes > (size_t)(file->file_bytes - at))
        return ls__tensor_file_fail(file, "the file ends within storage '%.*s'",
                                    LS__CUT(storage->key, 100));
    out->begin = at;
    out->bytes = (int64_t)bytes;
    return LS_OK;
}

/* `at`: the byte after the pickles. */
static ls_status set_places(ls_tensor_file *file, legacy_file *legacy, ls__bump *bump,
                            const ls__torch_storage *storages, const ls__pickle_value *keys,
                            int64_t at)
{
    const ls__torch_storage **sorted = NULL;
    size_t n_sorted = 0, n_keys = 0;
    if (keys->kind != LS__PICKLE_LIST)
        return ls__tensor_file_fail(file, "the keys of the storages are no list");
    LS_TRY(sort_storages(file, bump, storages, &sorted, &n_sorted));
    for (const ls__pickle_item *item = keys->u.items->first; item; item = item->next) n_keys++;
    legacy->places = ls__bump_alloc(&file->bump, (n_keys + 1) * sizeof(*legacy->places));
    if (!legacy->places) return ls__fail_memory(file->owned.ctx, file->path, 0);
    for (const ls__pickle_item *item = keys->u.items->first; item; item = item->next) {
        char text[64];
        const ls__pickle_text key =
            item->value->kind == LS__PICKLE_TEXT ? item->value->u.text : (ls__pickle_text){ "", 0 };
        ls__snprintf(text, sizeof(text), "%.*s", (int)(key.n < sizeof(text) ? key.n : sizeof(text)),
                     key.bytes);
        const ls__torch_storage sought = { .key = text }, *pointer = &sought;
        const ls__torch_storage **found =
            bsearch(&pointer, sorted, n_sorted, sizeof(*sorted), compare_storages);
        if (!found) return ls__tensor_file_fail(file, "no tensor has the storage '%s'", text);
        place *to = &legacy->places[legacy->n++];
        to->key = ls__bump_strdup(&file->bump, text);
        if (!to->key) return ls__fail_memory(file->owned.ctx, file->path, 0);
        LS_TRY(set_place(file, *found, at, to));
        at = to->begin + to->bytes;
    }
    qsort(legacy->places, legacy->n, sizeof(*legacy->places), compare_places);
    for (size_t i = 1; i < legacy->n; i++)
        if (compare_places(&legacy->places[i - 1], &legacy->places[i]) == 0)
            return ls__tensor_file_fail(file, "storage '%s' is listed twice",
                                        legacy->places[i].key);
    return LS_OK;
}

static void find_storage(const void *format, const ls__torch_storage *storage, int64_t *index,
                         uint64_t *bytes)
{
    const legacy_file *legacy = format;
    const place sought = { .key = storage->key };
    const place *found =
        bsearch(&sought, legacy->places, legacy->n, sizeof(*legacy->places), compare_places);
    *index = found ? found - legacy->places : -1;
    *bytes = found ? (uint64_t)found->bytes : 0;
}

/* ---- The format ---- */

static ls_status read_range(const ls_tensor_file *file, const ls__tensor_header *t, void *out,
                            size_t bytes, int64_t offset)
{
    const legacy_file *legacy = file->data;
    return ls__tensor_file_read_at(file, out, bytes,
                                   legacy->places[t->storage].begin + t->begin + offset);
}

static ls_status parse(ls_tensor_file *file, legacy_file *legacy, ls__bump *pickles,
                       const char *key)
{
    const size_t size =
        file->file_bytes < LS__PICKLE_MAX_BYTES ? (size_t)file->file_bytes : LS__PICKLE_MAX_BYTES;
    ls__torch_pickle pickle;
    ls__torch_state_dict dict;
    const ls__pickle_value *keys;
    void *bytes = ls__bump_alloc(pickles, size);
    if (!bytes) return ls__fail_memory(file->owned.ctx, file->path, size);
    LS_TRY(ls__tensor_file_read_at(file, bytes, size, 0));
    ls__torch_pickle_open(&pickle, file->owned.ctx, pickles, file->path, bytes, size);
    LS_TRY(read_header(file, &pickle.p));
    LS_TRY(ls__torch_read_state_dict(&pickle, key, &dict));
    LS_TRY(run_pickle(file, &pickle.p, &keys));
    LS_TRY(set_places(file, legacy, pickles, pickle.storages, keys, (int64_t)pickle.p.at));
    return ls__torch_set_tensors(file, &dict, find_storage);
}

ls_status ls__torch_legacy_parse(ls_tensor_file *file, ls__bump *pickles, const char *key)
{
    static const ls__tensor_format format = { .name = "PyTorch file", .read = read_range };
    file->format = &format;
    legacy_file *legacy = file->data = ls__bump_alloc(&file->bump, sizeof(*legacy));
    return legacy ? parse(file, legacy, pickles, key)
                  : ls__fail_memory(file->owned.ctx, file->path, sizeof(*legacy));
}
