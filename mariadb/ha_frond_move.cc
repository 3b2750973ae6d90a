// SPDX-License-Identifier: GPL-2.0-only
//
// Exporting and importing tables as files: FLUSH TABLES ... FOR EXPORT, ALTER TABLE ... DISCARD and IMPORT
// TABLESPACE.
//
// The core knows only its own directory. This file makes and removes two files in the directory of the SQL database:
// t.frd, a hard link to the table's file during an export, or another server's file to import; and t.cfg, its
// description.

#include "ha_frond.h"

#include <sys/stat.h>
#include <unistd.h>

#include "foreign.h"
#include "log.h"
#include "plugin.h"
#include "schema.h"
#include "settings.h"
#include "table_cache.h"

namespace {

const char DATA[] = ".frd", DESCRIPTION[] = ".cfg";

// The directory with the table's .frm file. The server runs in its data directory, so the path begins there.
std::string directory_of(const std::string &table) { return "./" + frond_database_of(table); }

std::string place(const std::string &table, const char *extension) {
    return directory_of(table) + "/" + frond_table_of(table) + extension;
}

void remove(const std::string &path) { my_delete(path.c_str(), MYF(0)); }

std::string failed(const char *doing, const std::string &path) {
    return std::string("cannot ") + doing + " " + path + ": " + strerror(errno);
}

// Writes a file that is whole and durable, or not there. Returns why it failed, or "".
std::string write_whole(const std::string &path, const uint8_t *bytes, size_t len) {
    const std::string made = path + ".new";
    remove(made);
    const File file = my_create(made.c_str(), 0, O_WRONLY | O_EXCL, MYF(0));
    bool bad = file < 0;
    if (!bad) {
        bad = my_write(file, bytes, len, MYF(MY_NABP)) || my_sync(file, MYF(0));
        bad |= my_close(file, MYF(0)) != 0;
        bad = bad || my_rename(made.c_str(), path.c_str(), MYF(0));
    }
    if (!bad)
        return "";
    const std::string why = failed("write", path);
    remove(made);
    return why;
}

// Makes the second name of the table's file. Replaces a link that an interrupted export left, but nobody's copy.
std::string link_file(const std::string &file, const std::string &path) {
    struct stat there;
    if (!stat(path.c_str(), &there)) {
        if (there.st_nlink < 2)
            return path + " is there already: move it away";
        remove(path);
    }
    return link(file.c_str(), path.c_str()) ? failed("link", path) : "";
}

int killed(void *ctx) { return thd_kill_level(static_cast<THD *>(ctx)) != THD_IS_NOT_KILLED; }

int report_progress(void *ctx, uint64_t done, uint64_t total) {
    thd_progress_report(static_cast<THD *>(ctx), done, total);
    return killed(ctx);
}

const char *collation_name(uint32_t number) { return get_charset_name(number); }

} // namespace

// ---------------------------------------------------------------- errors

int ha_frond::cannot_move(uint error, const std::string &why) {
    move_error_ = error;
    refusal_ = why;
    return HA_ERR_TABLESPACE_MISSING;
}

// The error of every statement that would read or write a discarded table.
int ha_frond::refuse_discarded() {
    move_error_ = 0;
    return HA_ERR_TABLESPACE_MISSING;
}

void ha_frond::print_move_error(myf flags) {
    if (move_error_)
        my_printf_error(move_error_, "Frond: %s", flags, refusal_.c_str());
    else if (table_ && !discarded_)
        // The discarded table is a parent or child of this one.
        my_printf_error(ER_TABLESPACE_DISCARDED, "Frond: %s", flags, frond_last_error());
    else
        my_error(ER_TABLESPACE_DISCARDED, flags, table_share->table_name.str);
    move_error_ = 0;
}

// ---------------------------------------------------------------- FLUSH TABLES ... FOR EXPORT

// The statement holds a lock against changes of the table until UNLOCK TABLES.
int ha_frond::begin_export(THD *thd) {
    exports_ = false;
    if (const int rc = frond_export_begin(table_, killed, thd, &export_)) {
        export_ = nullptr;
        return frond_to_handler_error(thd, rc);
    }
    exporting_ = true;
    const char *file = nullptr;
    const uint8_t *description = nullptr;
    size_t len = 0;
    frond_export_describe(export_, &file, &description, &len);
    const std::string data = place(name_, DATA), config = place(name_, DESCRIPTION);
    // An old description must not lie beside the new file.
    remove(config);
    std::string why = link_file(std::string("./") + FROND_DIRECTORY + "/" + file, data);
    if (why.empty()) {
        why = write_whole(config, description, len);
        if (!why.empty())
            remove(data);
    }
    if (why.empty())
        return 0;
    frond_export_end(export_);
    export_ = nullptr;
    exporting_ = false;
    return cannot_move(ER_FILE_NOT_FOUND, "table '" + name_ + "' is not exported: " + why);
}

void ha_frond::end_export() {
    if (!export_)
        return;
    remove(place(name_, DESCRIPTION));
    remove(place(name_, DATA));
    frond_export_end(export_);
    export_ = nullptr;
    exporting_ = false;
}

// ---------------------------------------------------------------- DISCARD, IMPORT

// As InnoDB does: rows of child tables would lose their parents.
int ha_frond::refuse_parent(THD *thd) {
    if (thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS))
        return 0;
    for (const Frond_foreign &f : frond_foreigns_of(name_, true))
        if (f.table != name_)
            return cannot_move(ER_ROW_IS_REFERENCED_2, "constraint '" + std::string(f.short_name()) + "' of table '" +
                                                           f.table + "' names this table; with foreign_key_checks=0 " +
                                                           "it can be discarded all the same");
    return 0;
}

int ha_frond::discard(THD *thd) {
    if (discarded_) {
        push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_TABLESPACE_MISSING,
                            ER_THD(thd, ER_TABLESPACE_MISSING), table_share->table_name.str);
        return 0;
    }
    if (const int error = refuse_parent(thd))
        return error;
    return frond_to_handler_error(thd, frond_table_discard_rows(frond_database, name_.c_str()));
}

int ha_frond::import(THD *thd) {
    const std::string data = place(name_, DATA);
    struct stat there;
    if (!stat(data.c_str(), &there) && there.st_nlink > 1)
        return cannot_move(ER_TABLESPACE_EXISTS,
                           data + " is a file in use, or a link to one: copy it, without links");
    frond_import *from = nullptr;
    const std::string base = frond_table_of(name_);
    const int opened = frond_import_begin(frond_database, name_.c_str(), directory_of(name_).c_str(),
                                          (base + DATA).c_str(), (base + DESCRIPTION).c_str(), collation_name, &from);
    switch (opened) {
    case FROND_OK:
        break;
    case FROND_MISMATCH:
        return cannot_move(ER_TABLE_SCHEMA_MISMATCH, "schema mismatch (" + std::string(frond_last_error()) + ")");
    case FROND_NOT_FOUND:
        return cannot_move(ER_TABLESPACE_MISSING, frond_last_error());
    case FROND_EXISTS:
        return cannot_move(ER_TABLESPACE_EXISTS, frond_last_error());
    default:
        return frond_to_handler_error(thd, opened);
    }
    const uint8_t *meta = nullptr;
    size_t len = 0;
    frond_import_meta(from, &meta, &len);
    const std::string differs = frond_members_mismatch(meta, len, Frond_schema(table), table);
    if (!differs.empty()) {
        frond_import_abandon(from);
        return cannot_move(ER_TABLE_SCHEMA_MISMATCH, "schema mismatch (file and table " + differs + ")");
    }
    thd_progress_init(thd, 1);
    const int rc = frond_import_run(from, report_progress, thd);
    thd_progress_end(thd);
    if (rc)
        return frond_to_handler_error(thd, rc);
    // The rows are imported: the files are not needed any more.
    remove(place(name_, DESCRIPTION));
    remove(data);
    return 0;
}

int ha_frond::discard_or_import_tablespace(my_bool discards) {
    if (keeps_sequence())
        return HA_ERR_WRONG_COMMAND;
    THD *thd = this->thd();
    if (table->s->tmp_table != NO_TMP_TABLE) {
        return cannot_move(ER_CANNOT_DISCARD_TEMPORARY_TABLE, ER_THD(thd, ER_CANNOT_DISCARD_TEMPORARY_TABLE));
    }
    if (const int error = discards ? discard(thd) : import(thd))
        return error;
    // The name now means another table of the core. No handler may stay bound to the old one.
    table->s->tdc->flush(thd, true);
    const std::string name = name_;
    unbind();
    if (const int error = bind(name.c_str()))
        return error;
    return frond_to_handler_error(thd, frond_table_refuse_older_snapshots(frond_database, name.c_str()));
}
