/* event_reader.h: reads event files: frames with their CRCs, and the fields of the messages that
 * Lockstep writes. */
#ifndef LS_TESTS_IO_EVENT_READER_H
#define LS_TESTS_IO_EVENT_READER_H

#include <stdbool.h>
#include <stdint.h>

enum { EVENT_TAG_SIZE = 128, EVENT_BUCKETS = 256 };

/* A value of an event. The event of a file's beginning and that of a session have one, without a
 * tag. */
typedef struct event_value {
    double wall_time;
    int64_t step;
    char version[32];   /* of the file */
    bool session_start; /* the event begins a session */
    char tag[EVENT_TAG_SIZE];
    bool has_scalar;
    double scalar;
    int64_t height, width, channels; /* of an image; 0 = none */
    const unsigned char *png;        /* into the bytes that were read */
    uint64_t png_bytes;
    int n_buckets; /* of a histogram; 0 = none */
    double min, max, count, sum, squares;
    double limits[EVENT_BUCKETS], buckets[EVENT_BUCKETS];
} event_value;

/* Calls visit for each value. Returns the number of whole records. The test fails unless all CRCs
 * are right, and the bytes end with a record. */
int read_events(const unsigned char *bytes, uint64_t size,
                void (*visit)(void *user, const event_value *value), void *user);

/* The same for all event files of a folder, in the order of their names. */
int read_event_folder(const char *dir, void (*visit)(void *user, const event_value *value),
                      void *user);

#endif
