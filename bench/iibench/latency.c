#include "latency.h"

#include <stdlib.h>

void latencies_add(struct latencies *list, uint64_t us)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 1024 : list->capacity * 2;
        list->us = realloc(list->us, list->capacity * sizeof *list->us);
        if (list->us == NULL)
            abort();
    }
    list->us[list->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

void latencies_drain(struct latencies *list, FILE *out)
{
    fputc('[', out);
    for (size_t i = 0; i < list->count; i++)
        fprintf(out, i == 0 ? "%u" : ",%u", list->us[i]);
    fputc(']', out);
    list->count = 0;
}
