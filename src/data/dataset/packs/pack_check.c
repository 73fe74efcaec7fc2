/* pack_check.c: checks a pack against its hashes. */
#include "data/dataset/packs/pack.h"

#include "base/context.h"
#include "base/error.h"
#include "base/path.h"
#include <lockstep/pack.h>
#include <stdio.h>
#include <string.h>

static bool all_zero(const uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (at[i] != 0) return false;
    return true;
}

typedef struct checking {
    ls_context *ctx;
    const char *path;
    ls__pack pack;
    uint64_t at; /* all bytes before it are checked */
    ls__buffer buffer;
} checking;

/* The writer leaves only zeros between the data of one sample and the next, fewer than a block. */
static bool is_gap(const checking *c, uint64_t end)
{
    return end >= c->at && end - c->at < LS__PACK_BLOCK;
}

/* Reads from c->at to `end` into the buffer, which is never NULL then. */
static ls_status read_to(checking *c, uint64_t end, char reason[LS__REASON_SIZE])
{
    const size_t bytes = (size_t)(end - c->at);
    if (!ls__buffer_reserve(c->ctx, &c->buffer, bytes + 1)) {
        snprintf(reason, LS__REASON_SIZE, "no memory for %zu bytes", bytes);
        return LS_ERR_MEMORY;
    }
    return ls__pack_pread(&c->pack, c->at, bytes, c->buffer.bytes, reason);
}

static ls_status check_sample(checking *c, int64_t i)
{
    const ls__pack_sample *s = &c->pack.samples[i];
    const char *name = ls__pack_text(&c->pack, s->name);
    char reason[LS__REASON_SIZE];
    bool sound = is_gap(c, s->offset);
    if (sound) {
        const ls_status status = read_to(c, s->offset + s->bytes, reason);
        if (status != LS_OK)
            return ls__fail(c->ctx, status, "pack '%s': image '%s': %s", c->path, name, reason);
        const size_t gap = (size_t)(s->offset - c->at);
        sound = all_zero(c->buffer.bytes, gap) && ls__pack_is_sound(s, c->buffer.bytes + gap);
    }
    c->at = s->offset + s->bytes;
    return sound ? LS_OK
                 : ls__fail(c->ctx, LS_ERR_FORMAT,
                            "pack '%s': damaged: image '%s', %llu bytes at offset %llu", c->path,
                            name, (unsigned long long)s->bytes, (unsigned long long)s->offset);
}

static ls_status check_data(checking *c, const ls_pack_config *config)
{
    c->at = LS__PACK_BLOCK;
    for (int64_t i = 0; i < c->pack.n_samples; i++) {
        if (config && config->progress && !config->progress(config->user, i, c->pack.n_samples))
            return ls__fail(c->ctx, LS_ERR_IO, "pack '%s': check stopped", c->path);
        LS_TRY(check_sample(c, i));
    }
    char reason[LS__REASON_SIZE] = "damaged before its index";
    ls_status status = LS_ERR_FORMAT;
    if (is_gap(c, c->pack.data_end)) {
        status = read_to(c, c->pack.data_end, reason);
        if (status == LS_OK && !all_zero(c->buffer.bytes, (size_t)(c->pack.data_end - c->at)))
            status = LS_ERR_FORMAT;
    }
    return status == LS_OK ? LS_OK : ls__fail(c->ctx, status, "pack '%s': %s", c->path, reason);
}

static ls_pack_summary summarize(const ls__pack *pack)
{
    ls_pack_summary out = { .n_splits = (int)pack->n_splits,
                            .n_samples = pack->n_samples,
                            .bytes = (int64_t)pack->bytes,
                            .pixels = pack->form == LS__PACK_PIXELS,
                            .resize = pack->resize };
    for (int64_t i = 0; i < pack->n_samples; i++)
        out.n_bad += pack->samples[i].state != LS__PACK_SOUND;
    return out;
}

ls_status ls_pack_check(ls_context *ctx, const char *path, const ls_pack_config *config,
                        ls_pack_summary *out)
{
    if (out) *out = (ls_pack_summary){ 0 };
    LS__ENTER(ctx);
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "ls_pack_check: no path given");
    checking c = { .ctx = ctx, .path = path };
    char reason[LS__REASON_SIZE];
    ls_status status = ls__pack_open(ctx, path, &c.pack, reason);
    if (status != LS_OK) return ls__fail(ctx, status, "pack '%s': %s", path, reason);
    status = check_data(&c, config);
    if (status == LS_OK && out) *out = summarize(&c.pack);
    ls__buffer_free(ctx, &c.buffer);
    ls__pack_close(&c.pack);
    return status;
}

bool ls_pack_holds(const char *path, int n, const char *const *splits, bool *found)
{
    const ls_context plain = { .allocator = ls__default_allocator };
    ls__pack pack;
    char reason[LS__REASON_SIZE];
    if (!path || !splits || !found) return false;
    const bool sound = ls__pack_open(&plain, path, &pack, reason) == LS_OK;
    const bool is_file = sound || ls__is_file(path);
    bool any = false;
    for (int i = 0; i < n; i++) {
        found[i] = splits[i] && (sound ? ls__pack_find_split(&pack, splits[i]) >= 0 : is_file);
        any = any || found[i];
    }
    if (sound) ls__pack_close(&pack);
    return any;
}
