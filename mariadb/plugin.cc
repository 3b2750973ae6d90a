// SPDX-License-Identifier: GPL-2.0-only
//
// The plugin: its declaration, and opening and closing of the database in <datadir>/#frond.

#include "server.h"

#include "plugin.h"

#include <mutex>
#include <string>

#include "backup.h"
#include "errors.h"
#include "foreign.h"
#include "ha_frond.h"
#include "information_schema.h"
#include "leftovers.h"
#include "log.h"
#include "mysqld.h"
#include "schema.h"
#include "settings.h"
#include "transaction.h"
#include "waits.h"

handlerton *frond_hton;
frond_db *frond_database;
static frond_db *scratch_database;
static std::mutex scratch_guard;

// Exported by the server, but not declared in its headers for plugins.
extern bool ignore_db_dirs_append(const char *dirname_arg);

static std::string path_of(const char *directory) {
    return std::string(mysql_real_data_home) + "/" + directory;
}

static void log_message(void *, int level, const char *message) {
    switch (level) {
    case FROND_LOG_ERROR:
        sql_print_error("Frond: %s", message);
        break;
    case FROND_LOG_WARNING:
        sql_print_warning("Frond: %s", message);
        break;
    default:
        sql_print_information("Frond: %s", message);
    }
}

frond_db *frond_scratch(bool opens) {
    std::lock_guard<std::mutex> locked(scratch_guard);
    if (scratch_database || !opens || !frond_database)
        return scratch_database;
    frond_options options = frond_scratch_options();
    options.log = log_message;
    const std::string path = path_of(FROND_SCRATCH_DIRECTORY);
    if (const int rc = frond_open_scratch(path.c_str(), &options, &scratch_database))
        sql_print_error("Frond: cannot open %s: %s (%d)", path.c_str(), frond_last_error(), rc);
    return scratch_database;
}

frond_db *frond_database_with(const char *table, bool opens) {
    return frond_is_temporary(table) && !strchr(table, '/') ? frond_scratch(opens) : frond_database;
}

static handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *root) {
    return new (root) ha_frond(hton, share);
}

// Called for tables of any engine when a .frm file is missing: it must be cheap, and silent about
// tables of others.
static int drop_table(handlerton *, const char *path) {
    const char *name = frond_table_name(path);
    if (frond_is_temporary(path) && Frond_session::drops_later(current_thd, name))
        return 0;
    if (!frond_is_temporary(path)) {
        int rc = frond_drop_with_foreigns(current_thd, name);
        if (rc == FROND_NOT_FOUND)
            rc = frond_drop_partitions(current_thd, name);
        return rc == FROND_NOT_FOUND ? HA_ERR_NO_SUCH_TABLE : frond_to_handler_error(nullptr, rc);
    }
    frond_db *scratch = frond_scratch(false);
    const int rc = scratch ? frond_table_discard(scratch, name) : static_cast<int>(FROND_NOT_FOUND);
    return rc == FROND_NOT_FOUND ? HA_ERR_NO_SUCH_TABLE : frond_to_handler_error(nullptr, rc);
}

static void wipe_scratch() {
    if (frond_wipe_scratch(path_of(FROND_SCRATCH_DIRECTORY).c_str()))
        sql_print_warning("Frond: removing old temporary tables: %s", frond_last_error());
}

// Temporary tables of an earlier server process, whose sessions have ended. The server itself
// removes only those whose .frm file is in its current temporary directory.
static void drop_temporary_tables() {
    frond_drop_old_temporary();
    wipe_scratch();
}

static int close_database() {
    if (frond_db *scratch = frond_scratch(false)) {
        scratch_database = nullptr;
        frond_close(scratch);
        wipe_scratch();
    }
    frond_db *database = frond_database;
    frond_database = nullptr;
    if (database && frond_close(database)) {
        sql_print_error("Frond: closing: %s", frond_last_error());
        return 1;
    }
    return 0;
}

// The server fills in these members before it calls us. A plugin compiled against another layout of
// handlerton reads other values.
static bool layout_is_right(const handlerton *hton) {
    return hton->slot == HA_SLOT_UNDEF && hton->drop_table && hton->tablefile_extensions &&
           hton->discover_table_names && !hton->commit && !hton->create && !hton->flags;
}

static int init(void *p) {
    handlerton *hton = static_cast<handlerton *>(p);
    if (!layout_is_right(hton)) {
        sql_print_error("Frond: the plugin was not built for this server (%s): build it again with "
                        "this server's headers",
                        server_version);
        return 1;
    }
    frond_hton = hton;
    hton->flags = HTON_SUPPORTS_EXTENDED_KEYS | HTON_TRUNCATE_REQUIRES_EXCLUSIVE_USE |
                  HTON_REQUIRES_CLOSE_AFTER_TRUNCATE | HTON_SUPPORTS_FOREIGN_KEYS;
    hton->create = create_handler;
    hton->drop_table = drop_table;
    hton->show_status = frond_show_status;
    hton->table_options = frond_table_options;
    hton->index_options = frond_index_options;
    frond_install_transactions(hton);
    frond_install_xa(hton);
    frond_install_backup(hton);
    frond_install_alter(hton);
    frond_install_leftovers(hton);
    ignore_db_dirs_append(FROND_DIRECTORY);
    ignore_db_dirs_append(FROND_SCRATCH_DIRECTORY);

    const std::string path = path_of(FROND_DIRECTORY);
    frond_options options = frond_open_options();
    options.log = log_message;
    if (const int rc = frond_open(path.c_str(), &options, &frond_database)) {
        sql_print_error("Frond: cannot open %s: %s (%d)", path.c_str(), frond_last_error(), rc);
        return 1;
    }
    frond_watch_waits(frond_database);
    frond_apply_settings();
    drop_temporary_tables();
    frond_tell_of_prepared();
    return 0;
}

static int deinit(void *) { return close_database(); }

static st_mysql_storage_engine storage_engine = {MYSQL_HANDLERTON_INTERFACE_VERSION};

maria_declare_plugin(frond){
    MYSQL_STORAGE_ENGINE_PLUGIN,
    &storage_engine,
    "Frond",
    "The Frond authors",
    "Write-optimised transactional engine: buffered trees, snapshot isolation, row locks",
    PLUGIN_LICENSE_GPL,
    init,
    deinit,
    0x0001,
    frond_status_variables,
    frond_system_variables,
    "0.1",
    MariaDB_PLUGIN_MATURITY_EXPERIMENTAL,
},
    frond_trx_plugin, frond_locks_plugin, frond_lock_waits_plugin, frond_tables_plugin, frond_trees_plugin, frond_indexes_plugin,
    frond_files_plugin, frond_cache_plugin, frond_jobs_plugin maria_declare_plugin_end;
