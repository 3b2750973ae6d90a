/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Shared by the files of the plugin: the handlerton and the open database.
 */
#ifndef FROND_PLUGIN_H
#define FROND_PLUGIN_H

#include "frond.h"

struct handlerton;
struct st_mysql_show_var;
class THD;

/* The directory of the core's database, within the data directory. The server cannot give this name to a database: it
   writes '#' as "@0023". */
static constexpr char FROND_DIRECTORY[] = "#frond";

/* The directory of the database of TEMPORARY tables; empty when the server starts. */
static constexpr char FROND_SCRATCH_DIRECTORY[] = "#frond_tmp";

extern handlerton *frond_hton;
/* NULL before the plugin is initialised and after it was closed. */
extern frond_db *frond_database;
/* The database of TEMPORARY tables, which the first of them opens; NULL when that fails, or with `opens` false before. */
frond_db *frond_scratch(bool opens);
/* The database of the table with that name in the core; as frond_scratch(). */
frond_db *frond_database_with(const char *table, bool opens = true);

/* status.cc */
extern st_mysql_show_var frond_status_variables[];
bool frond_show_status(handlerton *hton, THD *thd, stat_print_fn *print, enum ha_stat_type kind);

/* transaction.cc */
void frond_install_transactions(handlerton *hton);
/* `all` is false at the end of each statement; outside of a transaction that is also its end. */
bool frond_ends_transaction(THD *thd, bool all);

/* ha_frond_alter.cc */
void frond_install_alter(handlerton *hton);

/* xa.cc */
void frond_install_xa(handlerton *hton);
void frond_tell_of_prepared();

#endif
