/* pack_check.c: looks at a pack without a data set: is all of it what was written, what is in it.
 */
#include "data/pack.h"

#include "base/error.h"
#include <lockstep/pack.h>
#include <string.h>
#include <sys/stat.h>

static bool all_zero(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at == 0) at++;
    return at == end;
}

/* The writer leaves no more than zeros between a sample's data and the next one's. */
static bool is_gap(const ls__pack *pack, uint64_t begin, uint64_t end)
{
    return end >= begin && end - begin < LS__PACK_BLOCK &&
           all_zero(pack->map + begin, pack->map + end);
}

static ls_status check_data(ls_context *ctx, const char *path, const ls__pack *pack,
                            const ls_pack_config *config)
{
    uint64_t at = LS__PACK_BLOCK;
    for (int64_t i = 0; i < pack->n_samples; i++) {
        if (config && config->progress && !config->progress(config->user, i, pack->n_samples))
            return ls__fail(ctx, LS_ERR_IO, "pack '%s': check stopped", path);
        if (!ls__pack_is_whole(pack))
            return ls__fail(ctx, LS_ERR_IO, "pack '%s': no longer as long as it was", path);
        const ls__pack_sample s = ls__pack_sample_at(pack, i);
        if (!is_gap(pack, at, s.offset) || !ls__pack_is_sound(pack, &s))
            return ls__fail(ctx, LS_ERR_FORMAT,
                            "pack '%s': damaged: image '%s', %llu bytes at %llu", path,
                            ls__pack_text(pack, s.name), (unsigned long long)s.bytes,
                            (unsigned long long)s.offset);
        at = s.offset + s.bytes;
    }
    if (is_gap(pack, at, (uint64_t)(pack->parts - LS__PACK_INDEX_BYTES - pack->map))) return LS_OK;
    return ls__fail(ctx, LS_ERR_FORMAT, "pack '%s': damaged before its index", path);
}

static ls_pack_summary summarise(const ls__pack *pack)
{
    ls_pack_summary out = { .n_parts = (int)pack->n_parts,
                            .n_samples = pack->n_samples,
                            .bytes = (int64_t)pack->bytes,
                            .pixels = pack->form == LS__PACK_PIXELS,
                            .resize = pack->resize };
    for (int64_t i = 0; i < pack->n_samples; i++)
        out.n_bad += ls__pack_sample_at(pack, i).state != LS__PACK_SOUND;
    return out;
}

ls_status ls_pack_check(ls_context *ctx, const char *path, const ls_pack_config *config,
                        ls_pack_summary *out)
{
    if (out) *out = (ls_pack_summary){ 0 };
    LS__ENTER(ctx);
    if (!path) return ls__fail(ctx, LS_ERR_INVALID, "ls_pack_check: no path given");
    ls__pack pack;
    char reason[LS__REASON_SIZE];
    ls_status status = ls__pack_map(path, &pack, reason);
    if (status != LS_OK) return ls__fail(ctx, status, "pack '%s': %s", path, reason);
    status = check_data(ctx, path, &pack, config);
    if (status == LS_OK && out) *out = summarise(&pack);
    ls__pack_unmap(&pack);
    return status;
}

static bool has_part(const ls__pack *pack, const char *name)
{
    for (int64_t i = 0; i < pack->n_parts; i++)
        if (strcmp(ls__pack_text(pack, ls__pack_part(pack, i).name), name) == 0) return true;
    return false;
}

bool ls_pack_holds(const char *path, int n, const char *const *parts, bool *held)
{
    ls__pack pack;
    char reason[LS__REASON_SIZE];
    struct stat there;
    if (!path || !parts || !held) return false;
    const bool sound = ls__pack_map(path, &pack, reason) == LS_OK;
    const bool is_file = sound || (stat(path, &there) == 0 && S_ISREG(there.st_mode));
    bool any = false;
    for (int i = 0; i < n; i++) {
        held[i] = parts[i] && (sound ? has_part(&pack, parts[i]) : is_file);
        any = any || held[i];
    }
    if (sound) ls__pack_unmap(&pack);
    return any;
}
