/* card.c: what a checkpoint says beside its weights; see card.h. */
#include "card.h"
#include "run/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const stem_words[] = { "auto", "small", "large" };
static const char *const exif_words[] = { "ignored", "honoured" };
static const char *const decode_words[] = { "exact", "fast" };
static const char *const shortcut_words[] = { "projection", "parameter-free" };

int card_write(const model_card *card, card_metadata *out)
{
    int n = 0, text = 0;
    out->pairs[n++] = "model";
    out->pairs[n++] = card->model->name;
    out->pairs[n++] = "stem";
    out->pairs[n++] = stem_words[card->options.stem];
    out->pairs[n++] = "shortcuts";
    out->pairs[n++] = shortcut_words[card->options.parameter_free_shortcuts];
    out->pairs[n++] = "resize";
    snprintf(out->texts[text], CARD_TEXT, "%lld", (long long)card->resize);
    out->pairs[n++] = out->texts[text++];
    out->pairs[n++] = "exif";
    out->pairs[n++] = exif_words[card->exif];
    out->pairs[n++] = "decode";
    out->pairs[n++] = decode_words[card->decode];
    return n;
}

/* ---- Reading ---- */

static int find_word(const char *word, int n, const char *const *words)
{
    for (int i = 0; word && i < n; i++)
        if (strcmp(word, words[i]) == 0) return i;
    return -1;
}

static bool read_side(const char *text, int64_t *out)
{
    char *end;
    *out = text ? strtoll(text, &end, 10) : 0;
    return text && *text && !*end && *out > 0 && *out <= MAX_IMAGE_SIZE;
}

static bool read_channels(const char *text, float out[3])
{
    json_t *array = text ? json_loads(text, 0, NULL) : NULL;
    bool good = json_array_size(array) == 3;
    for (size_t i = 0; good && i < 3; i++) {
        const json_t *number = json_array_get(array, i);
        good = json_is_number(number);
        out[i] = (float)json_number_value(number);
    }
    json_decref(array);
    return good;
}

static bool read_classes(ls_context *ctx, const char *text, model_card *out)
{
    out->json = text ? json_loads(text, 0, NULL) : NULL;
    const size_t n = json_array_size(out->json);
    const char **classes = n ? calloc(n, sizeof(*classes)) : NULL;
    out->classes = classes;
    out->options.n_classes = (int64_t)n;
    for (size_t i = 0; classes && i < n; i++) {
        json_t *name = json_array_get(out->json, i);
        if (!json_is_string(name) || !ls__json_restore(ctx, name)) return false;
        classes[i] = json_string_value(name);
    }
    return classes != NULL;
}

/* The first key whose value cannot be used, or NULL. */
static const char *read_keys(ls_context *ctx, const ls_tensor_file *file, model_card *out)
{
    const char *model = ls_tensor_file_metadata(file, "model");
    out->model = ls_model_find(model);
    if (!out->model) return "model";
    const int stem = find_word(ls_tensor_file_metadata(file, "stem"), 3, stem_words);
    if (stem < 0) return "stem";
    out->options.stem = (ls_stem)stem;
    const int shortcut = find_word(ls_tensor_file_metadata(file, "shortcuts"), 2, shortcut_words);
    if (shortcut < 0) return "shortcuts";
    out->options.parameter_free_shortcuts = shortcut == 1;
    const int exif = find_word(ls_tensor_file_metadata(file, "exif"), 2, exif_words);
    if (exif < 0) return "exif";
    out->exif = exif == 1;
    /* Older files do not say: there was one way only. */
    const char *decode_word = ls_tensor_file_metadata(file, "decode");
    const int decode = decode_word ? find_word(decode_word, 2, decode_words) : LS_DECODE_EXACT;
    if (decode < 0) return "decode";
    out->decode = (ls_decode)decode;
    if (!read_side(ls_tensor_file_metadata(file, "crop"), &out->image_size)) return "crop";
    if (!read_side(ls_tensor_file_metadata(file, "resize"), &out->resize)) return "resize";
    if (!read_channels(ls_tensor_file_metadata(file, "mean"), out->mean)) return "mean";
    if (!read_channels(ls_tensor_file_metadata(file, "std"), out->std)) return "std";
    if (!read_classes(ctx, ls_tensor_file_metadata(file, "classes"), out)) return "classes";
    return NULL;
}

bool card_read(ls_context *ctx, const cli_verb *verb, const char *path, model_card *out)
{
    *out = (model_card){ 0 };
    if (is_folder(path)) {
        print_text(
            stderr,
            "lockstep %s: --checkpoint %s: a folder; expected a file such as best.safetensors "
            "in a run's folder\n",
            verb->name, path);
        return false;
    }
    ls_tensor_file *file = ls_tensor_file_open(ctx, path);
    if (!file) {
        print_error(verb, ctx, EXIT_RUNTIME);
        return false;
    }
    const char *key = read_keys(ctx, file, out);
    const char *value = key ? ls_tensor_file_metadata(file, key) : NULL;
    if (key)
        print_text(
            stderr,
            "lockstep %s: %s: %s '%s' in its metadata%s%s; checkpoints of 'lockstep train' say "
            "all that is needed\n",
            verb->name, path, value ? "unusable" : "no", key, value ? ": " : "",
            value ? value : "");
    if (key) card_close(out);
    ls_tensor_file_close(&file);
    return !key;
}

void card_close(model_card *card)
{
    free((void *)card->classes);
    json_decref(card->json);
    card->classes = NULL;
    card->json = NULL;
}

/* ---- Use ---- */

ls_net *card_open_net(ls_context *ctx, const model_card *card, const char *path, int64_t batch,
                      ls_precision precision, bool with_loss)
{
    ls_net_config config = {
        .input = { .image = { LS_U8, LS_SHAPE(batch, card->image_size, card->image_size, 3) },
                   .n_classes = with_loss ? (int)card->options.n_classes : 0 },
        .loss = { .kind = with_loss ? LS_CROSS_ENTROPY : LS_NO_LOSS },
        .precision = precision,
        .inference = true
    };
    memcpy(config.input.mean, card->mean, sizeof(card->mean));
    memcpy(config.input.std, card->std, sizeof(card->std));
    ls_net *net = ls_net_build(ctx, card->model->function, &card->options, &config);
    if (net && ls_checkpoint_load_weights(path, net) != LS_OK) ls_net_close(&net);
    return net;
}

ls_loader_config card_loader_config(const model_card *card, int64_t batch)
{
    ls_loader_config config = {
        .batch = batch,
        .honour_exif = card->exif,
        .decode = card->decode,
        .resize = card->resize,
        .crop = card->image_size,
    };
    memcpy(config.mean, card->mean, sizeof(config.mean));
    memcpy(config.std, card->std, sizeof(config.std));
    return config;
}
