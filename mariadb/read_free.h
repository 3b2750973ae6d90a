/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Read-free apply: a replica changes rows without reading them (docs/rfcs/0013-read-free-apply.md). This is the part
 * that does not belong to a handler.
 */
#ifndef FROND_READ_FREE_H
#define FROND_READ_FREE_H

#include <cstdint>
#include <string>

class THD;
struct TABLE;

/* Whether this thread applies a row event that has all columns of the old rows, for `table`, with the primary's table
 * of the same definition. */
bool frond_event_has_old_rows(THD *thd, TABLE *table);
/* Whether earlier transactions may not have been applied yet, so that a table may have older rows than expected. */
bool frond_runs_ahead(THD *thd);

/* Whether the next row is to be compared with what is stored: frond_read_free_verify in a million. */
bool frond_verifies_next_row();

/* Counters of SHOW STATUS. */
void frond_count_unread_row();
void frond_count_verified_row();
/* Counts a divergence, and writes it to the error log. */
void frond_note_divergence(const std::string &what);

void frond_read_free_status(void (*add)(void *ctx, const char *name, uint64_t value), void *ctx);

#endif
