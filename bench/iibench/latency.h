/*
 * Latencies of one interval, in microseconds, in the order in which they happened.
 *
 * Purpose: the reader of the output computes exact percentiles over any span, so the client
 * hands over every sample instead of a histogram of its own choice (some 200 numbers a second).
 * Not here: locking. The owner does (iibench.c).
 */
#ifndef FROND_IIBENCH_LATENCY_H
#define FROND_IIBENCH_LATENCY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct latencies {
    uint32_t *us;
    size_t count;
    size_t capacity;
};

/* Appends one sample; ends the program when memory is exhausted. */
void latencies_add(struct latencies *list, uint64_t us);

/* Writes the samples as a JSON array and forgets them (memory is kept). */
void latencies_drain(struct latencies *list, FILE *out);

#endif
