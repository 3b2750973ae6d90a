/* SPDX-License-Identifier: GPL-2.0-only
 *
 * System variables, table options and index options.
 */
#ifndef FROND_SETTINGS_H
#define FROND_SETTINGS_H

#include "frond_rows.h"

class THD;
struct st_mysql_sys_var;
struct st_ha_create_table_option;

/* CREATE TABLE ... PAGE_SIZE=, COMPRESSION=, COMPRESSION_LEVEL=. Zero means: as the variables say. */
struct ha_table_option_struct {
    ulonglong page_size;
    ulonglong compression_level;
    uint compression; /* enum frond_compression */
};

/* The same per index. CLUSTERING=YES: its entries have the whole row. */
struct ha_index_option_struct {
    ulonglong page_size;
    ulonglong compression_level;
    uint compression;
    bool clustering;
};

extern st_ha_create_table_option frond_table_options[];
extern st_ha_create_table_option frond_index_options[];
extern st_mysql_sys_var *frond_system_variables[];

/* Options for frond_open(), from the variables. */
frond_options frond_open_options();
/* The same for frond_open_scratch(). */
frond_options frond_scratch_options();
/* The others, for the open database. */
void frond_apply_settings();

/* Whether a backup may begin that will not include Frond's tables. */
bool frond_allows_incomplete_backup();
/* Milliseconds that a statement of this session waits for a row lock. */
uint64_t frond_lock_timeout_ms(THD *thd);
/* Whether a transaction fails on rows changed after its snapshot (frond_snapshot_isolation). */
bool frond_uses_snapshot_isolation(THD *thd);
/* frond_read_free_replication, frond_read_free_verify, frond_read_free_divergence. */
bool frond_applies_read_free(THD *thd);
unsigned long frond_read_free_verify();
bool frond_stops_at_divergence();
/* How rows per key count NULLs (frond_stats_method). */
enum Frond_stats_method : uint { FROND_NULLS_EQUAL, FROND_NULLS_UNEQUAL, FROND_NULLS_IGNORED };
Frond_stats_method frond_stats_method();
/* The default of new indexes. */
uint32_t frond_default_page_size(THD *thd);
uint32_t frond_default_compression(THD *thd);

#endif
