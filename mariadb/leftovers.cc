// SPDX-License-Identifier: GPL-2.0-only
//
// Tables of the core that the server does not know any more. Each partition is a table of the core. When the server drops or
// renames them all and is killed between two, its DDL log has the table but not its partitions: those are in the .par file,
// which goes first. What is left then goes in DROP TABLE of the table that it was a partition of, and in DROP DATABASE.
//
// At the start it is only reported, for it may be the only copy of rows: the server renames files of a table also when the engine
// could not rename its rows, and EXCHANGE PARTITION has rows under a name that never has a file.
//
// Tested in mysql-test/frond/t/leftovers.test.

#include "server.h"

#include "leftovers.h"

#include <algorithm>
#include <cerrno>
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
    // Any other failure than "no such file" says nothing about the file.
    auto is_there = [](const std::string &file) { return access(file.c_str(), F_OK) == 0 || errno != ENOENT; };
    return is_there(path + ".frm") || is_there(path + ".par");
}

// Called once the DDL log has been worked off, and after INSTALL PLUGIN: until then the server may name these tables again.
static int after_recovery(handlerton *) {
    std::set<std::string> left;
    for (const std::string &name : tables_where([](const std::string &name) { return name.find("/#sql-") != name.npos; }))
        if (!has_files(whole_of(name)))
            left.insert(whole_of(name));
    for (const std::string &whole : left)
        sql_print_warning("Frond: '%s' has rows but no .frm file: an interrupted ALTER TABLE left it. If no other table lacks "
                          "these rows, drop it: DROP TABLE `#mysql50#%s`",
                          whole.c_str(), whole.c_str() + whole.find('/') + 1);
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
