/* fuzz_csv.c: CSV files of paths and labels or numbers, with their own classes and with given ones.
 */
#include "fuzz.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char NAME[] = "x.csv";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const classes[] = { "cat", "dog" };
    char path[512];
    snprintf(path, sizeof(path), "%s", fuzz_file(NAME, data, size));
    for (int given = 0; given < 2; given++) {
        ls_dataset *list = ls_csv_open(fuzz_context(), path, given ? 2 : 0, given ? classes : NULL);
        const ls_status status = fuzz_error(NAME);
        FUZZ_CHECK((status == LS_OK) == (list != NULL));
        for (int64_t i = 0; i < ls_dataset_sample_count(list); i++) {
            const int label = ls_dataset_label(list, i), n = ls_dataset_target_count(list);
            FUZZ_CHECK(*ls_dataset_sample_path(list, i));
            for (int k = 0; k < n; k++) FUZZ_CHECK(isfinite(ls_dataset_targets(list, i)[k]));
            FUZZ_CHECK(n == 0 ? label >= 0 && label < ls_dataset_class_count(list)
                              : label == -1 && ls_dataset_class_count(list) == 0);
            FUZZ_CHECK(n > 0 || *ls_dataset_class_name(list, label));
        }
        for (int c = 1; list && !given && c < ls_dataset_class_count(list); c++)
            FUZZ_CHECK(strcmp(ls_dataset_class_name(list, c - 1), ls_dataset_class_name(list, c)) !=
                       0);
        ls_dataset_close(&list);
    }
    return 0;
}
