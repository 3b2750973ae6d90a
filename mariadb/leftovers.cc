// SPDX-License-Identifier: GPL-2.0-only
//
// Tables of the core that the server does not know any more. Each partition is a table of the core. When the server drops or
// renames them all and is killed between two, its DDL log has the table but not its partitions: those are in the .par file,
// which goes first. What is left then goes in three places: at the start, once the DDL log has been worked off, if its name
// is one that ALTER TABLE gives; in DROP TABLE of the table that it was a partition of; and in DROP DATABASE.
//
// Partitions with names of their own stay at the start: the files of their table may just be missing.
//
// Tested in mysql-test/frond/t/leftovers.test.

#include "server.h"

#include "leftovers.h"

#include <algorithm>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

#include "foreign.h"
#include "log.h"
#include "plugin.h"
#include "schema.h"

// The core's names of tables that `chosen` takes.
template <typename Chosen> static std::vector<std::string> tables_where(Chosen chosen) {
    std::vector<std::string> names;
    auto collect = [](void *ctx, const char *name) { static_cast<std::vector<std::string> *>(ctx)->push_back(name); };
    if (frond_table_list(frond_database, collect, &names))
        sql_print_warning("Frond: looking for tables to drop: %s", frond_last_error());
    std::vector<std::string> taken;
    for (const std::string &name : names)
        if (chosen(name))
            taken.push_back(name);
    return taken;
}

void frond_drop_old_temporary() {
    auto old = [](const std::string &name) {
        return frond_is_temporary(name.c_str()) && name.find('/') == std::string::npos;
    };
    for (const std::string &name : tables_where(old))
        if (frond_table_discard(frond_database, name.c_str()))
            sql_print_warning("Frond: dropping an old temporary table: %s", frond_last_error());
}

// The name of the table that it is, or is a partition of.
static std::string whole_of(const std::string &name) {
    return name.substr(0, std::min(name.find("#P#"), name.find("#p#")));
}

// Whether the server has a file of the table.
static bool has_files(const std::string &whole) {
    const std::string path = std::string(mysql_real_data_home) + "/" + whole;
    return access((path + ".frm").c_str(), F_OK) == 0 || access((path + ".par").c_str(), F_OK) == 0;
}

// Not "#sqlx-": EXCHANGE PARTITION gives that name, and no .frm file, to the rows of a table, which the DDL log names again.
// Should that fail, these are all there is.
static bool has_name_of_alter(const std::string &name) {
    static const char PREFIX[] = "#sql-";
    const size_t slash = name.find('/');
    return slash != std::string::npos && !name.compare(slash + 1, sizeof PREFIX - 1, PREFIX);
}

// The other one of the two tables that an ALTER TABLE has: the copy, and what it replaces. "" for other names.
static std::string counterpart(const std::string &whole) {
    static const std::string KINDS[] = {"/#sql-alter-", "/#sql-backup-"};
    for (const std::string &kind : KINDS) {
        const size_t at = whole.find(kind);
        if (at != std::string::npos)
            return whole.substr(0, at) + KINDS[&kind == &KINDS[0] ? 1 : 0] + whole.substr(at + kind.size());
    }
    return "";
}

// Called once the DDL log has been worked off, and after INSTALL PLUGIN. While both tables of an ALTER TABLE are there, or a file
// of one, nothing is dropped: the server (10.11) fails to finish a copy of a partitioned table to another one, and leaves the
// table's name to neither.
static int after_recovery(handlerton *) {
    const std::vector<std::string> names = tables_where(has_name_of_alter);
    std::set<std::string> wholes;
    for (const std::string &name : names)
        wholes.insert(whole_of(name));
    for (const std::string &name : names) {
        const std::string whole = whole_of(name), other = counterpart(whole);
        if (has_files(whole) || (!other.empty() && (has_files(other) || wholes.count(other))))
            continue;
        if (frond_drop_with_foreigns(nullptr, name.c_str()))
            sql_print_warning("Frond: dropping '%s', which an interrupted ALTER TABLE left: %s", name.c_str(),
                              frond_last_error());
        else
            sql_print_information("Frond: dropped '%s', which an interrupted ALTER TABLE left", name.c_str());
    }
    return 0;
}

// Only for DROP TABLE: the DDL log asks for the original of an ALTER TABLE too, whose name new partitions may have already.
int frond_drop_partitions(THD *thd, const char *table) {
    if (!thd || thd_sql_command(thd) != SQLCOM_DROP_TABLE || has_files(table))
        return FROND_NOT_FOUND;
    const std::string prefixes[] = {std::string(table) + "#P#", std::string(table) + "#p#"};
    auto of_table = [&](const std::string &name) {
        return !name.compare(0, prefixes[0].size(), prefixes[0]) || !name.compare(0, prefixes[1].size(), prefixes[1]);
    };
    int result = FROND_NOT_FOUND;
    for (const std::string &name : tables_where(of_table)) {
        result = frond_drop_with_foreigns(thd, name.c_str());
        if (result)
            break;
    }
    return result;
}

// The server has dropped the tables that it knows, or will find this in its DDL log.
static void drop_database(handlerton *, char *path) {
    std::string prefix = frond_table_name(path);
    if (prefix.empty() || !frond_database)
        return;
    if (prefix.back() != '/')
        prefix.push_back('/');
    THD *thd = current_thd;
    auto inside = [&](const std::string &name) { return name.compare(0, prefix.size(), prefix) == 0; };
    const bool checks = thd && !thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS);
    for (const std::string &name : tables_where(inside))
        if (frond_table_drop_parent(frond_database, name.c_str(), checks ? prefix.c_str() : ""))
            sql_print_warning("Frond: DROP DATABASE: '%s' is left: %s", name.c_str(), frond_last_error());
}

void frond_install_leftovers(handlerton *hton) {
    hton->signal_ddl_recovery_done = after_recovery;
    hton->drop_database = drop_database;
}
