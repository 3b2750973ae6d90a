/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Tables of information_schema: their plugins, for the declaration of the library.
 */
#ifndef FROND_INFORMATION_SCHEMA_H
#define FROND_INFORMATION_SCHEMA_H

#include <mysql/plugin.h>

extern st_maria_plugin frond_trx_plugin;
extern st_maria_plugin frond_locks_plugin;
extern st_maria_plugin frond_lock_waits_plugin;
extern st_maria_plugin frond_tables_plugin;
extern st_maria_plugin frond_trees_plugin;
/* information_schema_storage.cc */
extern st_maria_plugin frond_indexes_plugin;
extern st_maria_plugin frond_files_plugin;
extern st_maria_plugin frond_cache_plugin;
extern st_maria_plugin frond_jobs_plugin;

#endif
