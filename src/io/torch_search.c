/* torch_search.c: see torch_search.h. */
#include "io/torch_search.h"

#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* Longer keys are truncated. */
enum { MAX_DEPTH = 8, KEY_SIZE = 512, PART_SIZE = 200 };

/* A dict or list that is reached from the root. */
typedef struct node {
    const ls__pickle_value *value;
    size_t parent;
    ls__pickle_text key; /* in the parent */
    int64_t index;       /* in a parent that is a list or tuple; -1 = has a key */
    int depth;
    int64_t n_tensors; /* with names */
    bool has_inner;    /* tensors in dicts below */
} node;

typedef struct search {
    ls__pickle *p;
    const char *path;
    node *nodes;
    size_t n, room;
} search;

/* Where checkpoints hold their weights, the averaged ones first. */
static const char *const usual_keys[] = {
    "state_dict_ema",
    "model_ema",
    "ema_state_dict",
    "model_ema_state_dict",
    "ema_model",
    "ema",
    "params_ema",
    "ema_params",
    "state_dict",
    "model",
    "model_state_dict",
    "model_state",
    "net",
    "network",
    "net_state_dict",
    "params",
    "weights",
    "parameters",
    "module",
};
enum { N_USUAL = sizeof(usual_keys) / sizeof(usual_keys[0]) };

/* ---- Walking ---- */

static ls_status add(search *s, const ls__pickle_value *value, size_t parent, ls__pickle_text key,
                     int64_t index)
{
    const int depth = s->n > 0 ? s->nodes[parent].depth + 1 : 0;
    const bool is_container = value->kind == LS__PICKLE_DICT || value->kind == LS__PICKLE_LIST ||
                              (value->kind == LS__PICKLE_TUPLE && depth == 0);
    if (!is_container || depth > MAX_DEPTH) return LS_OK;
    node *nodes = ls__bump_room(s->p->bump, s->nodes, s->n, 1, &s->room, sizeof(*nodes));
    if (!nodes) return ls__pickle_fail_memory(s->p);
    s->nodes = nodes;
    nodes[s->n++] =
        (node){ .value = value, .parent = parent, .key = key, .index = index, .depth = depth };
    return LS_OK;
}

/* The state of an optimizer holds tensors, too. Modules may add what they like as _extra_state. */
static bool is_left_out(const ls__pickle_value *dict, ls__pickle_text key)
{
    static const char extra[] = "_extra_state";
    const size_t n = sizeof(extra) - 1;
    if (key.n >= n && memcmp(key.bytes + key.n - n, extra, n) == 0) return true;
    return ls__pickle_get(dict, "state") && ls__pickle_get(dict, "param_groups");
}

static ls_status walk_items(search *s, size_t i)
{
    const ls__pickle_text no_key = { "", 0 };
    const bool is_dict = s->nodes[i].value->kind == LS__PICKLE_DICT;
    ls__pickle_items *items = s->nodes[i].value->u.items;
    if (items->visited || (is_dict && is_left_out(s->nodes[i].value, s->nodes[i].key)))
        return LS_OK;
    items->visited = true;
    int64_t index = 0;
    for (const ls__pickle_item *item = items->first; item; item = item->next, index++) {
        const bool has_name = is_dict && item->key->kind == LS__PICKLE_TEXT;
        if (has_name && ls__pickle_object(item->value, LS__TORCH_TENSOR))
            s->nodes[i].n_tensors++;
        else if (has_name)
            LS_TRY(add(s, item->value, i, item->key->u.text, -1));
        else if (!is_dict)
            LS_TRY(add(s, item->value, i, no_key, index));
    }
    return LS_OK;
}

static ls_status walk(search *s, const ls__pickle_value *root)
{
    const ls__pickle_text no_key = { "", 0 };
    LS_TRY(add(s, root, 0, no_key, 0));
    for (size_t i = 0; root->kind == LS__PICKLE_TUPLE && i < root->u.tuple.n; i++)
        LS_TRY(add(s, root->u.tuple.items[i], 0, no_key, (int64_t)i));
    for (size_t i = root->kind == LS__PICKLE_TUPLE; i < s->n; i++) LS_TRY(walk_items(s, i));
    for (size_t i = s->n; i-- > 1;)
        if (s->nodes[i].n_tensors > 0 || s->nodes[i].has_inner)
            s->nodes[s->nodes[i].parent].has_inner = true;
    return LS_OK;
}

/* ---- Keys ---- */

/* "model.state_dict". */
static const char *key_text(const search *s, size_t i, char buffer[KEY_SIZE])
{
    size_t parts[MAX_DEPTH];
    int n = 0;
    ls__text text = { buffer, KEY_SIZE, 0 };
    buffer[0] = '\0';
    for (; s->nodes[i].depth > 0; i = s->nodes[i].parent) parts[n++] = i;
    for (int k = n; k-- > 0;) {
        const node *at = &s->nodes[parts[k]];
        const int length = (int)(at->key.n < PART_SIZE ? at->key.n : PART_SIZE);
        if (at->index >= 0)
            ls__text_put(&text, "%s%" PRId64, k < n - 1 ? "." : "", at->index);
        else
            ls__text_put(&text, "%s%.*s", k < n - 1 ? "." : "", length, at->key.bytes);
    }
    return buffer;
}

/* True if a key of the node or of one of its parents is this one. */
static bool lies_in(const search *s, size_t i, const char *key)
{
    for (; s->nodes[i].depth > 0; i = s->nodes[i].parent)
        if (s->nodes[i].index < 0 && ls__pickle_text_equals(s->nodes[i].key, key)) return true;
    return false;
}

static bool begins_with_key(const char *text, const char *key)
{
    const size_t n = strlen(key);
    return strncmp(text, key, n) == 0 && (text[n] == '\0' || text[n] == '.');
}

/* ---- Errors ---- */

/* A module instead of its state dict, as the whole file or at a usual key. */
static ls_status fail_object(const search *s, const ls__pickle_value *root)
{
    char text[LS__PICKLE_KIND_TEXT];
    const ls__pickle_value *object = root;
    const char *key = NULL;
    for (size_t i = 0; root->kind == LS__PICKLE_DICT && i < N_USUAL && !key; i++) {
        object = ls__pickle_get(root, usual_keys[i]);
        if (object && object->kind == LS__PICKLE_OPAQUE && object->u.class) key = usual_keys[i];
    }
    if (root->kind == LS__PICKLE_DICT && !key)
        return ls__fail(s->p->ctx, LS_ERR_FORMAT, "the file has no state dict: it names no tensor");
    if (!key && (root->kind != LS__PICKLE_OPAQUE || !root->u.class))
        return ls__fail(s->p->ctx, LS_ERR_FORMAT, "the file holds %s, expected a state dict",
                        ls__pickle_kind_text(root, text));
    return ls__fail(s->p->ctx, LS_ERR_UNSUPPORTED,
                    "the file holds %s%s%s%s, expected a state dict; to convert a module: python3 "
                    "-c \"import torch; torch.save(torch.load('%.*s', map_location='cpu', "
                    "weights_only=False)%s%s%s"
                    ".state_dict(), 'state_dict.pt')\"",
                    ls__pickle_kind_text(object, text), key ? " at the key '" : "", key ? key : "",
                    key ? "'" : "", LS__CUT(s->path, 300), key ? "['" : "", key ? key : "",
                    key ? "']" : "");
}

/* "'student' (102 tensors), 'teacher' (102 tensors)". */
static ls_status fail_choice(const search *s, const char *key)
{
    enum { MAX_NAMED = 8 };
    char buffer[512], name[KEY_SIZE];
    ls__text list = { buffer, sizeof(buffer), 0 };
    int n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->nodes[i].n_tensors == 0 || s->nodes[i].has_inner || ++n > MAX_NAMED) continue;
        ls__text_put(&list, "%s'%.*s' (%" PRId64 " tensor%s)", n > 1 ? ", " : "",
                     LS__CUT(key_text(s, i, name), 100), s->nodes[i].n_tensors,
                     s->nodes[i].n_tensors == 1 ? "" : "s");
    }
    if (n > MAX_NAMED) ls__text_put(&list, ", ...");
    if (key)
        return ls__fail(s->p->ctx, LS_ERR_NOT_FOUND,
                        "the file has no tensors at the key '%.*s'; it has tensors at %s",
                        LS__CUT(key, 100), buffer);
    return ls__fail(s->p->ctx, LS_ERR_INVALID,
                    "the file has tensors at several keys, one of which is required: %s", buffer);
}

/* ---- Selection ---- */

/* Of the dicts that hold tensors, those with fewer than half as many as the largest are taken for
 * settings, such as means of channels. *n: how many lie in the key, which may be NULL. */
static size_t select_in(const search *s, const char *key, size_t *n)
{
    int64_t most = 0;
    size_t found = 0;
    *n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (!s->nodes[i].has_inner && s->nodes[i].n_tensors > most) most = s->nodes[i].n_tensors;
    for (size_t i = 0; i < s->n; i++) {
        const node *at = &s->nodes[i];
        if (at->n_tensors == 0 || at->n_tensors < most / 2 || at->has_inner) continue;
        if (key && !lies_in(s, i, key)) continue;
        found = i;
        ++*n;
    }
    return found;
}

/* Finds the dict of a usual key, or the only one. */
static bool select_usual(const search *s, size_t *found)
{
    size_t n = 0;
    for (size_t i = 0; i < N_USUAL && n == 0; i++) *found = select_in(s, usual_keys[i], &n);
    if (n == 0) *found = select_in(s, NULL, &n);
    return n == 1;
}

/* Finds the dict at the key, or the only one below it. */
static bool select_key(const search *s, const char *key, size_t *found)
{
    char name[KEY_SIZE];
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->nodes[i].n_tensors == 0 || s->nodes[i].has_inner) continue;
        if (!begins_with_key(key_text(s, i, name), key)) continue;
        *found = i;
        n++;
    }
    return n == 1;
}

/* True if the key is a prefix of names. */
static bool has_prefix(const ls__pickle_value *dict, const char *key)
{
    const size_t n = strlen(key);
    for (const ls__pickle_item *item = dict->u.items->first; item; item = item->next) {
        const ls__pickle_value *name = item->key;
        if (name && name->kind == LS__PICKLE_TEXT && name->u.text.n > n &&
            memcmp(name->u.text.bytes, key, n) == 0)
            return true;
    }
    return false;
}

ls_status ls__torch_search(ls__pickle *p, const char *path, const ls__pickle_value *root,
                           const char *key, const ls__pickle_value **dict, const char **found)
{
    search s = { .p = p, .path = path };
    char name[KEY_SIZE];
    size_t i = 0;
    LS_TRY(walk(&s, root));
    if (s.n == 0 || (s.nodes[0].n_tensors == 0 && !s.nodes[0].has_inner))
        return fail_object(&s, root);
    const bool is_there = key && select_key(&s, key, &i);
    if (!is_there && !select_usual(&s, &i)) return fail_choice(&s, key);
    *dict = s.nodes[i].value;
    if (key && !is_there && !has_prefix(*dict, key)) return fail_choice(&s, key);
    *found = ls__bump_strdup(p->bump, key_text(&s, i, name));
    return *found ? LS_OK : ls__pickle_fail_memory(p);
}
