/* event_file.h: event files, which TensorBoard reads: TFRecord frames (length, masked CRC-32C,
 * data, masked CRC-32C) around protobuf messages `Event` of TensorFlow's event.proto and
 * summary.proto.
 *
 *     LS_TRY(ls__event_file_create(ctx, path, now, &file));
 *     ls__event_begin(file, now, step);
 *     ls__event_add_scalar(file, "loss", 0.5);
 *     LS_TRY(ls__event_commit(file));
 */
#ifndef LS_IO_EVENT_FILE_H
#define LS_IO_EVENT_FILE_H

#include <lockstep/context.h>

typedef struct ls__event_file ls__event_file;

/* Creates a file, which must not exist, and writes the event that begins it. Times are in seconds
 * since 1970. LS_ERR_IO names the path and the system's reason. */
ls_status ls__event_file_create(ls_context *ctx, const char *path, double wall_time,
                                ls__event_file **out);
void ls__event_file_close(ls__event_file **file);

/* Begins an event, which has a step. Later calls add to it. */
void ls__event_begin(ls__event_file *file, double wall_time, int64_t step);
/* The event begins a session, and has nothing else: readers drop the events of this step and of
 * later steps that they have read before. */
void ls__event_add_session_start(ls__event_file *file);
void ls__event_add_scalar(ls__event_file *file, const char *tag, double value);
/* pixels: [height][width][channels], 1 channel = grey, 3 = RGB. */
void ls__event_add_image(ls__event_file *file, const char *tag, int64_t height, int64_t width,
                         int64_t channels, const unsigned char *pixels);
/* Of the finite values, in 64 intervals of equal width from the smallest to the largest one. */
void ls__event_add_histogram(ls__event_file *file, const char *tag, int64_t n, const float *values);
/* Appends the event to the file. After a failure the file has its previous length. */
ls_status ls__event_commit(ls__event_file *file);

/* CRC-32C of the bytes after those whose CRC is `crc`, which is 0 for the first ones. */
uint32_t ls__crc32c(uint32_t crc, const unsigned char *bytes, size_t size);
/* The masked form of TFRecord, which is for data that contains CRCs. */
uint32_t ls__mask_crc(uint32_t crc);

#endif
