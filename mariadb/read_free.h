/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Read-free apply: a replica changes rows without reading them (docs/rfcs/0013-read-free-apply.md). What of it does not
 * belong to one handler.
 */
#ifndef FROND_READ_FREE_H
#define FROND_READ_FREE_H

#include <cstdint>
#include <string>

class THD;
struct TABLE;

/* Whether the row event that this thread applies has whole rows of `table` as they were before their change, from a
 * table of the same definition. False for everything that is no such event. */
bool frond_event_has_old_rows(THD *thd, TABLE *table);
/* Whether the transaction runs ahead of earlier ones: what it finds in a table may be older than it expects. */
bool frond_runs_ahead(THD *thd);

/* Whether the next row is to be compared with what is stored: frond_read_free_verify in a million. */
bool frond_verifies_next_row();

/* Counters of SHOW STATUS. */
void frond_count_unread_row();
void frond_count_verified_row();
/* ... and names it in the error log. */
void frond_note_divergence(const std::string &what);

void frond_read_free_status(void (*add)(void *ctx, const char *name, uint64_t value), void *ctx);

#endif
