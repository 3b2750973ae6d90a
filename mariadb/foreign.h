/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Foreign keys between the server's words and the core's (ha_frond_foreign.cc, foreign.cc).
 *
 * The core names a table by its path ("database/table", encoded for the file system) and a constraint by
 * "database/name", where the database is encoded and the name is not.
 */
#ifndef FROND_FOREIGN_NAMES_H
#define FROND_FOREIGN_NAMES_H

#include <string>
#include <utility>
#include <vector>

#include "frond_foreign.h"

class THD;
class Alter_info;
struct TABLE;

/* What comes between the table's name and a number in a generated name. */
static constexpr char FROND_GENERATED[] = "_ibfk_";

/* A foreign key as the core has it, copied. */
struct Frond_foreign {
    std::string name, table, parent;
    std::vector<std::string> columns, parent_columns;
    uint32_t on_delete = FROND_RESTRICT, on_update = FROND_RESTRICT, state = FROND_FOREIGN_ACTIVE;
    std::string child_index, parent_index;
    std::vector<uint8_t> nullable;

    Frond_foreign() = default;
    explicit Frond_foreign(const frond_foreign &from);
    const char *short_name() const;
};

/* Definitions as the core reads them. What they were made of must outlive them. */
struct Frond_definitions {
    explicit Frond_definitions(const std::vector<Frond_foreign> &all);
    std::vector<std::vector<const char *>> names;
    std::vector<frond_foreign> foreigns;
};

/* Foreign keys of `table`, or with `as_parent` those that name it; also waiting ones and those of copies. */
std::vector<Frond_foreign> frond_all_foreigns(const std::string &table, bool as_parent);
/* The same, without waiting ones and without those that the table is being given; as parent also without those of copies
 * that ALTER TABLE fills. */
std::vector<Frond_foreign> frond_foreigns_of(const std::string &table, bool as_parent);

/* frond_foreigns_of() a table in both roles, as of a frond_foreign_version(). */
struct Frond_foreigns {
    uint64_t version = 0;
    std::vector<Frond_foreign> of, naming;
    /* Those of `naming` whose parent the table fits as it is: the others are not enforced. ALTER TABLE may make it fit. */
    std::vector<Frond_foreign> enforced;
    /* Databases and names of the other tables that are parents of this one. */
    std::vector<std::pair<std::string, std::string>> parents;
};

/* The encoded form of an identifier, and back; the parts of a core's table name. */
std::string frond_to_file(const std::string &name);
std::string frond_from_file(const std::string &encoded);
std::string frond_database_of(const std::string &table);
std::string frond_table_of(const std::string &table);

/* Whether the core's table name is one that ALTER TABLE gives to copies and to what they replace. */
bool frond_is_copy(const char *table);
/* Takes those out of `all` that an ALTER TABLE drops. Sends an error for one that is not there. */
int frond_leave_dropped(std::vector<Frond_foreign> *all, const Alter_info *alter);
/* Names of the foreign keys of `table` that an ALTER TABLE drops. Sends an error for one that is not there. */
int frond_dropped_foreigns(const std::string &table, const Alter_info *alter, std::vector<std::string> *names);
/* Those that an ALTER TABLE of `table`, whose new definition is `form`, adds in place. Returns false when it has to
 * copy the table to do that. */
bool frond_added_foreigns(const std::string &table, const char *table_name, const Alter_info *alter, const TABLE *form,
                          std::vector<Frond_foreign> *added);
/* Keeps the definitions of the parents of `added` until the statement ends, with a metadata lock that waits for an ALTER TABLE of
 * them; for one of type MDL_SHARED_NO_WRITE also for earlier statements that write them. Sends an error when one is
 * system-versioned, where a DELETE leaves a row with the parent's key behind: only the server knows. `own`: the table itself,
 * whose new definition tells. Returns whether an error was sent. */
bool frond_lock_parents(THD *thd, const std::vector<Frond_foreign> &added, const std::string &own, enum_mdl_type type);
/* Whether the columns have that name among them. */
bool frond_has_column(const std::vector<std::string> &columns, const char *name);
/* The index that the constraint in the last error needs; "" if that error was about something else. `original` is the
 * table that `table` is a copy of, or `table` itself. */
std::string frond_missing_index(const char *table, const std::string &original);
/* Renames with what becomes of foreign keys. Returns a FROND_ code. */
int frond_rename_with_foreigns(THD *thd, const char *from, const char *to);
/* Drops unless the session's settings and its statement forbid to leave children behind. */
int frond_drop_with_foreigns(THD *thd, const char *table);

#endif
