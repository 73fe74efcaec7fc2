/* bad_images.c: which images on_bad_image applies to. A result must not depend on an error that may
 * pass, so only unusable contents are replaced, and files that were missing from the beginning. */
#include "base/error.h"
#include "data/loader/loader.h"
#include <errno.h>
#include <sys/stat.h>

/* A list may name files that do not exist, and a folder may hold links to nowhere. */
ls_status ls__loader_find_missing(ls_loader *loader)
{
    const ls_dataset *dataset = loader->dataset;
    if (loader->config.on_bad_image != LS_BAD_IMAGE_SKIP || !dataset->paths ||
        ls__dataset_whole(dataset)->pack)
        return LS_OK;
    struct stat there;
    loader->missing = ls__bump_alloc(&loader->bump, (size_t)dataset->n_samples);
    if (!loader->missing)
        return ls__fail_memory(loader->owned.ctx, "ls_loader_open", (size_t)dataset->n_samples);
    for (int64_t i = 0; i < dataset->n_samples; i++)
        loader->missing[i] = stat(ls_dataset_sample_path(dataset, i), &there) != 0 &&
                             (errno == ENOENT || errno == ENOTDIR);
    return LS_OK;
}

bool ls__loader_is_unusable(const ls_loader *loader, int64_t sample, ls_status status)
{
    const ls_dataset *dataset = loader->dataset;
    if (status == LS_ERR_DATA) return true;
    if (!ls__is_bad_image(status)) return false;
    if (loader->config.on_bad_image != LS_BAD_IMAGE_SKIP) return true; /* no image replaces it */
    if (loader->missing && loader->missing[sample]) return true;
    dataset = ls__dataset_source(dataset, &sample);
    return dataset->pack && ls__dataset_packed(dataset, sample)->state != LS__PACK_SOUND;
}
