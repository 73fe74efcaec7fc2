/* planted.h: a clean folder of images, and one with a known list of faults. */
#ifndef LS_TESTS_DATA_PLANTED_H
#define LS_TESTS_DATA_PLANTED_H

#include <lockstep/dataset_check.h>
#include <stdint.h>

/* u8 [height,width,3], which the caller frees: smooth colours that differ from seed to seed and do
 * not depend on the size, so that the same scene in two sizes looks the same. */
uint8_t *draw_scene(int height, int width, unsigned seed);

/* train/ and val/ with 3 classes of 4 images each. */
void make_clean_folder(const char *folder);

/* A finding that `ls_dataset_check` must report; the reason contains `reason`. */
typedef struct planted_fault {
    ls_finding_kind kind;
    const char *path, *reason;
} planted_fault;

/* Adds the faults to a clean folder. */
void plant_faults(const char *folder);
/* In the order of a report. */
enum { N_PLANTED = 42 };
extern const planted_fault planted[N_PLANTED];

#endif
