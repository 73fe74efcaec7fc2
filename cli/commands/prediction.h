/* prediction.h: prints the predictions of 'lockstep predict' as text, JSON or CSV. */
#ifndef LS_CLI_COMMANDS_PREDICTION_H
#define LS_CLI_COMMANDS_PREDICTION_H

#include "cli.h"

typedef struct prediction_printer {
    ls_context *ctx;
    const ls_model_info *info;
    int64_t top; /* number of classes to print for each image */
    bool json, csv;
} prediction_printer;

/* The first line of CSV. */
void prediction_print_header(const prediction_printer *printer);
/* The classes with the largest of values[n_classes], which are set to -1; of a model of numbers all
 * values. */
void prediction_print(const prediction_printer *printer, const char *path, float *values);
/* JSON alone has an object for an image without a prediction. */
void prediction_print_error(const prediction_printer *printer, const char *path,
                            const char *reason);

/* Whether the path can be an image or a folder of images; else prints what it is. A list is refused
 * only where it is the only path; of several paths it is one that can't be read. */
bool prediction_reads(const char *path, bool is_only);

#endif
