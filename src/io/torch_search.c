/* torch_search.c: see torch_search.h. */
#include "io/torch_search.h"

#include "base/error.h"
#include "base/minmax.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

/* Longer keys are truncated. */
enum { MAX_DEPTH = 8, KEY_SIZE = 512, PART_SIZE = 200 };

/* A reference to a dict or list that is reached from the root. */
typedef struct node {
    const ls__pickle_value *value;
    size_t parent;
    size_t first; /* the node that was the first one of this value: itself, or an earlier one */
    ls__pickle_text key; /* in the parent */
    int64_t index;       /* in a parent that is a list or tuple; -1 = has a key */
    int depth;
    int64_t n_tensors; /* with names; of the first node, as the next one */
    int64_t max_below; /* the most in one dict below */
} node;

typedef struct search {
    ls__pickle *p;
    node *nodes;
    size_t n, capacity;
    int64_t max_tensors; /* in one dict */
} search;

/* Where checkpoints hold their weights, the averaged ones first. */
static const char *const usual_keys[] = {
    "state_dict_ema", "model_ema",
    "ema_state_dict", "model_ema_state_dict",
    "ema_model",      "ema",
    "params_ema",     "ema_params",
    "averaged_model", "swa_model",
    "swa_state_dict", "state_dict",
    "model",          "model_state_dict",
    "model_state",    "net",
    "network",        "net_state_dict",
    "params",         "weights",
    "parameters",     "module",
};
enum { N_USUAL = sizeof(usual_keys) / sizeof(usual_keys[0]) };

/* ---- Walking ---- */

static ls_status add(search *s, const ls__pickle_value *value, size_t parent, ls__pickle_text key,
                     int64_t index)
{
    const int depth = s->n > 0 ? s->nodes[parent].depth + 1 : 0;
    const bool has_items = value->kind == LS__PICKLE_DICT || value->kind == LS__PICKLE_LIST;
    const bool is_tuple = value->kind == LS__PICKLE_TUPLE && depth == 0;
    if (depth > MAX_DEPTH || (has_items ? !value->u.items->first : !is_tuple)) return LS_OK;
    node *nodes = ls__bump_room(s->p->bump, s->nodes, s->n, 1, &s->capacity, sizeof(*nodes));
    if (!nodes) return ls__pickle_fail_memory(s->p);
    s->nodes = nodes;
    size_t first = s->n;
    if (has_items && value->u.items->mark) first = value->u.items->mark - 1;
    if (has_items) value->u.items->mark = first + 1;
    nodes[s->n++] = (node){
        .value = value, .parent = parent, .first = first, .key = key, .index = index, .depth = depth
    };
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
    const ls__pickle_value *value = s->nodes[i].value;
    const bool is_dict = value->kind == LS__PICKLE_DICT;
    if (s->nodes[i].first != i || (is_dict && is_left_out(value, s->nodes[i].key))) return LS_OK;
    int64_t index = 0;
    for (const ls__pickle_item *item = value->u.items->first; item; item = item->next, index++) {
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
    for (size_t i = s->n; i-- > 1;) {
        const node *first = &s->nodes[s->nodes[i].first];
        node *parent = &s->nodes[s->nodes[i].parent];
        parent->max_below =
            ls__max_i64(parent->max_below, ls__max_i64(first->n_tensors, first->max_below));
    }
    for (size_t i = 0; i < s->n; i++)
        s->max_tensors = ls__max_i64(s->max_tensors, s->nodes[i].n_tensors);
    return LS_OK;
}

/* True if the dict may be a state dict. Dicts with fewer than half as many tensors as the largest
 * one are taken for settings, such as means of channels; a dict with a larger one in it holds it.
 */
static bool is_candidate(const search *s, size_t i)
{
    const node *first = &s->nodes[s->nodes[i].first];
    return first->n_tensors > 0 && 2 * first->n_tensors >= s->max_tensors &&
           first->max_below < first->n_tensors;
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

/* True if the first key on the way to the node is this one. */
static bool lies_in(const search *s, size_t i, const char *key)
{
    const node *first = NULL;
    for (; s->nodes[i].depth > 0; i = s->nodes[i].parent)
        if (s->nodes[i].index < 0) first = &s->nodes[i];
    return first && ls__pickle_text_equals(first->key, key);
}

bool ls__is_below_key(const char *text, const char *key)
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
                    "the file holds %s%s%s%s, expected a state dict. If you trust the file, whose "
                    "code this executes, convert a module with: python3 -c \"import sys, torch; "
                    "torch.save(torch.load(sys.argv[1], map_location='cpu', weights_only=False)"
                    "%s%s%s.state_dict(), 'state_dict.pt')\" FILE",
                    ls__pickle_kind_text(object, text), key ? " at the key '" : "", key ? key : "",
                    key ? "'" : "", key ? "['" : "", key ? key : "", key ? "']" : "");
}

/* "'student' (102 tensors), 'teacher' (102 tensors)". */
static ls_status fail_choice(const search *s, const char *key)
{
    enum { MAX_NAMED = 8 };
    char buffer[512] = "", name[KEY_SIZE];
    ls__text list = { buffer, sizeof(buffer), 0 };
    int n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (!is_candidate(s, i) || ++n > MAX_NAMED) continue;
        const int64_t n_tensors = s->nodes[s->nodes[i].first].n_tensors;
        ls__text_put(&list, "%s'%.*s' (%" PRId64 " tensor%s)", n > 1 ? ", " : "",
                     LS__CUT(key_text(s, i, name), 100), n_tensors, n_tensors == 1 ? "" : "s");
    }
    if (n > MAX_NAMED) ls__text_put(&list, ", ...");
    if (key)
        return ls__fail(s->p->ctx, LS_ERR_MISMATCH,
                        "the file has no tensors at the key '%.*s'; it has tensors at %s",
                        LS__CUT(key, 100), buffer);
    return ls__fail(s->p->ctx, LS_ERR_MISMATCH,
                    "the file has tensors at several keys, one of which is required: %s", buffer);
}

/* ---- Selection ---- */

/* The candidate that lies in the key, which may be NULL; *n: how many different ones do. */
static size_t select_in(const search *s, const char *key, size_t *n)
{
    size_t found = 0;
    *n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (!is_candidate(s, i) || (key && !lies_in(s, i, key))) continue;
        *n += *n == 0 || s->nodes[i].first != s->nodes[found].first;
        if (*n == 1) found = i;
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

/* True if the key, with a dot at its end or without one, is a prefix of names. */
static bool has_prefix(const ls__pickle_value *dict, const char *key)
{
    size_t n = strlen(key);
    if (n > 0 && key[n - 1] == '.') n--;
    for (const ls__pickle_item *item = dict->u.items->first; item; item = item->next) {
        const ls__pickle_value *name = item->key;
        if (name && name->kind == LS__PICKLE_TEXT && name->u.text.n > n &&
            memcmp(name->u.text.bytes, key, n) == 0 && name->u.text.bytes[n] == '.')
            return true;
    }
    return false;
}

/* Finds the dict at the key, or the only candidate below it, or the dict at the key's beginning
 * that has names with the rest of the key as a prefix. */
static bool select_key(const search *s, const char *key, size_t *found)
{
    char name[KEY_SIZE];
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (s->nodes[s->nodes[i].first].n_tensors == 0) continue;
        const char *text = key_text(s, i, name);
        if (strcmp(text, key) == 0) return *found = i, true;
        const bool above = *text && ls__is_below_key(key, text) &&
                           has_prefix(s->nodes[i].value, key + strlen(text) + 1);
        if (!above && (!is_candidate(s, i) || !ls__is_below_key(text, key))) continue;
        *found = i;
        n++;
    }
    return n == 1;
}

ls_status ls__torch_search(ls__pickle *p, const ls__pickle_value *root, const char *key,
                           const ls__pickle_value **dict, const char **found)
{
    search s = { .p = p };
    char name[KEY_SIZE];
    size_t i = 0;
    LS_TRY(walk(&s, root));
    if (s.max_tensors == 0) return fail_object(&s, root);
    const bool is_there = key && select_key(&s, key, &i);
    if (!is_there && !select_usual(&s, &i)) return fail_choice(&s, key);
    *dict = s.nodes[i].value;
    if (key && !is_there && !has_prefix(*dict, key)) return fail_choice(&s, key);
    *found = ls__bump_strdup(p->bump, key_text(&s, i, name));
    return *found ? LS_OK : ls__pickle_fail_memory(p);
}
