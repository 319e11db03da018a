/* evenkeel.h: looking into and steering the heap of libevenkeel.so.
 *
 * malloc and its family need no header but <stdlib.h> and <malloc.h>. A program that may run without
 * the library declares these weak, or looks them up with dlsym. */
#ifndef EVENKEEL_H
#define EVENKEEL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version, "0.1.0" or later. */
const char *evenkeel_version(void);

/* Writes the statistics as one JSON object into buffer, as snprintf does: at most len bytes, the last
 * of them zero. Returns the length of the whole text, which may be more. Allocates nothing. */
size_t evenkeel_stats_json(char *buffer, size_t len);

/* Gives back to the kernel all that is free, now. Returns how many bytes. */
size_t evenkeel_purge(void);

/* An option's value as text, as snprintf writes it; -1 if there is no such option. */
int evenkeel_option_get(const char *name, char *buffer, size_t len);

/* Sets an option. 0, or ENOENT (no such option), EPERM (it is read only at the start, from the
 * environment), EINVAL (not a value it takes). */
int evenkeel_option_set(const char *name, const char *value);

/* The table of options: fills row number index, from 0; -1 when there are no more. */
struct evenkeel_option {
    char name[32];
    char meaning[160];
    size_t value, default_value, most;
    int fixed; /* 1: only the environment sets it: EVENKEEL_NAME=value */
};
int evenkeel_option_row(size_t index, struct evenkeel_option *row);

#ifdef __cplusplus
}
#endif

#endif
